"""Readers of compressed files, archives, open files and tensors, beside plain Matrix Market texts."""

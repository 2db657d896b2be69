"""Kernels under test: built, packed, compared with the default kernel and timed."""

"""Triton source emitted from device schedules, packed operands, and launches. Triton is imported where it is used."""

"""Triton source generated from device schedules, packed operands, and launches. Triton is imported on first use."""

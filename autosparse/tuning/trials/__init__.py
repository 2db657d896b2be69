"""Candidate kernels of a search: build them, pack the operand, compare with the default kernel, and time them."""

"""Experiments of `benchmarks/transfer.py`: matrices, stored times, methods, tables."""

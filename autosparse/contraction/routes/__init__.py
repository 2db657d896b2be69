"""Compute common einsums by existing products and NumPy operations, which beat a generated program."""

"""Semirings, sums of terms, requests of einsums, and dense contractions that NumPy lacks."""

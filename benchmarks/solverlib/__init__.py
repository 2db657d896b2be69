"""Whole solves: the systems, who solves them, the process that does, and the tables (`benchmarks/solvers.py`)."""

"""Whole solves for `benchmarks/solvers.py`: systems, contenders and the child process."""

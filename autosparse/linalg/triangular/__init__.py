"""Triangular systems, and preconditioners made of them: Gauss-Seidel and incomplete factorizations."""

"""Planner of products of two sparse matrices, loaded where registered solvers compete for them."""

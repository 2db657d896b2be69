"""Solvers that compete with the built-in kernels: registered ones and vendors' libraries."""

"""Least squares by Golub-Kahan bidiagonalisation: `lsqr` and `lsmr`."""

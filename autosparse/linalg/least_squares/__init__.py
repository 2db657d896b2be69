"""Least squares by the bidiagonalisation of Golub and Kahan: `lsqr` and `lsmr`."""

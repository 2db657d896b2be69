"""Ways of holding a matrix and of changing it between products, for `benchmarks/holding.py`."""

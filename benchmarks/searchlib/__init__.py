"""Search strategies that `benchmarks/search_compare.py` compares on one cost model."""

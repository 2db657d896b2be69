"""What `benchmarks/einsum.py` measures: one module per question."""

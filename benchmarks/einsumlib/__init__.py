"""Benchmarks of `benchmarks/einsum.py`, one module per subcommand."""

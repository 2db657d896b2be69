"""Benchmarks for asv: first call, steady call, overhead of a call, break-even."""

"""Shared parts of the benchmark scripts: cases, peers, timing, statistics, records. It has no heavy imports."""

"""Benchmarks for asv: first call, steady call, overhead of a call, break-even."""

import sys
from pathlib import Path

# asv finds this package by an importer of its own; peerlib, which the scripts beside it share, needs the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

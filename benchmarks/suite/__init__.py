"""Benchmarks for asv: every operation and surface, whole programs, first calls, overhead of a call, break-even."""

import sys
from pathlib import Path

# asv imports this package with its own importer, so the folder with peerlib must be added to the path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

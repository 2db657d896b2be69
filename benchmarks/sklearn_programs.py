"""Time sixteen fits of scikit-learn with `scipy.sparse` and with `autosparse`, each run in a fresh process.

    python benchmarks/sklearn_programs.py --rounds 5 --out benchmarks/results/sklearn_programs.jsonl

Arguments, clock, comparison of answers and interval are those of `benchmarks/programs.py`.
"""

from __future__ import annotations

import sys

from programs import main

if __name__ == "__main__":
    sys.exit(main(group="sklearn"))

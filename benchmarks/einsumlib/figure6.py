"""Benchmark `figure6`, after Figure 6 of the paper: numbers of programs, of the frontier and of its classes of cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from einsumlib.report import rows_of, table

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the tests enumerate every program

from tests.einsum.figure6 import NAMED, Frontier, full_frontier, taco_frontier

WITHOUT_TACO: Final = {"SSpGEMM"}
"""Kernels that the paper does not give to the TACO compiler."""


def measured(folder: Path, only: list[str] | None = None) -> list[dict[str, Any]]:
    """Return the counts of each kernel, with every choice of protocols and with those of the TACO compiler."""
    wanted = [name for name in NAMED if not only or name in only]
    rows = [row for row in rows_of("figure6") if row["kernel"] not in wanted]
    for name in wanted:
        rows.append(_row(name, "all", full_frontier(NAMED[name], keep_outer=True)))
        if name not in WITHOUT_TACO:
            rows.append(_row(name, "TACO's", taco_frontier(NAMED[name])))
        print(*rows[-1].values(), flush=True)
    return rows


def _row(name: str, protocols: str, found: Frontier) -> dict[str, Any]:
    counts = {"programs": found.n_programs, "frontier": found.n_frontier, "classes": len(found.classes)}
    return {"kernel": name, "protocols": protocols, **counts}


def as_table(rows: list[dict[str, Any]]) -> str:
    heads = ["kernel", "protocols", "programs", "in the frontier", "classes of equal cost in it"]
    return table(heads, [[str(value) for value in row.values()] for row in rows])

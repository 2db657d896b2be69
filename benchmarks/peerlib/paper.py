"""WACO's own comparison (paper, Tables 4 and 5): speed over TACO's default schedule and over MKL, beside the paper's.

TACO with its default schedule is the peer "taco" if an adapter provides it. Otherwise its loop written in C stands for
it ("openmp": CSR or CSF, threads take 128 or 32 rows at a time). MKL is the inspector-executor, with or without hint,
whichever is faster. The published figures are for 726 matrices, 256 columns (16 in MTTKRP), 24 cores, icc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from peerlib.case import Operation
from peerlib.summary import Distribution, ratios
from peerlib.table import markdown


@dataclass(frozen=True, slots=True)
class Opponent:
    """A column of the paper's tables: the peers that stand for it and its published figures."""

    title: str
    names: tuple[tuple[str, ...], ...]  # the first group with a peer that ran counts, by its fastest peer
    published: Mapping[str, float]  # operation -> geometric mean of WACO's speedup

    def ratio(self, against: Mapping[str, float]) -> float | None:
        """Return the opponent's time over ours, or None if none of its peers ran."""
        for group in self.names:
            found = [against[name] for name in group if name in against]
            if found:
                return min(found)
        return None


OPPONENTS: Final = (
    Opponent(
        "TACO's default schedule",
        (("taco",), ("openmp",)),
        {"spmv": 1.54, "spmm256": 1.26, "sddmm256": 1.29, "mttkrp16": 1.35},  # Table 5, Fixed CSR
    ),
    Opponent("MKL", (("mkl", "mkl-hint"),), {"spmv": 2.32, "spmm256": 1.68}),  # Table 4, schedule-only
)
ORDER: Final = ("spmv", "spmm", "sddmm", "mttkrp")
"""Kinds of operations in the paper's order; other kinds are not part of the table."""


def paper_table(records: Sequence[Mapping[str, Any]], ours: Mapping[bool, str]) -> str:
    """Format a row per operation: opponents' time over ours (geometric mean, 5th percentile) and WACO's speedup."""
    header = ["operation"]
    for opponent in OPPONENTS:
        header += [f"over {opponent.title}", "5 %", "matrices", "WACO"]
    operations = [Operation.parse(name) for name in dict.fromkeys(record["operation"] for record in records)]
    rows = [header]
    for operation in sorted((one for one in operations if one.kind in ORDER), key=_place):
        chosen = [record for record in records if record["operation"] == operation.name]
        rows.append([operation.name, *(cell for opponent in OPPONENTS for cell in _cells(opponent, chosen, ours))])
    return markdown(rows)


def _cells(opponent: Opponent, records: Sequence[Mapping[str, Any]], ours: Mapping[bool, str]) -> list[str]:
    found = []
    for record in records:
        times_s = {name: timing["median_s"] for name, timing in record["times"].items()}
        ratio = opponent.ratio(ratios(times_s, record["fills"], ours))
        if ratio is not None:
            found.append(ratio)
    published = opponent.published.get(records[0]["operation"])
    paper = "-" if published is None else f"{published:.2f}"
    if not found:
        return ["-", "-", "0", paper]
    distribution = Distribution.of(found)
    return [f"{distribution.geomean:.2f}", f"{distribution.p5:.2f}", str(distribution.n), paper]


def _place(operation: Operation) -> tuple[int, int, int]:
    """Return the sort key of a row: kind in the paper's order, then descending columns, then mode."""
    return ORDER.index(operation.kind), -operation.n_dense_cols, operation.mode

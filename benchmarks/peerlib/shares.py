"""Shares of a benchmark's cases, which make a single run short: ``--part 2/4`` is the second of four shares."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Case = TypeVar("Case")


def add_part(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--part``."""
    parser.add_argument("--part", type=read_part, default=(1, 1), metavar="K/N", help="only the K-th of N shares")


def read_part(text: str) -> tuple[int, int]:
    """Return (K, N) of a text "K/N"; raise ArgumentTypeError unless 1 <= K <= N."""
    try:
        k, n = map(int, text.split("/"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form K/N, such as 2/4") from None
    if not 1 <= k <= n:
        raise argparse.ArgumentTypeError(f"{text!r}: K must lie between 1 and N")
    return k, n


def share(cases: Sequence[Case], part: tuple[int, int]) -> list[Case]:
    """Return every N-th case from the K-th on; shares of a list sorted by cost take equally long."""
    k, n = part
    return list(cases[k - 1 :: n])


def machine_line(run: Mapping[str, Any]) -> str:
    """Return machine and versions of a run's facts as the last line of a page of results."""
    versions, target = run["versions"], run["target"]
    packages = ", ".join(f"{name} {versions[name]}" for name in ("numpy", "scipy", "autosparse") if name in versions)
    return f"{target['cpu']}, {target['n_cores']} cores, {target['isa']}; Python {run['python']}, {packages}."

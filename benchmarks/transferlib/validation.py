"""Selection of the transfer that ships: candidates are compared on the pool alone, so test matrices select nothing.

A hash splits the pool's groups into halves. Models (including the source's) are trained on one half and evaluated on
the other, in N_DRAWS draws of five matrices each. A candidate's score is the median over the draws of both halves.
"""

from __future__ import annotations

import dataclasses
import hashlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from peerlib.table import markdown

from transferlib.methods import METHODS, make_bench
from transferlib.world import Matrix, Score, World, draws, score

N_DRAWS: Final = 6
K: Final = 5
CANDIDATES: Final = (
    "pattern-blind", "no-transfer trees with counts", "source + residual", "mean of two sources + residual",
    "source + trees with counts",
)  # fmt: skip


def _is_first(matrix: Matrix) -> bool:
    return hashlib.blake2b(matrix.named.group.encode(), digest_size=1, person=b"halves").digest()[0] % 2 == 0


def halved(world: World, *, first: bool) -> World:
    """Return a world that trains on one half of the pool and evaluates on the other."""
    learn = [one for one in world.pool if _is_first(one) == first]
    return dataclasses.replace(world, pool=learn, judged=[one for one in world.pool if _is_first(one) != first])


def validated(world: World, source: World, say: Callable[[str], object]) -> dict[str, list[Score]]:
    """Return the scores of all draws by candidate."""
    found: dict[str, list[Score]] = {name: [] for name in CANDIDATES}
    for first in (True, False):
        half = halved(world, first=first)
        bench = make_bench(half, halved(source, first=first))
        for draw in draws(half, N_DRAWS):
            for name in CANDIDATES:
                found[name].append(score(half, METHODS[name].run(bench, draw, K)))
        say(f"{world.target.name} {world.operation}: half {2 - first} of 2")
    return found


def table(found: Mapping[str, Mapping[str, Sequence[Score]]]) -> str:
    """Format the rows of all questions' candidates, in Markdown."""
    rows = [["question", "transfer", "top 1 of the optimum", "lower quartile", "top 5"]]
    for question, candidates in found.items():
        for name, scores in candidates.items():
            one, five = ([each.shares[at] for each in scores] for at in (0, 1))
            quartile = statistics.quantiles(one, n=4)[0]
            rows.append(
                [question, name, f"{statistics.median(one):.3f}", f"{quartile:.3f}", f"{statistics.median(five):.3f}"]
            )
    return f"{HEAD}\n{markdown(rows)}\n"


HEAD: Final = """# Which transfer ships: candidates on the pool alone

Written by `python benchmarks/transfer.py --validate`. Models are trained on half of the pool's groups and tested on the
other half, and vice versa, with five matrices per draw. The test matrices of `transfer.md` are in neither half.
"""

"""Benchmark `figure8`, after Figure 8 of the paper: its fastest programs, and the ranks of their costs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from autosparse.contraction.assignments import TensorAssignment
from autosparse.contraction.cin.nodes import Loop, Statement, Where, reads
from autosparse.contraction.cin.parser import parse
from autosparse.contraction.cost.estimate import Estimator
from autosparse.contraction.operands import Sparse
from autosparse.contraction.programs.protocols import with_protocols
from einsumlib.figure6 import NAMED, Frontier, taco_frontier
from einsumlib.figure7 import DENSITY, operand
from einsumlib.inputs import Problem
from einsumlib.report import rows_of, table

FIGURE_8: Final = {
    "SpMV": "∀ij a[i] += B[i:l,j:s] * c[j]",
    "SpMV2": "∀ij a[i] += B[i:l,j:s] * w1[j:l] where ∀jk w1[j] += C[j:l,k:s] * d[k]",
    "SpGEMM": "∀ikj A[i,j] += B[i:l,k:s] * C[j:s,k:l]",
    "SpGEMM2": "∀i (∀jl A[i,j] += D[j:s,l:s] * w1[l:l] where ∀kl w1[l] += B[i:l,k:s] * C[k:l,l:s])",
    "SpGEMMH": "∀jki A[i,j] += B[i:s,k:l] * C[j:s,k:s] * D[j:l,k:s]",
    "SpMTTKRP": "∀jlki A[i,j] += B[i:s,k:s,l:l] * C[j:s,k:s] * D[j:s,l:s]",
}
"""Fastest programs that the paper measured, by kernel."""
EXTENT: Final = 128
"""Extent of every index of the uniform patterns on which costs are estimated; their density is that of `figure7`."""


def measured(_: Path, only: list[str] | None = None) -> list[dict[str, Any]]:
    """Return a row per kernel; rows of kernels that are not in `only` are taken from the previous run."""
    wanted = [name for name in FIGURE_8 if not only or name in only]
    rows = [row for row in rows_of("figure8") if row["kernel"] not in wanted]
    for name in wanted:
        rows.append(row_of(name))
        print(*rows[-1].values(), flush=True)
    return sorted(rows, key=lambda row: list(FIGURE_8).index(row["kernel"]))


def row_of(name: str) -> dict[str, Any]:
    """Return the paper's program of a kernel, and the rank and relative estimated cost of its class, if it has one."""
    kernel, wanted = NAMED[name], shape_of(parse(FIGURE_8[name]))
    found = taco_frontier(kernel)
    of_class = {shape_of(with_protocols(one.program, one.steps)): found.classes[one.rank] for one in found.members()}
    costs = estimates(kernel, found)
    mine = costs.get(of_class.get(wanted, -1))
    rank = None if mine is None else 1 + sum(cost < mine for cost in costs.values())
    over = None if mine is None else mine / min(costs.values())
    return {"kernel": name, "program": FIGURE_8[name], "rank": rank, "classes": len(costs), "over the lowest": over}


def estimates(kernel: TensorAssignment, found: Frontier) -> dict[int, float]:
    """Return the estimated number of tasks of each class of a frontier on uniform patterns."""
    rng = np.random.default_rng(0)
    sparse = [access for access in reads(kernel.statement) if kernel.is_sparse(access.tensor)]
    drawn = [operand(rng, (EXTENT,) * len(access.indices), DENSITY) for access in sparse]
    subscripts = ",".join("".join(access.indices) for access in sparse)
    prepared = Problem(f"{subscripts}->{''.join(kernel.indices)}", drawn).prepared
    patterns = {access.tensor: one for access, one in zip(sparse, prepared, strict=True) if isinstance(one, Sparse)}
    estimator = Estimator(found.model.sets.plain, patterns, [EXTENT] * len(kernel.indices))
    return {tasks: estimator.cost(tasks) for tasks in found.classes}


def shape_of(node: Statement) -> Any:
    """Return a form of the program that does not depend on the order of factors."""
    if isinstance(node, Loop):
        return node.indices, shape_of(node.body)
    if isinstance(node, Where):
        return "where", shape_of(node.consumer), shape_of(node.producer)
    return str(node.lhs), node.op, frozenset(map(str, reads(node.rhs)))


def as_table(rows: list[dict[str, Any]]) -> str:
    """Format the rows."""
    heads = ("kernel", "the paper's program", "rank of its cost", "classes", "its cost over the lowest")
    return table(heads, [[f"`{row['program']}`" if name == "program" else row[name] for name in row] for row in rows])

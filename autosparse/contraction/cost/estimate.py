"""Estimate the number of tasks of a query on actual sparsity patterns, by joins of sampled entries in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from autosparse.contraction.cin.nodes import Assign, Loop, reads
from autosparse.contraction.cost.queries import Atom
from autosparse.contraction.cost.tasks import PlainQuery, bits
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower.ordered_entries import keys
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import FEW_ROWS, MAX_EMPTY_ROWS, Sparse
from autosparse.core.dtypes import Real, WideIndex
from autosparse.targets.priors import number

N_SAMPLES: Final = 512
"""Number of samples per query. More samples reduce the variance and take proportionally longer."""
FARTHEST: Final = number("programs", "farthest")
"""Ratio of row lengths above which kernels search the longer row instead of scanning it (`lower.products`)."""
SCANNED: Final = 0.5
"""Cost of comparing one entry of a scanned row with the marks of the other row, in tasks."""
MET: Final = number("programs", "met")
"""Cost of starting the intersection of a pair of rows, in tasks."""


class Estimator:
    """Estimator of the number of tuples of each of `queries` for given operands, by sampling with a fixed seed."""

    def __init__(self, queries: Sequence[PlainQuery], operands: Mapping[str, Sparse], extents: Sequence[int]) -> None:
        self._queries = queries
        self._operands = operands
        self._extents = extents
        self._sizes: dict[int, float] = {}
        self._meetings: dict[tuple[str, ...], float] = {}
        self._rows: dict[tuple[str, ...], AnyArray] = {}
        self._indexed: dict[tuple[str, tuple[int, ...]], tuple[AnyArray, AnyArray]] = {}

    def cost(self, tasks: int) -> float:
        """Return the sum of the estimated sizes of the queries whose bits are set in `tasks`."""
        return sum(map(self.size, bits(tasks)))

    def size(self, number: int) -> float:
        """Return the estimated number of tuples of the query with this number, cached."""
        if number not in self._sizes:
            self._sizes[number] = self._measure(number)
        return self._sizes[number]

    def meetings(self, plan: EinsumPlan) -> float | None:
        """Return the cost in tasks of `plan` if its innermost loop intersects rows of two matrices, else None.

        The cost is counted exactly. For each entry of the matrix with the outer indices, the kernel either scans one
        row against marks of the other, or searches the longer row for the shorter one's entries.
        """
        found = _met(plan)
        if found is None:
            return None
        outer, pair = found
        matrices = self._operands
        driver = next((name for name, one in matrices.items() if set(one.indices) == set(outer)), None)
        if driver is None or len(outer) != 2 or any(len(matrices[name].indices) != 2 for name in pair):
            return None
        staying, changing = sorted(pair, key=lambda name: outer.index(plan.orders[name][0]))
        key = (staying, changing, driver, plan.orders[staying])
        if key not in self._meetings:
            stays, changes = (self._lengths(name, plan.orders[name][0], driver) for name in (staying, changing))
            searched = stays * np.log2(np.maximum(changes, 2.0) / np.maximum(stays, 1.0))
            work = np.where(changes <= FARTHEST * stays, SCANNED * changes, searched)
            self._meetings[key] = float(work.sum() + MET * work.size)
        return self._meetings[key]

    def _lengths(self, name: str, index: str, driver: str) -> AnyArray:
        """Return, for each entry of matrix `driver`, how many entries of matrix `name` have its coordinate `index`."""
        key = (name, index, driver)
        if key not in self._rows:
            matrix, asking = self._operands[name], self._operands[driver]
            mode = matrix.indices.index(index)
            own, asked = matrix.coords[mode], asking.coords[asking.indices.index(index)]
            if matrix.shape[mode] <= MAX_EMPTY_ROWS * matrix.nnz + FEW_ROWS:
                counts = np.bincount(own, minlength=matrix.shape[mode])[asked]
            else:
                own = np.sort(own)
                counts = np.searchsorted(own, asked, "right") - np.searchsorted(own, asked, "left")
            self._rows[key] = counts.astype(Real)
        return self._rows[key]

    def _measure(self, number: int) -> float:
        query = self._queries[number]
        heads = set(bits(query.heads))
        atoms = _connected(query.atoms, heads)
        bound: dict[int, AnyArray] = {}
        weights = np.ones(N_SAMPLES)
        rng = np.random.default_rng(0)
        while atoms:
            atom = max(atoms, key=lambda one: (len(bound.keys() & set(one[1])), len(heads & set(one[1]))))
            atoms.remove(atom)
            # Once every head is bound, the remaining atoms only filter.
            leads_on = any(heads & set(args) - bound.keys() for _, args in (atom, *atoms))
            self._join(atom, bound, weights, leads_on, rng)
        free = math.prod(float(self._extents[head]) for head in heads - bound.keys())
        whole = math.prod(float(self._extents[head]) for head in heads)
        return float(min(weights.mean() * free, whole))

    def _join(
        self, atom: Atom, bound: dict[int, AnyArray], weights: AnyArray, leads_on: bool, rng: np.random.Generator
    ) -> None:
        """Join the samples `bound` with the entries of the atom's tensor, in place, and update `weights`.

        Each sample is extended by a random matching entry. Its weight is multiplied by the number of matches if
        `leads_on`, else by 1 or 0.
        """
        tensor, args = atom
        operand = self._operands[tensor]
        modes = tuple(mode for mode, variable in enumerate(args) if variable in bound)
        key, order = self._index(tensor, modes)
        wanted = np.stack([bound[args[mode]] for mode in modes]) if modes else np.zeros((0, N_SAMPLES), WideIndex)
        probe = keys(wanted, [operand.shape[mode] for mode in modes]) if modes else np.zeros(N_SAMPLES, WideIndex)
        first, last = np.searchsorted(key, probe, "left"), np.searchsorted(key, probe, "right")
        counts = last - first
        weights *= counts if leads_on else counts > 0
        if not operand.nnz:
            weights[:] = 0
            return
        place = first + (rng.random(N_SAMPLES) * counts).astype(WideIndex)
        chosen = order[np.minimum(place, operand.nnz - 1)]
        for mode, variable in enumerate(args):
            bound.setdefault(variable, operand.coords[mode][chosen])

    def _index(self, tensor: str, modes: tuple[int, ...]) -> tuple[AnyArray, AnyArray]:
        """Return the sorted keys of the tensor's entries by these modes, and the number of the entry of each key."""
        found = self._indexed.get((tensor, modes))
        if found is None:
            operand = self._operands[tensor]
            key = keys(operand.coords[list(modes)], [operand.shape[mode] for mode in modes])
            is_sorted = operand.sorted_by is not None and operand.sorted_by[: len(modes)] == "".join(
                operand.indices[mode] for mode in modes
            )
            order = np.arange(operand.nnz) if is_sorted or not modes else np.argsort(key, kind="stable")
            found = self._indexed[tensor, modes] = key[order], order
        return found


def _met(plan: EinsumPlan) -> tuple[list[str], list[str]] | None:
    """Return (outer loop indices, the two sparse inputs that the innermost loop steps through together), or None."""
    node = plan.program
    bound: list[str] = []
    while not isinstance(node, Assign):
        if isinstance(node, Loop):
            bound += node.indices
            node = node.body
        elif plan.spaces[node.workspace].indices:
            return None
        else:
            node = node.producer
    if len(bound) < 3:
        return None
    readers = [access.tensor for access in reads(node.rhs) if bound[-1] in access.indices]
    if len(readers) != 2 or any(name not in plan.sparse for name in readers):
        return None
    is_stepped = all(plan.protocol(name, bound[-1]) == "s" and plan.orders[name][-1] == bound[-1] for name in readers)
    return (bound[:-1], readers) if is_stepped else None


def _connected(atoms: Sequence[Atom], heads: set[int]) -> list[Atom]:
    """Return the atoms that share a variable with `heads`, directly or through other atoms.

    All other atoms only state that operands are not empty.
    """
    known, left = set(heads), list(atoms)
    found: list[Atom] = []
    while True:
        near = [atom for atom in left if known & set(atom[1])]
        if not near:
            return found
        found += near
        left = [atom for atom in left if atom not in near]
        known |= {variable for atom in near for variable in atom[1]}

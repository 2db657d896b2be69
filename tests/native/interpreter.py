"""Interpreter of the loop IR in plain Python on packed arrays: slow and simple, the oracle for all emitters.

Every node does what its docstring in `ir` says. No code is shared with the emitters.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.lower import lower
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.storage import slices
from autosparse._native.storage.packing import PackedOperand
from autosparse._native.storage.structure import PackedStructure
from autosparse._native.storage.tensors import PackedTensor
from numpy.typing import NDArray

from autosparse.core.expression import Access

Array = NDArray[Any]  # float32 or float64
Env = dict[str, int]  # coordinates, positions, extents and the current tile


@dataclass
class _Machine:
    """Operands and state of one run."""

    packed: PackedOperand | PackedStructure | PackedTensor
    values: Array  # of the sparse operand by position, or of a structure by entry
    dense: Mapping[str, Array]  # operands and output by tensor name
    splits: Mapping[str, int]
    n_threads: int
    chunk: int
    # Accumulators by depth of the workspace: one dict per copy.
    accumulators: list[list[dict[tuple[int, ...], Any]]] = field(default_factory=list)
    copy: int = 0
    saw_non_finite: bool = False

    def run(self, program: ir.Program, n_j: int) -> None:
        """Run the program on operands without an empty index."""
        _run(program.body, {f"n_{index}": size for index, size in self.packed.sizes.items()} | {"n_j": n_j}, self)


def interpret(
    spec: KernelSpec,
    packed: PackedOperand,
    B: Array,
    n_threads: int = 1,
    *,
    flags: list[int] | None = None,
    onto: Array | None = None,
) -> Array:
    """Return ``C = op(A) @ B`` as `spec` computes it; `flags` receives the kernel's return value (1: saw non-finite).

    A spec that adds computes ``onto + op(A) @ B``.
    """
    C = _dense_product(spec, packed, [B], n_threads, flags=flags, onto=onto)
    return C.reshape((packed.sizes["i"], *B.shape[1:]))


def interpret_mttkrp(
    spec: KernelSpec,
    packed: PackedTensor,
    factors: Sequence[Array],
    n_threads: int = 1,
    *,
    flags: list[int] | None = None,
) -> Array:
    """Return ``M[i,j] = sum T[i,k,l,...] B[k,j] C[l,j] ...``; `factors` belong to the other modes, in order."""
    return _dense_product(spec, packed, factors, n_threads, flags=flags)


def interpret_sddmm(
    spec: KernelSpec, packed: PackedStructure, values: Array, X: Array, Y: Array, *, n_threads: int = 1
) -> Array:
    """Return ``values[e] * sum_j X[i_e, j] Y[k_e, j]`` for each entry e of the pattern, in its order."""
    program = lower(spec)
    dense, n_j = _columns_of(program, [X, Y])
    out = np.full(packed.pattern.nnz, np.nan, dtype=values.dtype)
    if n_j == 0:
        np.multiply(values[: out.size], values.dtype.type(0), out=out)
        return out
    if min(packed.sizes.values()) > 0:
        dense[program.expression.output.tensor] = out
        _Machine(packed, values, dense, _splits(spec), n_threads, spec.schedule.chunk).run(program, n_j)
    return out


def _dense_product(
    spec: KernelSpec,
    packed: PackedOperand | PackedTensor,
    operands: Sequence[Array],
    n_threads: int,
    *,
    flags: list[int] | None,
    onto: Array | None = None,
) -> Array:
    """Return the output as an array of (rows, columns)."""
    program = lower(spec)
    output = program.expression.output
    dense, n_j = _columns_of(program, operands)
    shape = (packed.sizes["i"], n_j) if len(output.indices) == 2 else (packed.sizes["i"],)
    result = np.full(shape, np.nan, dtype=operands[0].dtype)
    if onto is not None:
        result[...] = onto.reshape(shape)
    if min(packed.sizes.values()) == 0:
        result[...] = 0 if onto is None else result
    else:
        dense[output.tensor] = result
        numbers = packed.numbers if isinstance(packed, PackedOperand) else packed.values
        machine = _Machine(packed, numbers, dense, _splits(spec), n_threads, spec.schedule.chunk)
        machine.run(program, n_j)
        if flags is not None:
            flags.append(int(machine.saw_non_finite))
    return result.reshape(packed.sizes["i"], n_j)


def _splits(spec: KernelSpec) -> dict[str, int]:
    return dict(spec.schedule.format.splits) | dict(spec.schedule.dense_splits)


def _columns_of(program: ir.Program, operands: Sequence[Array]) -> tuple[dict[str, Array], int]:
    """Return dense operands by name and the number of columns.

    Operands are vectors where the program has no loop over columns.
    """
    n_j = operands[0].shape[1] if operands[0].ndim == 2 else 1
    named = zip(program.expression.dense, operands, strict=True)
    return {a.tensor: x if x.ndim == len(a.indices) else x.reshape(x.shape[0]) for a, x in named}, n_j


def _run(nodes: Iterable[ir.Node], env: Env, machine: _Machine) -> bool:
    """Run `nodes` in order; return False when a guard ended this iteration."""
    return all(RULES[type(node)](node, env, machine) is not False for node in nodes)


def _handed_out(values: list[Any], parallel: bool, machine: _Machine) -> list[Any]:
    """Return iterations in the order of threads: chunks go to the threads in turn, and the last thread comes first."""
    if not parallel or machine.n_threads == 1:
        return values
    size = max(1, machine.chunk)
    chunks = [values[at : at + size] for at in range(0, len(values), size)]
    by_thread = [chunks[thread :: machine.n_threads] for thread in reversed(range(machine.n_threads))]
    return [value for taken in by_thread for chunk in taken for value in chunk]


def _extent(extent: ir.Extent, env: Env) -> int:
    partner = extent.coordinate.partner
    return extent.value(env[f"n_{extent.coordinate.index}"], env[partner] if extent.partner_bound and partner else 0)


def _for_dense(node: ir.ForDense, env: Env, machine: _Machine) -> None:
    for value in _handed_out(list(range(_extent(node.extent, env))), node.parallel, machine):
        _run(node.body, env | {node.coordinate.name: value}, machine)


def _for_tiles(node: ir.ForTiles, env: Env, machine: _Machine) -> None:
    index, tile = node.coordinate.index, node.coordinate.split
    n = env[f"n_{index}"]
    for start in _handed_out(list(range(0, n, tile)), node.parallel, machine):
        at, end = start, min(start + tile, n)
        for width in node.widths:
            while at + width <= end:
                _run(node.body, env | {index: at, f"{index}_width": width}, machine)
                at += width
        if at < end:  # a masked tile for the remainder
            _run(node.body, env | {index: at, f"{index}_width": end - at}, machine)


def _fiber(level: ir.StoredLevel, env: Env, machine: _Machine) -> tuple[int, int]:
    pos = machine.packed.pos[level.name]
    parent = 0 if level.parent is None else env[f"p_{level.parent}"]
    return int(pos[parent]), int(pos[parent + 1])


def _for_stored(node: ir.ForStored, env: Env, machine: _Machine) -> None:
    name = node.level.name
    crd = machine.packed.crd[name]
    low, high = _fiber(node.level, env, machine)
    n_steps = (high - low) // node.unroll * node.unroll
    for p in _handed_out(list(range(low, high)), node.parallel, machine):
        machine.copy = (p - low) % node.unroll if p - low < n_steps and not node.jam else 0
        _run(node.body, env | {f"p_{name}": p, name: int(crd[p])}, machine)
        machine.copy = 0


def _locate(node: ir.Locate, env: Env, machine: _Machine) -> None:
    parent = 0 if node.level.parent is None else env[f"p_{node.level.parent}"]
    env[f"p_{node.level.name}"] = parent * _extent(node.extent, env) + env[node.level.name]


def _fetch(node: ir.Fetch, env: Env, machine: _Machine) -> None:
    name, parent = node.level.name, env[f"p_{node.level.parent}"]
    env[f"p_{name}"], env[name] = parent, int(machine.packed.crd[name][parent])


def _search(node: ir.CoordinateSearch, env: Env, machine: _Machine) -> None:
    name = node.level.name
    crd = machine.packed.crd[name]
    low, high = _fiber(node.level, env, machine)
    if machine.packed.is_sorted(name):
        low = bisect.bisect_left(crd, env[name], low, high)
        high = bisect.bisect_right(crd, env[name], low, high)
    for p in range(low, high):
        if crd[p] == env[name]:
            _run(node.body, env | {f"p_{name}": p}, machine)


def _index(coordinate: ir.Coordinate, env: Env) -> int:
    """Return the value of the index that `coordinate` is a part of."""
    index = coordinate.index
    if coordinate.split == 1:
        return env[f"{index}1"]
    return env[f"{index}1"] * coordinate.split + env[f"{index}0"]


def _guard(node: ir.Guard, env: Env, machine: _Machine) -> bool:
    return _index(node.coordinate, env) < env[f"n_{node.coordinate.index}"]


def _cells(block: ir.Block, env: Env) -> Iterable[Env]:
    """Yield one environment per multiply-add of the block, with all coordinates bound."""
    extents = [range(env.get(f"{c.index}_width", c.split)) for c in block.coordinates]
    for values in itertools.product(*extents):
        yield env | {c.name: value for c, value in zip(block.coordinates, values, strict=True)}


def _indices(access: Access, cell: Env, machine: _Machine) -> tuple[int, ...]:
    values = []
    for index in access.indices:
        if f"{index}_width" in cell:
            values.append(cell[index] + cell[f"{index}0"])
        else:
            split = machine.splits.get(index, 1)
            values.append(cell[f"{index}1"] * split + (cell[f"{index}0"] if split > 1 else 0))
    return tuple(values)


def _position(node: ir.Block, cell: Env, machine: _Machine) -> int:
    """Return the position of a cell of the block in the last level."""
    for level in node.levels:
        _locate(ir.Locate(level, ir.Extent(level.coordinate, partner_bound=False)), cell, machine)
    return cell[f"p_{machine.packed.fmt.order[-1]}"]


def _factor(access: Access, cell: Env, machine: _Machine) -> Any:
    """Return the value of a dense operand; positions in the padding read its last row or column."""
    pairs = zip(_indices(access, cell, machine), access.indices, strict=True)
    at = [min(value, cell[f"n_{index}"] - 1) for value, index in pairs]
    if machine.packed.fmt.rows and access.indices[0] == "i":
        at[0] = int(machine.packed.crd["rows"][at[0]])
    return machine.dense[access.tensor][tuple(at)]


def _accumulate(node: ir.Block, env: Env, machine: _Machine) -> None:
    target = machine.accumulators[-1][machine.copy]
    zero = machine.values.dtype.type(0)
    for cell in _cells(node, env):
        value = machine.values.dtype.type(1)
        for access in node.factors:
            is_sparse = access == node.expression.sparse
            value = value * (
                machine.values[_position(node, cell, machine)] if is_sparse else _factor(access, cell, machine)
            )
        where = _indices(node.expression.output, cell, machine)
        target[where] = target.get(where, zero) + value


def _workspace(node: ir.Workspace, env: Env, machine: _Machine) -> None:
    """Load, run the body, multiply by the factors outside the body, and store what lies inside the output."""
    cells = {_indices(node.output, cell, machine): cell for cell in _cells(node.block, env)}
    zero = machine.values.dtype.type(0)
    is_first = all(env.get(name, env.get(name[:-1], 0)) == 0 for name in node.first)
    loads = node.init == "load" or (node.init == "first" and not is_first)
    machine.accumulators.append([dict.fromkeys(cells, zero), *({} for _ in range(node.copies - 1))])
    _run(node.body, env, machine)
    copies = machine.accumulators.pop()
    totals = {at: sum((copy.get(at, zero) for copy in copies), start=zero) for at in cells}
    if node.block.expression.sampled:
        _store_sampled(node, {at: (cells[at], totals[at]) for at in cells}, machine, loads=loads)
        return
    output = machine.dense[node.output.tensor]
    rows = machine.packed.crd["rows"] if machine.packed.fmt.rows else None
    for at, sum_ in totals.items():
        if not all(v < n for v, n in zip(at, output.shape, strict=True)):
            continue
        total = functools.reduce(operator.mul, (_factor(each, cells[at], machine) for each in node.factors), sum_)
        if node.depth:
            machine.accumulators[-1][0][at] += total
            continue
        place = (int(rows[at[0]]), *at[1:]) if rows is not None else at
        output[place] = output[place] + total if loads else total
        machine.saw_non_finite |= node.check and not bool(np.isfinite(output[place]))


def _store_sampled(
    node: ir.Workspace, cells: Mapping[tuple[int, ...], tuple[Env, Any]], machine: _Machine, *, loads: bool
) -> None:
    """Store each total times its entry's value, at every entry of its position."""
    structure, output = machine.packed, machine.dense[node.output.tensor]
    assert isinstance(structure, PackedStructure)
    for cell, total in cells.values():
        position = _position(node.block, cell, machine)
        entry = position if structure.origin is None else int(structure.origin[position])
        while entry >= 0:
            output[entry] = (output[entry] if loads else 0) + machine.values[entry] * total
            entry = -1 if structure.repeats is None else int(structure.repeats[entry])


def _sum_slots(node: ir.SumSlots, env: Env, machine: _Machine) -> None:
    """Sum a slice lane by lane, each with `copies` accumulators."""
    packed, lanes, at = machine.packed, node.lanes.split, env["i1"]
    assert isinstance(packed, PackedOperand)
    low, high = int(packed.pos[node.level.name][at]), int(packed.pos[node.level.name][at + 1])
    output, dense = (machine.dense[access.tensor] for access in (node.expression.output, *node.expression.dense))
    for lane, row in enumerate(slices.lane_rows(packed)[at].tolist()):
        if row >= env["n_i"]:
            continue
        positions = np.arange(low, high) * lanes + lane
        columns = slices.columns(packed, np.full(high - low, at), positions)
        sums = [output.dtype.type(0)] * node.copies
        for slot, (position, column) in enumerate(zip(positions, columns, strict=True)):
            sums[slot % node.copies] += packed.numbers[position] * dense[column]
        output[row] = sum(sums[1:], start=sums[0])
        machine.saw_non_finite |= not bool(np.isfinite(output[row]))


def _zero(node: ir.Zero, env: Env, machine: _Machine) -> None:
    machine.dense[node.output.tensor][...] = 0


RULES: Final[Mapping[type, Callable[..., Any]]] = {
    ir.ForDense: _for_dense,
    ir.ForTiles: _for_tiles,
    ir.ForStored: _for_stored,
    ir.Locate: _locate,
    ir.Fetch: _fetch,
    ir.CoordinateSearch: _search,
    ir.Guard: _guard,
    ir.Block: _accumulate,
    ir.Workspace: _workspace,
    ir.SumSlots: _sum_slots,
    ir.Zero: _zero,
}
"""Function that executes each type of node."""

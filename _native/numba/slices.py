"""Emission of slices in Python: loops over slots and lanes, for each way in which a slice may store columns.

``runtime/pack/pack_slices.c`` describes the arrays.
"""

from __future__ import annotations

from autosparse._native.ir import nodes as ir
from autosparse._native.ir.slice_layout import BASE_SHIFT, DIAGONAL, IN_ORDER, KIND_MASK, NARROW, WIDE
from autosparse._native.numba.emitting import INTEGERS, NumbaEmitter, NumbaScope


def emit_slice(emitter: NumbaEmitter, node: ir.SumSlots, scope: NumbaScope) -> None:
    """Emit the code of one slice: accumulators, the sum over its slots, and the store by rows."""
    out, lanes = scope.out, node.lanes.split
    value = emitter.value
    load = f"load_{emitter.positions}({node.level.name}_pos"
    kinds = [DIAGONAL] * node.diagonals + [WIDE] + [NARROW] * node.narrow
    out.line(f"slot = {load}, i1)")
    out.line(f"n_slots = {load}, i1 + 1) - slot")
    out.line(f"cells = slot * {lanes}")
    if len(kinds) > 1 or node.is_permuted:
        out.line("what = load_i64(slice_what, i1)")
    out.line(f"acc0 = stack_{value}({lanes})")
    with out.block(f"for lane in range({lanes})"):
        out.line(f"store_{value}(acc0, lane, ZERO)")
    for at, kind in enumerate(kinds):
        test = f"if what & {KIND_MASK} == {kind}"
        head = "if True" if len(kinds) == 1 else test if at == 0 else "else" if at + 1 == len(kinds) else f"el{test}"
        with out.block(head):
            _emit_slots(emitter, node, scope, kind)
    _emit_store(emitter, node, scope)


def _emit_slots(emitter: NumbaEmitter, node: ir.SumSlots, scope: NumbaScope, kind: int) -> None:
    out, lanes, tensor = scope.out, node.lanes.split, node.expression.dense[0].tensor
    value = emitter.value
    stored, item_bytes = (INTEGERS[16], 2) if kind == NARROW else (INTEGERS[32], 4)
    # `slice_begin` counts units of the format's width; `crd` begins there.
    unit_bytes = emitter.spec.schedule.format.index_bits // 8
    begin = "load_i64(slice_begin, i1)" if node.diagonals or node.narrow else "cells"
    out.line(f"crd = {node.level.name}_crd + {begin} * {unit_bytes if kind != NARROW else item_bytes}")
    if kind == NARROW:
        out.line(f"base = what >> {BASE_SHIFT}")
    with out.block("for s in range(n_slots)"):
        if kind == DIAGONAL:
            out.line(f"first_column = load_{stored}(crd, s)")
        with out.block(f"for lane in range({lanes})"):
            column = {
                DIAGONAL: "first_column + lane",
                WIDE: f"load_{stored}(crd, s * {lanes} + lane)",
                NARROW: f"base + load_{stored}(crd, s * {lanes} + lane)",
            }[kind]
            cell = f"cells + s * {lanes} + lane"
            stored_value = (
                f"load_{value}(slice_table, load_u8(vals, {cell}))" if node.numbered else f"load_{value}(vals, {cell})"
            )
            product = f"{stored_value} * load_{value}({tensor}, {column})"
            out.line(f"store_{value}(acc0, lane, load_{value}(acc0, lane) + {product})")


def _emit_store(emitter: NumbaEmitter, node: ir.SumSlots, scope: NumbaScope) -> None:
    out, lanes = scope.out, node.lanes.split
    value = emitter.value
    output, n = node.expression.output.tensor, f"n_{node.expression.output.indices[0]}"
    if node.is_permuted:
        out.line("first_row = load_i32(slice_first, i1)")
        out.line(f"in_order = what & {IN_ORDER}")
    with out.block(f"for lane in range({lanes})"):
        if node.is_permuted:
            listed = f"load_i32(slice_rows, first_row * {lanes} + lane)"
            out.line(f"row = first_row + lane if in_order != 0 else {listed}")
        else:
            out.line(f"row = i1 * {lanes} + lane")
        out.line(f"total = load_{value}(acc0, lane)")
        with out.block(f"if not {emitter.finite_text}"):
            out.line("bad = 1")
        with out.block(f"if row < {n}"):
            out.line(f"store_{value}({output}, row, total)")

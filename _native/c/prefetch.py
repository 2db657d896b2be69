"""Emission of prefetching in C: dense rows of the entries that a loop over stored entries reaches later."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from autosparse._native.c.block import BlockShape
from autosparse._native.c.emitting import CEmitter, CScope
from autosparse._native.ir import nodes as ir

from autosparse.core.expression import Access
from autosparse.core.schedule import L2_AHEAD
from autosparse.scalar import C_SIZE

CACHE_LINE_BYTES: Final = 64


def emit_prefetch(emitter: CEmitter, node: ir.ForStored, scope: CScope, entry: int = 0) -> None:
    """Prefetch the dense rows of the entry `prefetch` positions ahead, which may belong to a later row."""
    locality = ", 0, 2" if node.prefetch >= L2_AHEAD else ""
    block = next(each for each in ir.walk(node.body) if isinstance(each, ir.Block))
    shape = replace(emitter.shape(block, scope), entry=entry)
    position = shape.variable(f"p_{node.level.name}")
    is_tiled = any(isinstance(each, ir.ForTiles) for each in ir.walk(node.body))
    for level in (node.level, *(inside.level for inside in node.body if isinstance(inside, ir.Fetch))):
        ahead = f"ahead_{level.name}" + (f"_{entry}" if scope.jam else "")
        at = f"asp_min({position} + {node.prefetch}, last_{level.name})"
        accesses = [a for a in block.factors if level.coordinate.index in a.indices and a != block.expression.sparse]
        if accesses:
            scope.out.line(f"const {C_SIZE} {ahead} = {level.name}_crd[{at}];")
        for access in accesses:
            _prefetch_rows(scope, shape, access, (level.coordinate, ahead), locality, all_tiles=is_tiled)


def _prefetch_rows(
    scope: CScope,
    shape: BlockShape,
    access: Access,
    ahead: tuple[ir.Coordinate, str],
    locality: str,
    *,
    all_tiles: bool,
) -> None:
    """Prefetch the rows of `access` for a later coordinate, for the current column tile or for all tiles."""
    (c, name), out = ahead, scope.out
    whole = name if c.split == 1 else f"{name} * {c.split}" if c.is_outer else f"{c.partner} * {c.split} + {name}"
    is_wide, step = len(access.indices) > 1, CACHE_LINE_BYTES // shape.spec.value_bytes
    for row in range(c.split if c.is_outer and is_wide else 1):
        at = f"asp_min({whole} + {row}, n_{c.index} - 1)" if row else whole
        if is_wide and scope.width is None and all_tiles:
            line = shape.address(access, [at, "column"])
            out.line(f"for ({C_SIZE} column = 0; column < n_j; column += {step}) __builtin_prefetch({line}{locality});")
            continue
        for column in range(0, scope.width or 1, step) if is_wide else range(1):
            values = [at, _column(scope, access, column)] if is_wide else [at]
            out.line(f"__builtin_prefetch({shape.address(access, values)}{locality});")


def _column(scope: CScope, access: Access, column: int) -> str:
    if scope.tile_index is None:
        return "0"
    return f"{scope.tile_index} + {column}" if column else scope.tile_index

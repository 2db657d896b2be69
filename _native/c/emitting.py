"""What the parts of the emitter share: where it is, and what they ask of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from autosparse._native.c.block import BlockShape, Used
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import Writer


@dataclass(frozen=True)
class Scope:
    """Where the emitter is: the function being written, the loop variables around, the current column tile."""

    out: Writer
    variables: tuple[str, ...] = ()  # int64_t variables that a task must be handed
    width: int | None = None
    least: int | None = None  # columns that a masked tile is sure to have
    tile_index: str | None = None
    extents: tuple[str, ...] = ()  # of the sequential loops around
    copy: int = 0  # of the accumulators, that the current entry goes to
    depth: int = 0  # of the workspace around
    ways: int = 1
    lanes: int | None = None  # of the workspace around; None: there is none
    jam: tuple[str, ...] = ()  # coordinates of entries that are computed together, and how many these are
    n_entries: int = 1

    def binding(self, *names: str) -> Scope:
        """The scope inside a loop that binds `names`."""
        return replace(self, variables=(*self.variables, *names))


class Emitting(Protocol):
    """One kernel being written: the `Emitter`."""

    spec: KernelSpec
    program: ir.Program
    used: Used
    tasks: list[str]

    def shape(self, block: ir.Block, scope: Scope) -> BlockShape:
        """`block` at the current column width."""

    def declare(self, body: str, *, known: Iterable[str] = ()) -> str:
        """Declarations of the operands and extents that `body` uses, but for the names `known` already."""

"""What the parts of the emitter share: where it is, and what they ask of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from autosparse._native.ir import nodes as ir
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import PythonWriter


@dataclass(frozen=True)
class Scope:
    """Where the emitter is: the function being written, the loop variables around, the column tile, accumulators."""

    out: PythonWriter
    variables: tuple[str, ...] = ()  # that a task must be handed
    tile: str | None = None  # index that runs through a tile
    width: str | None = None  # of the tile
    extents: tuple[str, ...] = ()  # of the sequential loops around
    depth: int = 0  # of the innermost workspace

    def binding(self, *names: str) -> Scope:
        """The scope inside a loop that binds `names`."""
        return replace(self, variables=(*self.variables, *names))

    def inside(self, depth: int) -> Scope:
        """The scope inside a workspace."""
        return replace(self, depth=depth)


class Emitting(Protocol):
    """One kernel being written: the `Emitter`."""

    spec: KernelSpec
    program: ir.Program

    @property
    def positions(self) -> str:
        """Suffix of loads from pos arrays."""

    def split(self, index: str) -> int:
        """Split size of an index."""

    def run(self, nodes: Iterable[ir.Node], scope: Scope) -> None:
        """Write `nodes` in order."""

    def extent_text(self, extent: ir.Extent) -> str:
        """A dense loop's number of iterations."""

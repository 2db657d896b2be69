"""Source text for tensors over a subset of a block's axes, so that they broadcast to all axes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockAxes:
    """Axes of a block with names and extents, outermost first; axes of extent 1 are omitted (a scalar has none)."""

    extents: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, **extents: int) -> BlockAxes:
        """Return the axes of more than one element, in the order given."""
        return cls(tuple((name, extent) for name, extent in extents.items() if extent > 1))

    @property
    def names(self) -> str:
        """Letters of the axes."""
        return "".join(name for name, _ in self.extents)

    def beside(self, variable: str, axes: str) -> str:
        """Return an expression that broadcasts `variable`, which has only `axes`, to all of these axes."""
        kept = [name for name in self.names if name in axes]
        if not kept or len(self.names) == 1:
            return variable
        return f"{variable}[{', '.join(':' if name in axes else 'None' for name in self.names)}]"

    def shape(self) -> str:
        """Return the tuple of extents as source text."""
        return "(" + "".join(f"{extent}, " for _, extent in self.extents) + ")"

    def zeros(self, dtype: str) -> str:
        """Return an expression for a block of zeros, or a scalar zero where there are no axes."""
        if self.extents:
            return f"tl.zeros({self.shape()}, {dtype})"
        return f"tl.zeros((1,), {dtype}).sum()"

    def index(self, name: str) -> int:
        """Return the position of axis `name`."""
        return self.names.index(name)

    def without(self, name: str) -> BlockAxes:
        """Return the axes that remain after a sum over `name`."""
        return BlockAxes(tuple(item for item in self.extents if item[0] != name))

    def summed(self, variable: str, name: str) -> str:
        """Return an expression for the sum of `variable` over axis `name`; `variable` itself without such an axis."""
        return f"tl.sum({variable}, axis={self.index(name)})" if name in self.names else variable

"""How tensors over a subset of a block's axes are written beside those over all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockAxes:
    """Axes of a block by letters and extents, outermost first; one of extent 1 is left out (a scalar has none)."""

    extents: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, **extents: int) -> BlockAxes:
        """Axes of more than one element, in the order given."""
        return cls(tuple((name, extent) for name, extent in extents.items() if extent > 1))

    @property
    def names(self) -> str:
        """Letters of the axes that there are."""
        return "".join(name for name, _ in self.extents)

    def beside(self, variable: str, axes: str) -> str:
        """`variable`, which has only `axes`, in a form that broadcasts to all of these axes."""
        kept = [name for name in self.names if name in axes]
        if not kept or len(self.names) == 1:
            return variable
        return f"{variable}[{', '.join(':' if name in axes else 'None' for name in self.names)}]"

    def shape(self) -> str:
        """Tuple of extents."""
        return "(" + "".join(f"{extent}, " for _, extent in self.extents) + ")"

    def zeros(self, dtype: str) -> str:
        """A block of zeros; a scalar where there are no axes."""
        if self.extents:
            return f"tl.zeros({self.shape()}, {dtype})"
        return f"tl.zeros((1,), {dtype}).sum()"

    def index(self, name: str) -> int:
        """Position of axis `name`."""
        return self.names.index(name)

    def without(self, name: str) -> BlockAxes:
        """The axes that are left when `name` was summed over."""
        return BlockAxes(tuple(item for item in self.extents if item[0] != name))

    def summed(self, variable: str, name: str) -> str:
        """Sum of `variable` over the axis `name`; itself where there is no such axis."""
        return f"tl.sum({variable}, axis={self.index(name)})" if name in self.names else variable

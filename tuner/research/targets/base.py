"""Interface of a target: configurations, their loops and sizes on shared axes, and the rest (DASH sections 3.3, 3.4).

Loops have the paper's names: ``i`` rows of A, ``j`` columns of A, ``k`` columns of the dense operands. ``x2`` is the
outer and ``x1`` the inner part of a split loop; ``k3`` is a third part that only GPUs have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

Category = tuple["int | str", ...]
"""Values of the heterogeneous parameters, which have no counterpart on other platforms."""

LOOPS: Final = ("i1", "i2", "j1", "j2", "k1", "k2", "k3")
SIZES: Final = ("I", "J", "K", "K3")
PARENTS: Final[Mapping[str, str]] = {"i1": "i2", "j1": "j2", "k1": "k2", "k3": "k2"}
"""Loop -> the loop that it directly follows when absent, with one iteration."""

Configured_contra = TypeVar("Configured_contra", contravariant=True)


class TargetSpace(Protocol[Configured_contra]):
    """Interface of one platform's configurations for one operation, as the mapper and the latent encoder need it."""

    @property
    def name(self) -> str:
        """Return the name of the platform."""

    def loop_order(self, configuration: Configured_contra) -> Sequence[str]:
        """Return the present loops of LOOPS, outermost first; the mapper adds the others."""

    def sizes(self, configuration: Configured_contra) -> tuple[int, int, int, int]:
        """Return the sizes of the inner loops of split coordinates, in the order of SIZES; 1 where none is split."""

    def heterogeneous(self, configuration: Configured_contra) -> Category:
        """Return the values of the parameters that only this platform has."""

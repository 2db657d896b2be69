"""A target: its configurations, their loops and sizes on axes that all targets share, and the rest (DASH §3.3, §3.4).

Loops have the paper's names: ``i`` rows of A, ``j`` columns of A, ``k`` columns of the dense operands; ``x2`` is the
outer and ``x1`` the inner part of a loop that is cut, ``k3`` a third part that only GPUs have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

Category = tuple["int | str", ...]
"""Values of the parameters that have no counterpart elsewhere."""

LOOPS: Final = ("i1", "i2", "j1", "j2", "k1", "k2", "k3")
SIZES: Final = ("I", "J", "K", "K3")
PARENTS: Final[Mapping[str, str]] = {"i1": "i2", "j1": "j2", "k1": "k2", "k3": "k2"}
"""The loop that an absent one stands directly behind: it has one iteration."""

Configured_contra = TypeVar("Configured_contra", contravariant=True)


class TargetSpace(Protocol[Configured_contra]):
    """The configurations of one platform for one operation, as the mapper and the latent encoder see them."""

    @property
    def name(self) -> str:
        """Of the platform."""

    @property
    def sample_price(self) -> float:
        """What one measured configuration costs, in units of a CPU's (the paper's beta)."""

    def loop_order(self, configuration: Configured_contra) -> Sequence[str]:
        """The loops of LOOPS that there are, outermost first; the mapper adds the others."""

    def sizes(self, configuration: Configured_contra) -> tuple[int, int, int, int]:
        """Iterations of the inner parts, in the order of SIZES; 1 where a loop is not cut."""

    def heterogeneous(self, configuration: Configured_contra) -> Category:
        """Values of the parameters that only this platform has."""

"""What dispatch and tuning need of kernels, whichever implementation made them (`_native.IMPLEMENTATIONS`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Bound(Protocol):
    """A kernel with its operand, ready to be called from several threads."""

    @property
    def passes_python(self) -> bool:
        """Whether products may go to it past Python: `enter` writes what `run` hands over into a fast path's record."""

    @property
    def enter(self) -> Callable[[Any], None]:
        """See `passes_python`."""

    @property
    def run(self) -> Callable[..., bool]:
        """Compute a call's result from its arguments; False when it cannot be trusted (`_native.kernels.bound`)."""


class Kernel(Protocol):
    """Machine code for a spec, never unloaded."""

    @property
    def address(self) -> int:
        """Names the code within this process."""

    def bind(self, packed: Any) -> Bound:  # Any: each operation's own kind, which `_native.kernels.kernel` overloads
        """The kernel on a packed operand of the kind and format that it was made for."""

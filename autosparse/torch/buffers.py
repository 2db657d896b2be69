"""The methods of a tensor that a `torch.nn.Module` calls on its buffers, for matrices with values of their own."""

# mypy: allow-untyped-calls
# (torch's functions are not all typed)
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from autosparse.errors import InputError
from autosparse.scalar.tensors import coarse_half, narrow_real, wide_real

if TYPE_CHECKING:
    from typing_extensions import Self


class Buffer:
    """Base of matrices that `torch.nn.Module.register_buffer` takes: converted, saved and loaded with the module."""

    __slots__ = ()
    is_meta = is_quantized = False

    values: torch.Tensor

    def with_values(self, values: torch.Tensor) -> Self:
        """Return a matrix with this structure and other values."""
        raise NotImplementedError

    def has_entries_of(self, other: Any) -> bool:
        """Return whether `other` is a matrix with the same entries."""
        raise NotImplementedError

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return a matrix with this structure and converted values; arguments are those of torch.Tensor.to."""
        return self.with_values(self.values.to(*args, **kwargs))

    def float(self) -> Self:
        """Return the matrix with values of float32."""
        return self.to(narrow_real)

    def double(self) -> Self:
        """Return the matrix with values of float64."""
        return self.to(wide_real)

    def half(self) -> Self:
        """Return the matrix with values of float16."""
        return self.with_values(self.values.half())

    def bfloat16(self) -> Self:
        """Return the matrix with values of bfloat16."""
        return self.to(coarse_half)

    def is_floating_point(self) -> bool:
        """Return whether the values are real numbers."""
        return self.values.is_floating_point()

    def is_complex(self) -> bool:
        """Return whether the values are complex numbers."""
        return self.values.is_complex()

    def detach(self) -> Self:
        """Return a matrix with the same structure and values, which autograd does not follow."""
        return self.with_values(self.values.detach())

    def copy_(self, other: Any, non_blocking: bool = False) -> Self:
        """Overwrite the values with those of a matrix with the same entries; return this one. Raises InputError."""
        if not self.has_entries_of(other):
            raise InputError.refused(
                "copy_() takes a matrix with the same entries", given=f"{other!r:.200} for {self!r}",
                hint="assign the other matrix instead",
            )  # fmt: skip
        self.values.copy_(other.values, non_blocking)
        return self

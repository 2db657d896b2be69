"""Definition of a program, and matrices that programs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Step = Callable[[], torch.Tensor]
"""One step of a program; the answer of the last step is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchProgram:
    """A program of a user that uses PyTorch alone.

    `prepare(dtype, toy)` makes its inputs, untimed, and returns its step, which is called `steps` times.
    """

    name: str
    what: str
    prepare: Callable[[torch.dtype, bool], Step]
    steps: int
    rtol: float = 2e-3  # tolerance relative to the norm of the answer, for float32


def graph(n: int, degree: int, dtype: torch.dtype, *, n_columns: int = 0, seed: int = 0) -> torch.Tensor:
    """Make a CSR matrix with about `degree` entries per row, uneven row lengths and positive values."""
    generator = torch.Generator().manual_seed(seed)
    m = n_columns or n
    lengths = (torch.empty(n).exponential_(1.0, generator=generator) * degree).long().clamp_(1, max(1, m // 4))
    rows = torch.repeat_interleave(torch.arange(n), lengths)
    columns = (torch.rand(len(rows), generator=generator) ** 2 * m).long()
    values = torch.rand(len(rows), dtype=dtype, generator=generator) + 0.1
    return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (n, m)).coalesce().to_sparse_csr()


def normalised(A: torch.Tensor) -> torch.Tensor:
    """Return A with rows scaled to the sum 1."""
    lengths = A.crow_indices().diff()
    sums = torch.segment_reduce(A.values(), "sum", lengths=lengths)
    values = A.values() / torch.repeat_interleave(sums, lengths)
    return torch.sparse_csr_tensor(A.crow_indices(), A.col_indices(), values, A.shape)


def numbers(*shape: int, dtype: torch.dtype, seed: int = 1) -> torch.Tensor:
    """Return normal deviates."""
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def weights(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Return parameters of a layer."""
    return (numbers(*shape, dtype=dtype, seed=seed) / shape[0] ** 0.5).requires_grad_()


def descent(parameters: list[torch.Tensor], loss: Step, rate: float = 0.01) -> Step:
    """Return a step of gradient descent, whose answer is the loss."""

    def step() -> torch.Tensor:
        for one in parameters:
            one.grad = None
        value = loss()
        value.backward()
        with torch.no_grad():
            for one in parameters:
                if one.grad is not None:
                    one.add_(one.grad, alpha=-rate)
        return value.detach()

    return step

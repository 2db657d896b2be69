"""Checks of MTTKRP with factors on a device that Triton's interpreter simulates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import autosparse as asp
from autosparse.arrays import sparse_tensor
from autosparse.core.solver import Choice
from autosparse.cuda import choice, fibers, solvers
from autosparse.errors import DtypeError, InputTypeError, ShapeError

SHAPE = (5, 6, 7)
LETTERS = "iklmn"


def tensor_of(shape: tuple[int, ...] = SHAPE, dtype: torch.dtype = torch.float32, nnz: int = 40) -> torch.Tensor:
    """Return a tensor with entries in no order, some of them repeated; the last index of each mode has none."""
    coords = torch.stack([torch.randint(extent - 1, (nnz,)) for extent in shape])
    coords[:, -3:] = coords[:, :3]
    return torch.sparse_coo_tensor(coords, torch.randn(nnz, dtype=dtype), shape)


def factors_of(T: torch.Tensor, n_vecs: int = 5) -> list[torch.Tensor]:
    return [torch.randn(extent, n_vecs, dtype=T.dtype) for extent in T.shape]


def dense_mttkrp(T: torch.Tensor, factors: list[Any], mode: int) -> torch.Tensor:
    letters = LETTERS[: T.dim()]
    others = [n for n in range(T.dim()) if n != mode]
    left = ",".join([letters, *(f"{letters[n]}r" for n in others)])
    return torch.einsum(f"{left}->{letters[mode]}r", T.to_dense(), *(factors[n] for n in others))


def forced(T: torch.Tensor, factors: list[Any], mode: int, **how: Any) -> tuple[torch.Tensor, choice.PlannedProduct]:
    """Return M by the model's first candidate, and its choice; the interpreter never wins a race against torch."""
    fibers.mttkrp(T, factors, mode)
    known = fibers.fibers_of(T._indices(), tuple(T.shape), mode % T.dim())
    made = list(known.choices.values())[-1]
    target = choice.target_of("NVIDIA H100")
    schedule = solvers.ranked(known, made.kind, target)[0][1]
    made.plan = replace(made.plan, effort="full", choice=Choice(solvers.TRITON.name, schedule.to_json()))
    made.launch = solvers.launch_of(known, made.kind, schedule)
    return fibers.mttkrp(T, factors, mode, **how), made


def test_mttkrp_is_ours_in_every_mode() -> None:
    T = tensor_of()
    for one, mode, dtype in ((T, 0, T.dtype), (T, -2, T.dtype), (T.coalesce(), 0, T.dtype), (T, 2, torch.float64)):
        one = one.to(dtype)
        factors = factors_of(one)
        factors[1] = factors[1].t().contiguous().t()
        wanted, given = dense_mttkrp(one, factors, mode % 3), list(factors)
        given[mode] = None
        out = torch.full_like(wanted, torch.nan)
        found, made = forced(one, given, mode, out=out)
        assert found is out
        torch.testing.assert_close(found, wanted)
        assert made.compiled, made.plan.why  # a kernel of ours has computed it


def test_mttkrp_plans_once_and_reads_values_live() -> None:
    T = tensor_of()
    factors = factors_of(T)
    with asp.options(runs=10**9):
        torch.testing.assert_close(fibers.mttkrp(T, factors, 1), dense_mttkrp(T, factors, 1))
    known = fibers.fibers_of(T._indices(), SHAPE, 1)
    (made,) = known.choices.values()
    assert made.is_finished
    assert not made.rejected
    assert len(made.measured_s) > 1, made.plan.why
    _, again = forced(T, factors, 1)
    assert again is made
    T._values().mul_(3)
    torch.testing.assert_close(fibers.mttkrp(T, factors, 1), dense_mttkrp(T, factors, 1))
    T._indices()[:, 0] = 4 - T._indices()[:, 0].clamp(max=4)
    torch.testing.assert_close(fibers.mttkrp(T, factors, 1), dense_mttkrp(T, factors, 1))


def test_mttkrp_of_torch_has_gradients_and_other_orders() -> None:
    for shape in ((5, 6), (3, 4, 5, 6)):
        T = tensor_of(shape, torch.float64, nnz=12)
        factors = factors_of(T)
        torch.testing.assert_close(fibers.mttkrp(T, factors, 1), dense_mttkrp(T, factors, 1))
    T = tensor_of(dtype=torch.float64).coalesce()
    leaves = [T.values().clone().requires_grad_(), *(one.requires_grad_() for one in factors_of(T)[1:])]

    def gradients(product: Any) -> Any:
        S = torch.sparse_coo_tensor(T.indices(), leaves[0], SHAPE, is_coalesced=True)
        return torch.autograd.grad(product(S, [None, *leaves[1:]], 0).square().sum(), leaves)

    torch.testing.assert_close(gradients(fibers.mttkrp), gradients(dense_mttkrp))
    kept, fibers.TERM_BYTES = fibers.TERM_BYTES, 1
    try:
        torch.testing.assert_close(gradients(fibers.mttkrp), gradients(dense_mttkrp))
    finally:
        fibers.TERM_BYTES = kept
    half = tensor_of(dtype=torch.float16)
    M = fibers.mttkrp(half, factors := factors_of(half), 0)
    torch.testing.assert_close(
        M.float(), dense_mttkrp(half.float(), [f.float() for f in factors], 0), atol=0.02, rtol=0
    )
    none = torch.sparse_coo_tensor(torch.empty(3, 0, dtype=torch.int64), torch.empty(0), SHAPE)
    assert torch.equal(fibers.mttkrp(none, factors_of(none), 0), torch.zeros(5, 5))


def test_mttkrp_goes_to_the_gpu_with_its_operands() -> None:
    T = tensor_of()
    factors = factors_of(T)
    kept, sparse_tensor.foreign.is_on_gpu = sparse_tensor.foreign.is_on_gpu, lambda one: one is factors[1]
    try:
        found = asp.mttkrp(T, iter(factors), 0)
    finally:
        sparse_tensor.foreign.is_on_gpu = kept
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, dense_mttkrp(T, factors, 0))


def test_mttkrp_says_what_does_not_fit() -> None:
    T = tensor_of()
    A, B, C = factors_of(T)
    wrong: tuple[tuple[type[Exception], Any, Any, dict[str, Any]], ...] = (
        (ShapeError, [A, B], 0, {}),
        (ShapeError, [A, C, B], 0, {}),
        (ShapeError, [A, B, C[:, :2]], 0, {}),
        (ShapeError, [A, B, C], 3, {}),
        (DtypeError, [A, B, C.double()], 0, {}),
        (InputTypeError, [A, B, C.cpu().numpy()], 0, {}),
        (ShapeError, [A, B, C], 0, {"out": torch.empty(4, 5)}),
        (DtypeError, [A, B, C], 0, {"out": torch.empty(5, 5, dtype=torch.float64)}),
    )
    for kind, factors, mode, more in wrong:
        with pytest.raises(kind, match="Hint"):
            fibers.mttkrp(T, factors, mode, **more)
    for given in (T.to_dense(), object()):
        with pytest.raises(InputTypeError, match="sparse COO"):
            fibers.mttkrp(given, [A, B, C], 0)

"""Checks of torch's own products under the override of `SparseCsrCUDA`, on a device that the interpreter simulates.

Such tensors do not exist on a machine without a GPU. So the table of this dispatch key is registered for the host's
key, and dispatcher and autograd reach it as they would on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from autosparse._native.triton.launch import Launch

import autosparse as asp
from autosparse.core.solver import Choice
from autosparse.cuda import aten, choice, products, solvers
from autosparse.torch.dispatcher import extension, registration
from tests.triton.places import everywhere
from tests.triton.surfaces import matrix_of

KERNELS = ("spmv", "matmul", "sddmm")


@contextmanager
def overridden(**how: Any) -> Iterator[list[str]]:
    """Install the override with the model's first candidate in place of the fastest; yield the names of launches."""
    kept = registration.TABLES.copy(), registration.PREFIXES.copy(), registration.SPARSE_GRADIENTS.copy()
    aten_fallbacks = {name: getattr(Launch, name) for name in KERNELS}
    plan, few, launched = choice.plan, (aten.SMALL_PRODUCT, aten.SMALL_VECTOR_PRODUCT), []

    def counting(name: str) -> Any:
        def run(*given: Any, **more: Any) -> Any:
            launched.append(name)
            return aten_fallbacks[name](*given, **more)

        return run

    def favourite(made: Any, structure: Any, device: Any, run: Any, vendor: Any) -> None:
        target = choice.target_of("NVIDIA H100")
        schedule = solvers.ranked(structure, made.kind, target)[0][1]
        made.plan = replace(made.plan, effort="full", choice=Choice(solvers.TRITON.name, schedule.to_json()))
        made.launch = solvers.launch_of(structure, made.kind, schedule)

    asp.torch.uninstall()  # removes kernels that other tests have registered
    if torch.get_default_device().type == "cpu":  # otherwise the tables of a GPU are registered for a GPU
        _replace(registration.TABLES, {"SparseCsrCPU": registration.ON_GPU})
        _replace(registration.SPARSE_GRADIENTS, {"AutogradCPU": registration.GRADIENTS_ON_GPU})
        _replace(registration.PREFIXES, {"SparseCsrCPU": "cuda::", "AutogradCPU": "cuda::autograd::"})
    choice.plan, aten.SMALL_PRODUCT, aten.SMALL_VECTOR_PRODUCT = favourite, 0, 0
    if extension.library is not None:
        extension.library.compute(False)  # it would compute small products on the CPU itself
    for name in KERNELS:
        setattr(Launch, name, counting(name))
    try:
        with asp.torch.override(**how), everywhere(runs=10**9):
            yield launched
    finally:
        asp.torch.uninstall()
        choice.plan, (aten.SMALL_PRODUCT, aten.SMALL_VECTOR_PRODUCT) = plan, few
        if extension.library is not None:
            extension.library.compute(True)
        for name in KERNELS:
            setattr(Launch, name, aten_fallbacks[name])
        for table, before in zip(
            (registration.TABLES, registration.PREFIXES, registration.SPARSE_GRADIENTS), kept, strict=True
        ):
            _replace(table, before)
        asp.torch.forget_structures()


def _replace(table: dict[str, Any], by: dict[str, Any]) -> None:
    table.clear()
    table.update(by)


def calls(A: torch.Tensor) -> dict[str, tuple[Callable[[], torch.Tensor], torch.Tensor]]:
    """Return a dict from name to (torch product with A, answer from dense tensors)."""
    D, dtype = A.to_dense(), A.dtype
    B, x, C = torch.randn(23, 5, dtype=dtype), torch.randn(23, dtype=dtype), torch.randn(19, 5, dtype=dtype)
    y, X = torch.randn(19, dtype=dtype), torch.randn(4, 19, dtype=dtype)
    return {
        "A @ B": (lambda: A @ B, D @ B),
        "columns": (lambda: A @ B.t().contiguous().t(), D @ B),
        "torch.sparse.mm": (lambda: torch.sparse.mm(A, B), D @ B),
        "mv": (lambda: torch.mv(A, x), D @ x),
        "addmm": (lambda: torch.addmm(C, A, B, alpha=0.5, beta=-2.0), 0.5 * (D @ B) - 2 * C),
        "addmm, beta 1": (lambda: torch.addmm(C, A, B, alpha=3), 3 * (D @ B) + C),
        "addmm of a row": (lambda: torch.addmm(C[:1], A, B), D @ B + C[:1]),
        "addmv": (lambda: torch.addmv(y, A, x, alpha=0.5, beta=2.0), 0.5 * (D @ x) + 2 * y),
        "transpose": (lambda: A.t() @ C, D.t() @ C),
        "dense @ sparse": (lambda: X @ A, X @ D),
    }


def test_products_of_torch_are_ours() -> None:
    A = matrix_of(torch.float64)
    with overridden() as launched:
        for name, (call, wanted) in calls(A).items():
            before = len(launched)
            found = call()
            torch.testing.assert_close(found, wanted, msg=f"{name}: {found} is not {wanted}")
            assert found.is_contiguous(), name
            assert len(launched) == before + 1, f"{name}: {launched[before:]}"


def test_products_of_torch_go_where_out_says() -> None:
    A, B, C = matrix_of(), torch.randn(23, 8), torch.randn(19, 8)
    D = A.to_dense()
    with overridden() as launched:
        for out in (torch.full((19, 8), torch.nan), torch.full((8, 19), torch.nan).t()):
            assert torch.mm(A, B, out=out) is out
            torch.testing.assert_close(out, D @ B)
        wanted = C + D @ B
        torch.testing.assert_close(torch.addmm(C, A, B, out=C), wanted)
        square = torch.randn(18, 18)
        S = matrix_of(pattern="dense blocks")
        wanted = S.to_dense() @ square
        torch.mm(S, square, out=square)  # the operand is overwritten
        torch.testing.assert_close(square, wanted)
        y = torch.randn(19)
        wanted = 2 * (D @ B[:, 0].contiguous()) + y
        torch.testing.assert_close(y.addmv_(A, B[:, 0].contiguous(), alpha=2), wanted)
        assert launched == ["matmul"] * 4 + ["spmv"]
        assert torch.isfinite(torch.addmm(torch.full((19, 8), torch.nan), A, B, beta=0)).all()


def test_sampled_products_of_torch_are_ours() -> None:
    A, X, Y = matrix_of(), torch.randn(19, 6), torch.randn(6, 23)
    wanted = torch.sparse.sampled_addmm(A, X, Y, alpha=0.5, beta=-2.0)
    with overridden() as launched:
        for side in (Y, Y.t().contiguous().t()):
            found = torch.sparse.sampled_addmm(A, X, side, alpha=0.5, beta=-2.0)
            assert found.layout is torch.sparse_csr
            torch.testing.assert_close(found.values(), wanted.values())
            assert found.col_indices().data_ptr() != A.col_indices().data_ptr()
        S = A.clone()
        torch.sparse.sampled_addmm(S, X, Y, alpha=0.5, beta=-2.0, out=S)
        torch.testing.assert_close(S.values(), wanted.values())
    assert launched == ["sddmm"] * 3


def test_gradients_under_the_override_are_those_of_torch() -> None:
    A = matrix_of(torch.float64)
    D = A.to_dense()
    X, x, y = (torch.randn(*shape, dtype=torch.float64).requires_grad_() for shape in ((23, 2), (23,), (19,)))
    functions: tuple[tuple[Any, Any], ...] = (
        (lambda A: A @ X, (X,)),
        (lambda A: torch.addmv(y, A, x, alpha=2, beta=3), (x, y)),
    )  # fmt: skip
    for function, leaves in functions:
        wanted = torch.autograd.grad(function(D).square().sum(), leaves)
        with overridden() as launched:
            found = torch.autograd.grad(function(A).square().sum(), leaves)
        torch.testing.assert_close(found, wanted)
        assert len(launched) == 2, launched

    def gradients(product: Any) -> Any:
        a, b = A.detach().clone().requires_grad_(), X.detach().clone().requires_grad_()
        product(a, b).square().sum().backward()
        return a.grad, b.grad

    wanted = gradients(torch.sparse.mm)
    with overridden() as launched:
        found = gradients(torch.sparse.mm)
    assert found[0].layout is torch.sparse_csr
    torch.testing.assert_close(found[0].values(), wanted[0].values())
    torch.testing.assert_close(found[1], wanted[1])
    assert set(launched) == {"matmul", "sddmm"}
    with overridden(sparse_gradients=True) as launched:
        found = gradients(torch.mm)
    assert found[0].layout is torch.sparse_csr
    torch.testing.assert_close(found[0].values(), wanted[0].values())
    torch.testing.assert_close(found[1], wanted[1])
    assert launched == ["matmul", "sddmm", "matmul"]


def test_reductions_of_torch_and_their_gradients_are_ours() -> None:
    for pattern in ("mixed", "duplicates", "no entries"):
        A = matrix_of(pattern=pattern)
        B = torch.randn(A.shape[1], 3)
        for reduce in ("sum", "mean", "amax", "amin"):

            def answers(A: torch.Tensor = A, B: torch.Tensor = B, reduce: str = reduce) -> list[torch.Tensor]:
                a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
                product = torch.sparse.mm(a, b, reduce)
                product.square().sum().backward()
                return [product.detach(), a.grad.values(), b.grad]

            wanted = answers()
            with overridden():
                found = answers()
            for one, other in zip(found, wanted, strict=True):
                torch.testing.assert_close(one, other, msg=lambda text, at=(pattern, reduce): f"{at}: {text}")


def test_extremes_are_the_same_in_panels() -> None:
    from autosparse.cuda import reductions

    A, B = matrix_of(), torch.randn(23, 7)
    B[3, 2] = torch.nan
    given = aten.entries_of(A)
    assert given is not None
    whole = reductions.extreme(given.structure, given.values, B, "amax", with_arg=True)
    kept, reductions.PANEL_BYTES = reductions.PANEL_BYTES, given.structure.nnz * 8
    try:
        panels = reductions.extreme(given.structure, given.values, B, "amax", with_arg=True)
    finally:
        reductions.PANEL_BYTES = kept
    assert torch.equal(whole[1], panels[1])
    torch.testing.assert_close(whole[0], panels[0], equal_nan=True)
    assert whole[0].isnan().any()


def test_unsupported_calls_raise_as_in_torch() -> None:
    A = matrix_of()
    wrong = {
        "shape": lambda: A @ torch.randn(22, 3),
        "dtype": lambda: A @ torch.randn(23, 3, dtype=torch.float64),
        "base": lambda: torch.addmm(torch.randn(5, 5), A, torch.randn(23, 3)),
    }

    def error(call: Any) -> str:
        try:
            call()
        except (RuntimeError, ValueError, TypeError) as err:
            return f"{type(err).__name__}: {err}"
        return "nothing was raised"

    for name, call in wrong.items():
        wanted = error(call)
        with overridden() as launched:
            assert error(call) == wanted, f"{name}: {error(call)} instead of {wanted}"
        assert "nothing" not in wanted
        assert not launched


def test_torch_serves_under_the_override_until_a_kernel_is_chosen() -> None:
    A, B = matrix_of(), torch.randn(23, 4)
    wanted = A.to_dense() @ B
    with overridden() as launched, asp.options(effort="off"):
        torch.testing.assert_close(A @ B, wanted)
        torch.testing.assert_close(torch.addmm(wanted, A, B), 2 * wanted)
        torch.testing.assert_close(torch.mv(A, B[:, 0].contiguous()), wanted[:, 0])
    assert not launched


def test_an_override_and_a_matrix_of_ours_do_not_call_each_other() -> None:
    A, B = asp_matrix(matrix_of()), torch.randn(23, 4)
    with overridden() as launched, asp.options(effort="off"):
        torch.testing.assert_close(A @ B, products.torch_matmul(A.structure, A.values, B, transposed=False))
        assert not launched
        (made,) = A.structure.choices.values()
        assert made.n_calls == 1


def asp_matrix(stored: torch.Tensor) -> Any:
    from autosparse.cuda import matrix

    return matrix.csr(stored)

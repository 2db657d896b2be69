"""Checks that need a GPU: streams, graphs, products without synchronisation, CuPy, and every schedule offered.

``python -m tests.triton.hardware cuda`` prints a JSON line for each check and each kind of product, with an error or
null. `test_hardware` reads the lines.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from autosparse.tuner.gpu.space import vector_of

import autosparse as asp
from autosparse.cuda import aten, choice, device, fibers, matrix, solvers, structure
from autosparse.cuda.solvers import ProductKind
from autosparse.errors import StructureError
from autosparse.gpu.target import target_of
from tests.triton.choosing import ANY_GAIN
from tests.triton.places import everywhere

TOLERANCES: Final = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6, "float64": 1e-14}
"""Maximum error of an element, relative to the sum of the magnitudes of its terms plus 1."""
WIDTHS: Final = (32, 100, 128)


def power_law(n: int = 1500, m: int = 1100) -> Any:
    """Return a matrix with rows of 0 to about 400 entries, the long ones first, and blocks of 16 by 16."""
    rng = np.random.default_rng(7)
    lengths = np.minimum(m // 2, (500 / (1 + np.arange(n))).astype(int) + rng.integers(0, 6, n))
    rows = np.repeat(np.arange(n), lengths)
    cells = sp.coo_array((np.ones(len(rows)), (rows, rng.integers(0, m, len(rows)))), shape=(n, m)).tolil()
    for at in range(10):
        cells[1200 + 16 * at : 1216 + 16 * at, 64 * at : 64 * at + 16] = 1
    return sp.csr_array(cells)


def on_gpu(A: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return A with random values as a torch tensor, on the default device."""
    arrays = [torch.as_tensor(one.astype(np.int32)) for one in (A.indptr, A.indices)]
    return torch.sparse_csr_tensor(*arrays, torch.randn(A.nnz).to(dtype), A.shape, check_invariants=False)


def dense_of(stored: torch.Tensor) -> torch.Tensor:
    """Return the tensor as a dense one in float64."""
    rows = torch.repeat_interleave(torch.arange(stored.shape[0]), stored.crow_indices().long().diff())
    zeros = torch.zeros(stored.shape, dtype=torch.float64)
    return zeros.index_put_((rows, stored.col_indices().long()), stored.values().double(), accumulate=True)


@dataclass(frozen=True)
class Offered:
    """Check of all schedules offered for one kind of product, by their own launches."""

    operation: str
    dtype: str
    columns: int
    transposed: bool = False

    @property
    def id(self) -> str:
        """Name of the case."""
        return f"{self.operation}, {self.dtype}, {self.columns} columns" + ", transposed" * self.transposed

    def check(self) -> None:
        """Check that every schedule gives the product in float64, and the same bits again."""
        given, dtype = on_gpu(power_law(), getattr(torch, self.dtype)), getattr(torch, self.dtype)
        A = matrix.csr(given)
        D = dense_of(given).T if self.transposed else dense_of(given)
        n, m = D.shape
        kind = ProductKind(
            operation=self.operation, transposed=self.transposed, n_dense_cols=self.columns, dtype=self.dtype,
            vector=1 if self.operation == "spmv" else vector_of(self.dtype, self.columns),
        )  # fmt: skip
        X, B = (torch.randn(size, self.columns, dtype=torch.float64).to(dtype) for size in (n, m))
        wanted, scale = self._wanted(given, D, X.double(), B.double())
        target = target_of(torch.cuda.get_device_name())
        with asp.options(hybrid=True):
            offered = solvers.ranked(A.structure, kind, target)
        wrong = []
        for name, schedule in offered:
            launch = solvers.launch_of(A.structure, kind, schedule)
            runs = {
                "spmv": lambda out, launch=launch: launch.spmv(A.values, B[:, 0].contiguous(), out),
                "matmul": lambda out, launch=launch: launch.matmul(A.values, B, out),
                "sddmm": lambda out, launch=launch: launch.sddmm(out, X, B, out),
            }
            found = [runs[self.operation](torch.full(wanted.shape, torch.nan, dtype=dtype)) for _ in range(2)]
            error = float(((found[0].double() - wanted).abs() / scale).max())
            if not error <= TOLERANCES[self.dtype]:
                wrong.append(f"{name} {schedule}: off by {error:.3g}")
            elif not torch.equal(*found):
                wrong.append(f"{name} {schedule}: other bits the second time")
        assert not wrong, "\n".join(wrong)

    def _wanted(self, given: torch.Tensor, D: torch.Tensor, X: torch.Tensor, B: torch.Tensor) -> tuple[Any, Any]:
        if self.operation == "sddmm":
            rows = torch.repeat_interleave(torch.arange(D.shape[0]), given.crow_indices().long().diff())
            terms = X[rows] * B[given.col_indices().long()]
            return terms.sum(1), terms.abs().sum(1) + 1
        wanted, scale = D @ B, D.abs() @ B.abs() + 1
        return (wanted[:, 0], scale[:, 0]) if self.operation == "spmv" else (wanted, scale)


def offered() -> Iterator[Offered]:
    """Yield every operation by dtype and width, and transposes."""
    for dtype in TOLERANCES:
        yield from (Offered(operation, dtype, width) for operation in ("matmul", "sddmm") for width in WIDTHS)
        yield from (Offered("spmv", dtype, 1, flag) for flag in (False, True))
        yield Offered("matmul", dtype, 64, transposed=True)


@contextlib.contextmanager
def ours(**more: Any) -> Iterator[None]:
    """Serve all products by our kernels, also where torch's are faster, with an empty cache."""
    kept = choice.RULE, aten.SMALL_PRODUCT, aten.SMALL_VECTOR_PRODUCT
    choice.RULE, aten.SMALL_PRODUCT, aten.SMALL_VECTOR_PRODUCT = ANY_GAIN, 0, 0
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            asp.options(**{"runs": 10**9, "effort": "estimate", "cache_dir": folder, **more}),
        ):
            yield
    finally:
        choice.RULE, aten.SMALL_PRODUCT, aten.SMALL_VECTOR_PRODUCT = kept


def served(A: matrix.CudaCsr) -> None:
    """Check that a kernel of ours serves each kind of product so far."""
    for made in A.structure.choices.values():
        assert made.launch is not None, made.plan.why


def operands(dtype: torch.dtype = torch.float32) -> tuple[matrix.CudaCsr, torch.Tensor, torch.Tensor]:
    """Return A, B with 64 columns, and x."""
    A = matrix.csr(on_gpu(power_law(), dtype))
    return A, torch.randn(A.shape[1], 64).to(dtype), torch.randn(A.shape[1]).to(dtype)


def dense_by_rows(A: matrix.CudaCsr) -> torch.Tensor:
    """Return A with its current values as a dense tensor of its dtype."""
    S = torch.sparse_csr_tensor(A.structure.crow, A.structure.col, A.values, A.shape, check_invariants=False)
    return dense_of(S).to(A.dtype)


def law_products_follow_the_stream_that_is_current() -> None:
    A, B, x = operands()
    with ours():
        A @ B, A @ x
        served(A)
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10**8)  # a launch on another stream would read the earlier values
            B.mul_(-3)
            x.mul_(5)
            found = A @ B, A @ x
        stream.synchronize()
    D = dense_by_rows(A)
    torch.testing.assert_close(found, (D @ B, D @ x), rtol=1e-4, atol=1e-3)


def law_a_graph_replays_products_with_what_stands_there_then() -> None:
    A, B, x = operands()
    with ours():
        A @ B, A @ x, A.T @ B.new_ones(A.shape[0], 64)
        served(A)
        X = torch.randn(A.shape[0], 64)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = A @ B, A @ x, A.T @ X
    for _ in range(2):
        for one in (A.values, B, x, X):
            one.normal_()
        graph.replay()
        D = dense_by_rows(A)
        torch.testing.assert_close(found, (D @ B, D @ x, D.T @ X), rtol=1e-4, atol=1e-3)


def law_nothing_is_planned_in_a_capture() -> None:
    A, B, _ = operands()
    A @ B  # by torch, whose library allocates its workspace
    with ours():
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = A @ B
        (made,) = A.structure.choices.values()
        assert not made.is_finished
        graph.replay()
    torch.testing.assert_close(found, dense_by_rows(A) @ B, rtol=1e-4, atol=1e-3)


def law_steady_products_wait_for_nothing() -> None:
    A, B, x = operands()
    X, Y = torch.randn(A.shape[0], 32), torch.randn(A.shape[1], 32)
    from autosparse.cuda import products

    with ours():
        for is_warm in (False, True):
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error" if is_warm else "default")
            try:
                A @ B, A @ x, products.sampled(A.structure, X, Y)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        served(A)


def law_gradients_are_those_of_dense() -> None:
    stored = on_gpu(power_law(), torch.float64)
    with ours():
        A = matrix.csr(stored).with_values(stored.values().clone().requires_grad_())
        B = torch.randn(A.shape[1], 8, dtype=torch.float64, requires_grad=True)
        weights = torch.randn(A.shape[0], 8, dtype=torch.float64)
        found = torch.autograd.grad(((A @ B) * weights).sum(), (A.values, B))
        served(A)
        assert len(A.structure.choices) == 3  # the product, its transpose, and the sampled one
    D = dense_of(stored).requires_grad_()
    wanted = torch.autograd.grad(((D @ B) * weights).sum(), (D, B))
    rows = torch.repeat_interleave(torch.arange(A.shape[0]), stored.crow_indices().long().diff())
    torch.testing.assert_close(found, (wanted[0][rows, stored.col_indices().long()], wanted[1]))


def law_a_plan_is_measured_remembered_and_explained() -> None:
    stored = on_gpu(power_law())
    A, B = matrix.csr(stored), torch.randn(stored.shape[1], 64)
    with ours(effort="measure"):
        A @ B
        served(A)
        again = matrix.csr(stored.clone())
        again @ B
        (made,) = again.structure.choices.values()
        assert made.plan.why.startswith("plan from the cache"), made.plan.why
        assert "measured" in A.explain()


def law_cupy_arrays_come_back_as_they_went() -> None:
    if importlib.util.find_spec("cupy") is None:
        return
    import cupy

    A, B, _ = operands()
    with ours():
        found = A @ cupy.from_dlpack(B)
        served(A)
    assert isinstance(found, cupy.ndarray)
    torch.testing.assert_close(torch.from_dlpack(found), dense_by_rows(A) @ B, rtol=1e-4, atol=1e-3)
    left = cupy.from_dlpack(torch.randn(5, A.shape[0])) @ A
    assert isinstance(left, cupy.ndarray)


def law_public_matrices_stay_on_their_device() -> None:
    stored = on_gpu(power_law())
    A, B = asp.csr(stored), torch.randn(stored.shape[1], 32)
    with ours():
        found = A @ B
    assert found.device == B.device
    torch.testing.assert_close(found, dense_of(stored).float() @ B, rtol=1e-4, atol=1e-3)


def law_the_override_serves_torch() -> None:
    for make in (torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc):
        stored: torch.Tensor = make(on_gpu(power_law(), torch.float64))
        for name, (call, wanted) in calls(stored).items():
            for how in (ours(), asp.options(effort="off")):
                with asp.torch.override(), how:
                    found = call()
                torch.testing.assert_close(found, wanted, msg=lambda text, name=name: f"{name}: {text}")
        asp.torch.forget_structures()


def calls(S: torch.Tensor) -> dict[str, tuple[Callable[[], Any], torch.Tensor]]:
    """Return a dict from name to (torch product with S, answer from dense tensors)."""
    D, (n, m) = S.to_dense(), S.shape
    B, x, C = (torch.randn(*shape, dtype=torch.float64) for shape in ((m, 64), (m,), (n, 64)))
    y, X, out = torch.randn(n, dtype=torch.float64), torch.randn(64, n, dtype=torch.float64), torch.empty_like(C)
    return {
        "A @ B": (lambda: S @ B, D @ B),
        "torch.sparse.mm": (lambda: torch.sparse.mm(S, B), D @ B),
        "A @ x": (lambda: S @ x, D @ x),
        "addmm": (lambda: torch.addmm(C, S, B, alpha=0.5, beta=-2.0), 0.5 * (D @ B) - 2 * C),
        "addmv": (lambda: torch.addmv(y, S, x, alpha=0.5, beta=2.0), 0.5 * (D @ x) + 2 * y),
        "transpose": (lambda: S.t() @ C, D.t() @ C),
        "dense @ sparse": (lambda: X @ S, X @ D),
        "out=": (lambda: torch.mm(S, B, out=out), D @ B),
    }


def law_sampled_products_and_gradients_of_torch() -> None:
    S = on_gpu(power_law(), torch.float64)
    n, m = S.shape
    X, Y = torch.randn(n, 40, dtype=torch.float64), torch.randn(40, m, dtype=torch.float64)
    wanted = torch.sparse.sampled_addmm(S, X, Y, alpha=0.5, beta=-2.0)
    with asp.torch.override(), ours(), everywhere(runs=10**9, effort="estimate"):
        found = torch.sparse.sampled_addmm(S, X, Y, alpha=0.5, beta=-2.0)
        torch.testing.assert_close(found.values(), wanted.values())
        a, b = S.clone().requires_grad_(), Y.t().contiguous().requires_grad_()
        torch.sparse.mm(a, b).square().sum().backward()
    D, c = dense_of(S).requires_grad_(), b.detach().clone().requires_grad_()
    (D @ c).square().sum().backward()
    rows = torch.repeat_interleave(torch.arange(n), S.crow_indices().long().diff())
    torch.testing.assert_close(a.grad.values(), D.grad[rows, S.col_indices().long()])
    torch.testing.assert_close(b.grad, c.grad)


def law_reductions_are_those_of_the_cpu() -> None:
    S = on_gpu(power_law(300, 200))
    B = torch.randn(200, 16)
    for reduce in ("sum", "mean", "amax", "amin"):

        def answers(S: torch.Tensor, B: torch.Tensor, reduce: str = reduce) -> list[torch.Tensor]:
            a, b = S.clone().requires_grad_(), B.clone().requires_grad_()
            product = torch.sparse.mm(a, b, reduce)
            product.square().sum().backward()
            return [product.detach().cpu(), a.grad.values().cpu(), b.grad.cpu()]

        wanted = answers(S.cpu(), B.cpu())
        with asp.torch.override(), ours():
            found = answers(S, B)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4, msg=lambda text, name=reduce: f"{name}: {text}")


def law_mttkrp_is_that_of_dense() -> None:
    from tests.triton.factors import dense_mttkrp, factors_of, tensor_of

    T = tensor_of((30, 40, 50), nnz=4000)
    factors = factors_of(T, 32)
    with ours():
        for mode in range(3):
            found = asp.mttkrp(T, factors, mode)
            wanted = dense_mttkrp(T.double(), [one.double() for one in factors], mode)
            torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-3)
            known = fibers.fibers_of(T._indices(), tuple(T.shape), mode)
            for made in known.choices.values():
                assert made.launch is not None, made.plan.why


def law_structures_that_point_outside_raise_before_a_kernel_reads() -> None:
    crow, col = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 7])
    A = matrix.CudaCsr(structure.structure_of(crow, col, 3), torch.ones(3))
    with pytest.raises(StructureError, match="Hint"):
        A.structure.facts(False)
    torch.cuda.synchronize()


def law_times_are_those_of_the_device() -> None:
    gpu, large = device.CudaDevice(), torch.zeros(2**28, dtype=torch.int8)
    other = torch.empty_like(large)
    one, ten = (gpu.seconds(partial(_copies, large, other, n), rounds=5) for n in (1, 10))
    assert 5 < ten / one < 20, (one, ten)
    assert target_of(gpu.name(large)).name != "generic", gpu.name(large)


def _copies(source: torch.Tensor, target: torch.Tensor, n: int, number: int) -> None:
    for _ in range(n):
        target.copy_(source)


def laws() -> dict[str, Callable[[], None]]:
    """Return every check and every kind of product, by name."""
    found = {name: law for name, law in globals().items() if name.startswith("law_")}
    return found | {one.id: one.check for one in offered()}


def main() -> None:
    """Print a line for each check."""
    from tests.triton.places import is_on_gpu, of_share

    if not is_on_gpu():
        sys.exit("usage: python -m tests.triton.hardware cuda")
    torch.set_num_threads(1)
    for name, law in of_share(list(laws().items())):
        torch.manual_seed(0)
        error = None
        try:
            law()
        except Exception:  # noqa: BLE001  reported by the test of this check
            error = traceback.format_exc()[-3000:]
        print(json.dumps({"id": name, "error": error}), flush=True)


if __name__ == "__main__":
    main()

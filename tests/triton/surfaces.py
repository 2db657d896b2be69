"""Checks of products on a device that Triton's interpreter simulates; `test_surfaces` runs them in another process."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import autosparse as asp
from autosparse.core.solver import Choice
from autosparse.cuda import choice, device, fibers, matrix, products, solvers
from autosparse.cuda.structure import structure_of
from autosparse.errors import InputTypeError, ShapeError, StructureError
from tests.triton import patterns


def matrix_of(dtype: torch.dtype = torch.float32, pattern: str = "mixed") -> torch.Tensor:
    crow, col, shape = patterns.MATRICES[pattern]()
    values = torch.randn(len(col), dtype=dtype)
    return torch.sparse_csr_tensor(
        torch.tensor(crow), torch.tensor(col, dtype=torch.int64), values, shape, check_invariants=False
    )


def finished(A: matrix.CudaCsr, B: torch.Tensor, **options: Any) -> choice.PlannedProduct:
    """Run a product with many expected runs; return its choice, after checking that kernels of ours were timed."""
    with asp.options(runs=10**9, **options):
        A @ B
    made = next(iter(A.structure.choices.values()))
    assert made.is_finished
    assert "torch" in made.measured_s, made.plan.why
    assert len(made.measured_s) > 1, made.plan.why
    return made


def use_ours(A: matrix.CudaCsr, B: torch.Tensor) -> None:
    """Let the model's first candidate serve, for the interpreter never wins a race against torch."""
    A @ B
    made = next(iter(A.structure.choices.values()))
    target = choice.target_of("NVIDIA H100")
    schedule = solvers.ranked(A.structure, made.kind, target)[0][1]
    made.plan = replace(made.plan, effort="full", choice=Choice(solvers.TRITON.name, schedule.to_json()))
    made.launch = solvers.launch_of(A.structure, made.kind, schedule)


def test_torch_serves_first() -> None:
    A, B = matrix.csr(matrix_of()), torch.randn(23, 6)
    torch.testing.assert_close(A @ B, torch_product(A, B))
    (made,) = A.structure.choices.values()
    assert made.launch is None
    assert not made.is_finished


def torch_product(A: matrix.CudaCsr, B: torch.Tensor) -> torch.Tensor:
    dense = products.torch_matmul(A.structure, A.values, torch.eye(A.shape[1], dtype=A.dtype), transposed=A.transposed)
    return dense @ B


def test_planning_compares_and_remembers() -> None:
    stored, B = matrix_of(), torch.randn(23, 8)
    A = matrix.csr(stored)
    made = finished(A, B)
    ours = [seconds for name, seconds in made.measured_s.items() if name != "torch"]
    is_faster = min(ours) < choice.ACCEPTED * made.measured_s["torch"]
    assert (made.launch is not None) == is_faster, made.plan.why
    again = matrix.csr(stored.clone())
    with asp.options(runs=10**9):
        again @ B
    (second,) = again.structure.choices.values()
    assert second.plan.why.startswith("plan from the cache"), second.plan.why


def test_ours_gives_the_product() -> None:
    for shape in ((23, 5), (23, 16), (23,)):
        A, B = matrix.csr(matrix_of()), torch.randn(*shape)
        use_ours(A, B)
        torch.testing.assert_close(A @ B, torch_product(A, B))


def test_values_are_read_live() -> None:
    A, B = matrix.csr(matrix_of()), torch.randn(23, 8)
    use_ours(A, B)
    A.values.mul_(3)
    torch.testing.assert_close(A @ B, torch_product(A, B))


def test_values_that_are_put_in_place_of_others_are_read() -> None:
    for use in (lambda A, B: None, use_ours):
        A, B = matrix.csr(matrix_of()), torch.randn(23, 8)
        A @ B
        use(A, B)
        for put in (lambda A, new: setattr(A, "values", new), lambda A, new: setattr(A.values, "data", new)):
            put(A, torch.randn(A.nnz))
            for _ in range(2):
                torch.testing.assert_close(A @ B, torch_product(A, B))


def test_gradients_are_those_of_dense() -> None:
    stored = matrix_of(torch.float64)
    for transposed in (False, True):
        A = matrix.csr(stored).with_values(stored.values().clone().requires_grad_())
        A = A.T if transposed else A
        B = torch.randn(A.shape[1], 3, dtype=torch.float64, requires_grad=True)
        use_ours(A, B.detach())
        weights = torch.randn(A.shape[0], 3, dtype=torch.float64)
        found = torch.autograd.grad(((A @ B) * weights).sum(), (A.values, B))
        dense = stored.to_dense().requires_grad_()
        wanted = torch.autograd.grad((((dense.T if transposed else dense) @ B) * weights).sum(), (dense, B))
        rows = torch.repeat_interleave(torch.arange(19), stored.crow_indices().diff())
        torch.testing.assert_close(found[0], wanted[0][rows, stored.col_indices()])
        torch.testing.assert_close(found[1], wanted[1])


def test_no_planning_during_a_graph_capture() -> None:
    class Capturing(device.HostDevice):
        def is_capturing(self) -> bool:
            return True

    device.DEVICES["cpu"] = Capturing()
    try:
        A, B = matrix.csr(matrix_of()), torch.randn(23, 4)
        with asp.options(runs=10**9):
            A @ B
        (made,) = A.structure.choices.values()
        assert not made.is_finished
    finally:
        device.DEVICES["cpu"] = device.HostDevice()


def test_failure_leaves_torch() -> None:
    def broken(*given: Any) -> Any:
        raise RuntimeError("no ptxas here")

    original, solvers.launch_of = solvers.launch_of, broken
    try:
        A, B = matrix.csr(matrix_of(pattern="dense blocks")), torch.randn(18, 4)
        with asp.options(runs=10**9, cache=False):
            product = A @ B
        torch.testing.assert_close(product, torch_product(A, B))
        (made,) = A.structure.choices.values()
        assert "no ptxas here" in made.plan.why
    finally:
        solvers.launch_of = original


def test_a_cache_that_cannot_be_opened_leaves_torch() -> None:
    def refused() -> None:
        raise ModuleNotFoundError("No module named 'platformdirs'")

    A, B = matrix.csr(matrix_of()), torch.randn(23, 8)
    with pytest.MonkeyPatch.context() as patch, asp.options(runs=10**9):
        patch.setattr(choice, "open_store", refused)
        torch.testing.assert_close(A @ B, torch_product(A, B))
    (made,) = A.structure.choices.values()
    assert made.is_finished
    assert "platformdirs" in made.plan.why


def test_arrays_come_back_as_they_went() -> None:
    import numpy as np

    A, x = matrix.csr(matrix_of(torch.float64)), np.random.default_rng(0).normal(size=(23, 4))
    y = A @ x
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, torch_product(A, torch.from_numpy(x)).numpy())


def test_shapes_and_dtypes_are_checked() -> None:
    A = matrix.csr(matrix_of())
    for B, error in ((torch.randn(22, 3), ValueError), (torch.randn(23, 3, dtype=torch.float64), TypeError)):
        try:
            A @ B
        except error:
            continue
        raise AssertionError(f"{B.shape} {B.dtype} was taken")


def test_infinity_stays_in_its_rows() -> None:
    """Check that padding in windows does not produce 0 · inf where A has no entry."""
    from autosparse.gpu.schedule import DeviceSchedule, GpuPart

    stored, B = matrix_of(pattern="mixed"), torch.randn(23, 16)
    B[7, 3] = float("inf")
    structure = structure_of(stored.crow_indices(), stored.col_indices(), 23)
    for rows in (8, 16):
        parts = (GpuPart(layout="windows", rows=rows, step=16), GpuPart(layout="fill", rows=8))
        schedule = DeviceSchedule(operation="matmul", parts=parts, tile=16)
        kind = solvers.ProductKind(operation="matmul", transposed=False, n_dense_cols=16, dtype="float32", vector=1)
        launch = solvers.launch_of(structure, kind, schedule)
        found = launch.matmul(stored.values(), B, torch.empty(19, 16))
        wanted = torch.sparse.mm(stored, B)
        torch.testing.assert_close(found, wanted, equal_nan=True)
        assert found.isinf().any()


def test_mismatched_operands_are_refused_before_a_launch() -> None:
    stored = matrix_of()
    A = matrix.csr(stored)
    for values, error in ((stored.values()[:-1], ShapeError), (stored.values().cpu().numpy(), InputTypeError)):
        with pytest.raises(error, match="Hint"):
            A.with_values(values)
    with pytest.raises(InputTypeError, match="Hint"):
        A @ "x"


def test_structures_that_point_outside_are_found_before_anything_is_planned() -> None:
    crow, col = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 2])
    assert structure_of(crow, col, 3).facts(False).nnz == 3
    for starts, columns in (
        ([1, 2, 3], col),
        ([0, 2, 2], col),
        ([0, 4, 3], col),
        (crow, [0, 1, 3]),
        (crow, [0, -1, 2]),
    ):
        broken = structure_of(torch.as_tensor(starts), torch.as_tensor(columns), 3)
        for ask in (broken.facts, broken.entries):
            with pytest.raises(StructureError, match="Hint"):
                ask(False)
    coords = torch.tensor([[0, 1], [0, 5], [0, 0]])
    with pytest.raises(StructureError, match="coordinates outside"):
        fibers.fibers_of(coords, (2, 5, 1), 0).facts(False)


def test_no_module_of_the_laboratory_is_imported() -> None:
    """Check the modules that this process has imported; the check runs after all others."""
    laboratory = ("autosparse.tuner.research", "autosparse.calibration", "autosparse.accelerators")
    assert "autosparse.tuner.gpu.model" in sys.modules, "nothing was planned"
    asked = ("autosparse.tuner.research", "autosparse.tuner.research.hybrid")  # by checks that set hybrid=True
    found = [name for name in sys.modules if name.startswith(laboratory)]
    assert not [name for name in found if name != asked[0] and not name.startswith(asked[1])]


def tests() -> dict[str, Callable[[], None]]:
    """Return every check by name."""
    from tests.triton import choosing, composites, factors, overridden, surfaces

    homes = (surfaces, choosing, composites, overridden, factors)
    found = {name: law for home in homes for name, law in vars(home).items() if name.startswith("test_")}
    last = test_no_module_of_the_laboratory_is_imported.__name__
    law = found.pop(last)
    return {**found, last: law}


HOST_ONLY = (
    "test_no_planning_during_a_graph_capture", "test_arrays_come_back_as_they_went",
    "test_no_kernel_is_compiled_during_a_graph_capture", "test_machine_code_that_was_found_is_started_without_a_search",
    "test_launched_code_is_given_addresses_and_only_aligned_ones",
    "test_launches_and_measurements_go_to_the_device_of_the_tensors",
    "test_reductions_of_torch_and_their_gradients_are_ours",
)  # fmt: skip
"""Checks that replace the host's device, or use properties that torch has on CPUs only: see `hardware`."""


def main() -> None:
    """Print a line for each check, or for those named in the arguments; after ``cuda``, on a GPU."""
    device.DEVICES["cpu"] = device.HostDevice()
    torch.set_num_threads(1)

    from tests.triton.places import is_on_gpu

    on_gpu = is_on_gpu()
    named = sys.argv[2 if on_gpu else 1 :]
    for name, law in tests().items():
        if (named and name not in named) or (on_gpu and name in HOST_ONLY):
            continue
        torch.manual_seed(0)
        error, start_s = None, time.process_time()
        try:
            law()
        except Exception:  # noqa: BLE001  reported by the test of this check
            error = traceback.format_exc()[-3000:]
        print(json.dumps({"id": name, "error": error, "cpu_s": time.process_time() - start_s}), flush=True)


if __name__ == "__main__":
    main()

"""Checks of choosing a GPU kernel: refusals, captured graphs, the device of launches, and what is kept."""

from __future__ import annotations

import gc
import json
import math
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from autosparse._native.triton.launch import Launch, Started
from autosparse.cache import Store
from autosparse.tuner.search.race import RaceRule

import autosparse as asp
from autosparse.cuda import choice, device, matrix, products, solvers, structure
from autosparse.cuda.choice import PlannedProduct
from autosparse.cuda.solvers import ProductKind
from autosparse.errors import PackError, ScheduleError
from autosparse.gpu.schedule import DeviceSchedule, GpuPart
from tests.triton.surfaces import matrix_of, torch_product, use_ours

ANY_GAIN = RaceRule(margin=-math.inf, majority=0.0, min_rounds=1, max_rounds=1, first_cut=2)
"""Rule of races in which the fastest kernel replaces torch, however slow it is."""
KIND = ProductKind(operation="matmul", transposed=False, n_dense_cols=8, dtype="float32", vector=4)


@contextmanager
def standing_in(made: device.Device) -> Iterator[None]:
    """Use another device for tensors in the host's memory."""
    device.DEVICES["cpu"] = made
    try:
        yield
    finally:
        device.DEVICES["cpu"] = device.HostDevice()


@contextmanager
def replaced(home: Any, name: str, by: Any) -> Iterator[None]:
    """Set attribute `name` of `home` to `by` for the block."""
    kept = getattr(home, name)
    setattr(home, name, by)
    try:
        yield
    finally:
        setattr(home, name, kept)


def planned(A: matrix.CudaCsr, B: torch.Tensor, **options: Any) -> tuple[PlannedProduct, torch.Tensor]:
    """Return the choice made by one product with many expected runs, and the product."""
    anew = replaced(choice, "open_store", lambda: Store(None))
    with anew, asp.options(**{"runs": 10**9, "effort": "estimate", **options}):
        product = A @ B
    (made,) = A.structure.choices.values()
    return made, product


class StandIn:
    """Launch that gives torch's product, or a wrong one by `spoil`."""

    def __init__(self, A: matrix.CudaCsr, spoil: Callable[[torch.Tensor], Any] = lambda product: product) -> None:
        self.A, self.spoil = A, spoil

    def matmul(self, values: torch.Tensor, B: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = self.spoil(products.torch_matmul(self.A.structure, values, B, transposed=False))
        return product


def test_a_candidate_that_is_wrong_is_rejected_and_told_of() -> None:
    A, B = matrix.csr(matrix_of()), torch.randn(23, 8)
    with replaced(solvers, "launch_of", lambda *given: StandIn(A, lambda product: product + 1)):
        made, product = planned(A, B)
    torch.testing.assert_close(product, torch_product(A, B))
    assert made.launch is None
    assert len(made.rejected) == 1
    assert "results differ from torch's: " + made.rejected[0] in made.plan.why
    assert made.plan.why in A.explain()
    assert re.search(r"Candidates\n +measured +predicted +build +pack +memory\n", A.explain())  # as of other planners


def test_results_without_a_finite_number_are_compared() -> None:
    nans, numbers = torch.full((3, 2), torch.nan).double(), torch.ones(3, 2).double()
    assert choice._agrees(nans, nans, "float32")
    assert not choice._agrees(numbers, nans, "float32")
    assert choice._agrees(numbers[:0], numbers[:0], "float32")
    A, B = matrix.csr(matrix_of(pattern="dense blocks")), torch.full((18, 8), torch.nan)
    B[:] = torch.inf
    A.values.fill_(torch.nan)
    with replaced(solvers, "launch_of", lambda *given: StandIn(A)):
        made, _ = planned(A, B)
    assert not made.rejected
    assert len(made.measured_s) == 2, made.plan.why


def test_a_kernel_that_fails_later_leaves_torch() -> None:
    def broken(product: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of shared memory")

    A, B = matrix.csr(matrix_of()), torch.randn(23, 8)
    A @ B
    (made,) = A.structure.choices.values()
    made.plan, made.launch = replace(made.plan, effort="full"), StandIn(A, broken)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(A @ B, torch_product(A, B))
    assert made.launch is None
    assert "out of shared memory" in made.plan.why


def test_a_plan_larger_than_its_memory_is_not_tried() -> None:
    A, B = matrix.csr(matrix_of()), torch.randn(23, 8)
    with replaced(solvers, "FREE_BYTES", 0):
        made, product = planned(A, B, extra_memory=0.0)
    torch.testing.assert_close(product, torch_product(A, B))
    assert made.launch is None
    assert any("extra_memory" in (one.failed or "") for one in made.plan.candidates), made.plan.why
    assert "extra_memory" in A.explain()
    try:
        with replaced(solvers, "FREE_BYTES", 0), asp.options(extra_memory=0.0):
            solvers.launch_of(A.structure, KIND, favourites(A)[0])
    except PackError:
        return
    raise AssertionError("no PackError")


def problem_of(A: matrix.CudaCsr, deterministic: bool) -> solvers.DeviceProblem:
    target = choice.target_of("NVIDIA H100")
    return solvers.DeviceProblem(structure=A.structure, kind=KIND, target=target, deterministic=deterministic)


def favourites(A: matrix.CudaCsr) -> list[DeviceSchedule]:
    target = choice.target_of("NVIDIA H100")
    return [schedule for _, schedule in solvers.ranked(A.structure, KIND, target)]


def test_records_name_the_summation_that_was_a_choice_once() -> None:
    one = favourites(matrix.csr(matrix_of()))[0]
    older = json.loads(one.to_json()) | {"reduction": "two_phase"}
    assert DeviceSchedule.from_json(json.dumps(older)) == one
    try:
        DeviceSchedule.from_json(json.dumps(older | {"reduction": "atomic"}))
    except ScheduleError:
        return
    raise AssertionError("no ScheduleError")


def test_deterministic_mode_plans_anew() -> None:
    A = matrix.csr(matrix_of())
    keys = []
    for deterministic in (False, True):
        with asp.options(deterministic=deterministic):
            keys.append(choice.key_of(problem_of(A, deterministic), "NVIDIA H100").stable_hash())
    assert keys[0] != keys[1]
    other = choice.key_of(problem_of(A, deterministic=True), "NVIDIA A100").stable_hash()
    assert other not in keys  # nor is a plan of another device accepted


def test_no_kernel_is_compiled_during_a_graph_capture() -> None:
    class Captured(device.HostDevice):
        capturing = False

        def is_capturing(self) -> bool:
            return self.capturing

    A, B, host = matrix.csr(matrix_of()), torch.randn(23, 8), Captured()
    use_ours(A, B)
    launched: list[bool] = []
    real = Launch.matmul

    def counting(self: Launch, *given: Any) -> torch.Tensor:
        launched.append(host.capturing)
        return real(self, *given)

    with standing_in(host), replaced(Launch, "matmul", counting):
        host.capturing = True
        torch.testing.assert_close(A @ B, torch_product(A, B))
        assert not launched, "a kernel that was never launched would be compiled in the capture"
        host.capturing = False
        A @ B
        host.capturing = True
        torch.testing.assert_close(A @ B, torch_product(A, B))
        assert launched == [False, True]
        unaligned = torch.empty(A.nnz + 1)[1:].copy_(A.values)  # Triton compiles separately for it
        A.with_values(unaligned) @ B
        assert launched == [False, True]


def test_launches_and_measurements_go_to_the_device_of_the_tensors() -> None:
    class Watched(device.HostDevice):
        depth = 0

        @contextmanager
        def at(self, tensor: torch.Tensor) -> Iterator[None]:
            assert tensor.shape == (23, 8)
            self.depth += 1
            yield
            self.depth -= 1

        def seconds(self, run: Callable[[int], object], *, rounds: int) -> float:
            assert self.depth == 1
            return super().seconds(run, rounds=rounds)

    A, B, host = matrix.csr(matrix_of()), torch.randn(23, 8), Watched()
    with standing_in(host), replaced(solvers, "launch_of", lambda *given: StandIn(A)):
        made, _ = planned(A, B)
    assert len(made.measured_s) == 2, made.plan.why
    assert host.depth == 0


def test_kernels_run_on_the_device_of_their_tensors() -> None:
    entered = []

    class Tensor:
        device = torch.device("cuda", 1)

    with (
        replaced(torch.cuda, "current_device", lambda: 0),
        replaced(torch.cuda, "device", lambda one: entered.append(one)),
    ):
        gpu: Any = device.CudaDevice()
        gpu.at(Tensor())
        assert entered == [torch.device("cuda", 1)]
        Tensor.device = torch.device("cuda", 0)
        with gpu.at(Tensor()):
            assert len(entered) == 1


def test_a_launch_keeps_no_workspace() -> None:
    A, B = matrix.csr(matrix_of(pattern="one huge row")), torch.randn(67, 8)
    parts = (GpuPart(layout="unrolled", rows=4, step=4, split=8), GpuPart(layout="fill", rows=8))
    launch = solvers.launch_of(A.structure, KIND, DeviceSchedule(operation="matmul", parts=parts, tile=16))
    assert launch.packed.n_slots
    taken = []

    def workspace(self: Launch, n_cols: int, dtype: torch.dtype) -> torch.Tensor:
        taken.append(original(self, n_cols, dtype))
        return taken[-1]

    original = Launch._workspace
    with replaced(Launch, "_workspace", workspace):
        for _ in range(2):
            launch.matmul(A.values, B, torch.empty(5, 8))
    assert taken[0].data_ptr() != taken[1].data_ptr(), "two launches at once would share it"
    assert launch.work_bytes(8, torch.float32) == taken[0].numel() * 4


class Compiled:
    """Machine code that records how it was started."""

    function, packed_metadata = "function", "metadata"

    def __init__(self, *, takes: bool = True) -> None:
        self.takes, self.seen = takes, []

    def run(self, *given: Any) -> None:
        if not self.takes:
            raise TypeError("another version")
        self.seen.append(given)

    def __getitem__(self, grid: Any) -> Any:
        return lambda *given: self.seen.append(("by triton", grid, *given))


def test_machine_code_that_was_found_is_started_without_a_search() -> None:
    from triton import knobs

    grid, given, profiler = (3, 1, 1), ("table", 5), type("Hooks", (), {"calls": [print]})()
    torch._C._cuda_getCurrentRawStream = lambda index: 7 + index  # CPU builds have none
    direct, other = Compiled(), Compiled(takes=False)
    Started(direct, 1).start(grid, given)
    assert direct.seen == [(*grid, 8, "function", "metadata", None, None, None, *given)]
    started = Started(other, 0)
    for _ in range(2):
        started.start(grid, given)
    assert other.seen == [("by triton", grid, *given)] * 2
    with replaced(knobs.runtime, "launch_enter_hook", profiler):
        Started(direct, 0).start(grid, given)
    assert direct.seen[1:] == [("by triton", grid, *given)]


def test_launched_code_is_given_addresses_and_only_aligned_ones() -> None:
    """Check that launches get addresses, and only aligned ones.

    For a tensor, Triton would ask the driver. Machine code for aligned operands would misread others.
    """
    A, room = matrix.csr(matrix_of()), torch.randn(23 * 8 + 1)
    parts = (GpuPart(layout="rows", rows=1, step=8), GpuPart(layout="fill", rows=8))
    launch, seen = solvers.launch_of(A.structure, KIND, DeviceSchedule(operation="matmul", parts=parts, tile=16)), []
    launch._ready["kernel"] = SimpleNamespace(start=lambda grid, given: seen.append((grid, given)))
    B, out, packed = room[:-1].view(23, 8), torch.full((19, 8), -1.0), launch.packed
    launch.matmul(A.values, B, out)
    (grid, (table, values, *others)), n_tasks = seen.pop(), packed.n_tasks
    assert grid == (n_tasks, 1, 1)
    assert (table, values) == (packed.table.data_ptr(), A.values.data_ptr())
    arrays, dense = [one.data_ptr() for one in packed.arrays], [B.data_ptr(), out.data_ptr()]
    assert others == [*arrays, *dense, launch._no_sums.data_ptr(), n_tasks, 8, 8, 8]
    late = room[1:].view(23, 8)
    launch.matmul(A.values, late, out)
    assert not seen
    torch.testing.assert_close(out, torch_product(A, late))


def test_a_pattern_is_forgotten_with_its_tensor() -> None:
    stored = matrix_of()
    known = structure.structure_of(stored.crow_indices(), stored.col_indices(), 23).known
    again = structure.structure_of(stored.crow_indices(), stored.col_indices(), 23)
    assert again.known is known
    stored.col_indices()[0] += 0  # a write that torch counts
    assert structure.structure_of(stored.crow_indices(), stored.col_indices(), 23).known is not known
    del again, stored
    gc.collect()
    other = matrix_of(pattern="duplicates")
    structure.structure_of(other.crow_indices(), other.col_indices(), 4)
    assert all(kept is not known for _, kept in structure._seen.values())


def test_choices_are_bounded() -> None:
    known = structure.KnownPattern()
    for n in range(structure.MAX_CHOICES + 5):
        known.choose((n,), n)
    assert list(known.choices.values()) == list(range(5, structure.MAX_CHOICES + 5))


def test_copies_exceed_the_second_cache_and_come_in_turn() -> None:
    B = torch.randn(10, 10)
    copies = products.Rotation(B, l2_bytes=1000)
    assert copies.n * 400 >= 2 * 1000
    assert copies.next(0) is B
    addresses = [copies.next(number).data_ptr() for number in range(1, 2 * copies.n + 1)]
    assert len(set(addresses)) == copies.n
    assert addresses[: copies.n] == addresses[copies.n :]
    torch.testing.assert_close(copies.next(1), B)
    assert products.Rotation(B[:1, :1], l2_bytes=2**30).n == products.MAX_COPIES


def test_a_plan_of_less_effort_does_not_stand_for_a_search() -> None:
    with tempfile.TemporaryDirectory() as folder, asp.options(cache_dir=folder, runs=10**9):
        efforts = []
        for effort in ("estimate", "measure", "estimate"):
            A, B = matrix.csr(matrix_of()), torch.randn(23, 8)
            with asp.options(effort=effort), replaced(solvers, "launch_of", lambda *given, A=A: StandIn(A)):
                A @ B
            (made,) = A.structure.choices.values()
            A.structure.known.choices.clear()
            efforts.append((made.plan.effort, len(made.measured_s)))
    assert efforts[0] == ("estimate", 2)
    assert efforts[1][0] == "measure"
    assert efforts[1][1] > 2, "it was searched anew"
    assert efforts[2] == efforts[1], "the stored plan of more effort serves, with its measurements"

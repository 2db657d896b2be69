"""Tests of GPU products in Triton's interpreter, and of what is imported on a machine without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.processes import run_with_torch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

LAWS = (
    "test_mismatched_operands_are_refused_before_a_launch",
    "test_structures_that_point_outside_are_found_before_anything_is_planned",
    "test_torch_serves_first", "test_planning_compares_and_remembers", "test_ours_gives_the_product",
    "test_values_are_read_live", "test_values_that_are_put_in_place_of_others_are_read",
    "test_gradients_are_those_of_dense", "test_no_planning_during_a_graph_capture",
    "test_failure_leaves_torch", "test_a_cache_that_cannot_be_opened_leaves_torch",
    "test_arrays_come_back_as_they_went", "test_shapes_and_dtypes_are_checked",
    "test_a_plan_of_less_effort_does_not_stand_for_a_search",
    "test_infinity_stays_in_its_rows", "test_a_candidate_that_is_wrong_is_rejected_and_told_of",
    "test_results_without_a_finite_number_are_compared", "test_a_kernel_that_fails_later_leaves_torch",
    "test_a_plan_larger_than_its_memory_is_not_tried", "test_records_name_the_summation_that_was_a_choice_once",
    "test_deterministic_mode_plans_anew", "test_no_kernel_is_compiled_during_a_graph_capture",
    "test_launches_and_measurements_go_to_the_device_of_the_tensors", "test_kernels_run_on_the_device_of_their_tensors",
    "test_machine_code_that_was_found_is_started_without_a_search",
    "test_launched_code_is_given_addresses_and_only_aligned_ones",
    "test_a_launch_keeps_no_workspace", "test_a_pattern_is_forgotten_with_its_tensor", "test_choices_are_bounded",
    "test_copies_exceed_the_second_cache_and_come_in_turn", "test_products_of_torch_are_ours",
    "test_products_of_torch_go_where_out_says", "test_sampled_products_of_torch_are_ours",
    "test_gradients_under_the_override_are_those_of_torch", "test_reductions_of_torch_and_their_gradients_are_ours",
    "test_extremes_are_the_same_in_panels", "test_unsupported_calls_raise_as_in_torch",
    "test_torch_serves_under_the_override_until_a_kernel_is_chosen",
    "test_an_override_and_a_matrix_of_ours_do_not_call_each_other", "test_mttkrp_is_ours_in_every_mode",
    "test_mttkrp_plans_once_and_reads_values_live", "test_mttkrp_of_torch_has_gradients_and_other_orders",
    "test_mttkrp_goes_to_the_gpu_with_its_operands", "test_mttkrp_says_what_does_not_fit",
    "test_composites_are_scipys_products", "test_composites_are_offered_where_they_are_wanted",
    "test_composites_of_large_matrices_are_offered_when_the_model_likes_them",
    "test_composites_are_explained_by_their_parts", "test_composites_that_were_found_are_remembered_and_serve",
    "test_an_operation_that_is_registered_late_has_kernels", "test_no_module_of_the_laboratory_is_imported",
)  # fmt: skip


def run(*arguments: str, **extra: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **extra}
    command = [sys.executable, "-W", "ignore", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Return errors by check, from a process with its own cache, in which there are no plans of other workers."""
    cache = str(tmp_path_factory.mktemp("cache"))
    lines = run("-m", "tests.triton.surfaces", TRITON_INTERPRET="1", AUTOSPARSE_CACHE_DIR=cache).splitlines()
    return {line["id"]: line["error"] for line in map(json.loads, lines)}


@pytest.mark.parametrize("law", LAWS)
def test_triton_surface_law_holds_in_the_interpreter(law: str, answers: dict[str, str | None]):
    assert answers[law] is None, answers[law]


def test_triton_surface_laws_are_all_run(answers: dict[str, str | None]):
    assert set(answers) == set(LAWS)


BROKEN = """
import sys, warnings
import torch, autosparse as asp
from autosparse._native.kernels import implementations
from autosparse.cli import doctor
from autosparse.cuda import device, matrix
from autosparse.gpu.schedule import DeviceSchedule, GpuPart
device.DEVICES["cpu"] = device.HostDevice()
B = torch.randn(9, 2)
with warnings.catch_warnings(record=True) as caught, asp.options(runs=10**9, cache=False):
    warnings.simplefilter("always")
    A = matrix.csr(torch.eye(9).to_sparse_csr())
    for one in (A, A, A.T, matrix.csr(torch.eye(9).to_sparse_csr())):
        assert torch.equal(one @ B, B)
told = [str(one.message) for one in caught if "Triton" in str(one.message)]
assert len(told) == 1, told
assert "libcuda is broken" in told[0] and "doctor" in told[0] and chr(10) not in told[0], told
assert "libcuda is broken" in A.explain()
(found,) = doctor._gpu()
assert "Triton" in found.value and "libcuda is broken" in found.value and found.hint, found
schedule = DeviceSchedule(operation="spmv", parts=(GpuPart(layout="rows"), GpuPart(layout="fill", rows=8)), tile=0)
assert implementations.supports("spmv", schedule) is None
assert "not of matmul" in implementations.supports("matmul", schedule)
sys.modules["triton"] = None
assert "not installed" in implementations.supports("spmv", schedule)
"""


def test_triton_that_is_broken_leaves_torch_and_says_so_once(tmp_path):
    package = tmp_path / "triton"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('libcuda is broken')")
    run("-c", BROKEN, PYTHONPATH=str(tmp_path))


IMPORTS = """
import sys, torch, autosparse as asp
A = torch.eye(9).to_sparse_csr()
asp.csr(A) @ torch.ones(9, 2).numpy()
asp.torch.csr(A) @ torch.ones(9, 2)
loaded = [name for name in sys.modules if name == "triton" or name.startswith("autosparse.cuda")]
assert not loaded, loaded
"""


def test_triton_is_not_imported_for_tensors_on_the_cpu():
    done = run_with_torch(IMPORTS)
    assert done.returncode == 0, done.stderr[-3000:]

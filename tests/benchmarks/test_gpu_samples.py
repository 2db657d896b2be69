"""Tests of samples of GPU kernels: the archive, files of samples, draws by group, and the comparison's quick run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps

pytest.importorskip("torch")

from gpulib import samples
from transferlib import gpu_methods, gpu_world

from tests.benchmarks.test_bench_scripts import run_script


@pytest.fixture(scope="module")
def products() -> list[samples.GpuProduct]:
    return samples.archived()


def test_the_archive_has_both_devices_and_operations(products):
    worlds = gpu_world.worlds(products)
    assert {(one.device, one.operation) for one in worlds} == {
        (device, operation) for device in ("h100-sxm", "h200") for operation in ("spmm", "sddmm")
    }
    assert all(len(one.products) == 128 and len(one.groups) == 13 for one in worlds)
    assert all(np.all(one.seconds > 0) and len(one.schedules) == len(one.seconds) for one in products)


def test_held_out_groups_have_no_samples(products):
    world = gpu_world.worlds(products)[0]
    drawn = gpu_world.draws(world, 5)
    assert drawn == gpu_world.draws(world, 5)
    for one in drawn:
        used = {each.pattern.group for each in one.products(world, whole_pool=True)}
        held = {each.pattern.group for each in one.held_out(world)}
        assert used | held == set(world.groups)
        assert not used & held
        assert len(set(one.sampled)) == gpu_world.SAMPLED
        assert set(one.sampled) <= set(one.pool)


def test_the_order_of_times_is_the_best_score(products):
    some = products[:12]
    best = gpu_world.score(some, [one.seconds for one in some])
    worst = gpu_world.score(some, [-one.seconds for one in some])
    assert best.pairs == best.top1 == best.top5 == 1.0
    assert worst.pairs == 0.0
    assert worst.top1 < 1.0


def test_the_correction_beats_the_analytic_model_on_held_out_groups(products):
    """Fit the correction without a third of the groups, for SDDMM on an H200, where the analytic model is weakest."""
    world = next(one for one in gpu_world.worlds(products) if (one.device, one.operation) == ("h200", "sddmm"))
    draw = gpu_world.draws(world, 1)[0]
    bench = gpu_methods.GpuBench(world, world, None)
    names = ("analytic model", "analytic model + correction, whole pool")
    held = draw.held_out(world)
    analytic, corrected = (gpu_world.score(held, gpu_methods.METHODS[name].run(bench, draw)) for name in names)
    assert corrected.pairs > analytic.pairs + 0.03
    assert corrected.top1 > analytic.top1


class Fitted:
    """Networks that keep the samples that they are given and add 1 to every cost."""

    def __init__(self):
        self.samples = []

    def tuned(self, name, samples, settings, **how):
        self.samples = samples

    def costs(self, model, name, held, base, share):
        return [base(one) + share for one in held]


def test_the_other_device_is_a_source_without_held_out_groups(products):
    world, other = (one for one in gpu_world.worlds(products) if one.operation == "spmm")
    draw, networks = gpu_world.draws(world, 1)[0], Fitted()
    bench = gpu_methods.GpuBench(world, other, networks)
    costs = gpu_methods.METHODS["correction + DASH, both devices"].run(bench, draw)
    held = draw.held_out(world)
    used = {(one.pattern.name, one.device) for one in networks.samples}
    assert used == {(name, world.device) for name in draw.sampled} | {(name, other.device) for name in draw.pool}
    assert not {one.pattern.group for one in networks.samples} & {one.pattern.group for one in held}
    corrected = gpu_methods.METHODS["analytic model + correction, both devices"].run(bench, draw)
    wanted = [gpu_methods.PRIOR * one + gpu_methods.SHARE for one in corrected]
    assert all(np.allclose(cost, one) for cost, one in zip(costs, wanted, strict=True))


def test_a_file_of_samples_is_read_back_and_not_sampled_twice(tmp_path: Path, products):
    path, given = tmp_path / "of" / "samples.jsonl", products[0]
    facts = {"device": "NVIDIA H200", "operation": "spmm", "matrix": "A", "columns": 64, "dtype": "float32"}
    A = sps.random_array((50, 40), density=0.1, random_state=0, format="csr")
    for _ in range(2):
        file = samples.SampleFile(path)
        if not file.has(facts):
            file.add_pattern(samples.GpuPattern.of("A", "group of A", A))
            file.add(facts, dict(zip(given.schedules, given.seconds.tolist(), strict=True)))
    lines = path.read_text().splitlines()
    assert len(lines) == 2 + len(given.schedules)
    (found,) = samples.products(lines)
    assert found.device == "h200"
    assert list(found.schedules) == list(given.schedules)
    assert np.allclose(found.seconds, given.seconds, rtol=1e-4)
    assert found.pattern.facts.nnz == A.nnz
    assert found.pattern.facts == samples.GpuPattern.of("A", "group of A", A).facts
    assert len(found.pattern.vector) == 81


@pytest.mark.full
def test_the_comparison_runs_quickly_without_matrices(tmp_path: Path):
    run_script("transfer.py", "--gpu", "--quick", "--only", "spmm", "--json", tmp_path / "quick-gpu.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "quick-gpu.jsonl").read_text().splitlines()]
    assert {one["method"] for one in lines} == set(gpu_methods.METHODS)
    page = (tmp_path / "quick.md").read_text()
    assert "spmm on `h200`" in page
    assert "| analytic model |" in page


@pytest.mark.full
def test_samples_are_collected_by_triton_s_interpreter(tmp_path: Path):
    pytest.importorskip("triton")
    run_script("gpu.py", "--collect", "--dry", "--out", tmp_path / "samples.jsonl", "--matrices", tmp_path / "none")
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert sum("facts" in one for one in lines) == 7
    assert all(len(one["seconds"]) == 2 for one in lines if "seconds" in one)

"""Tests of composites on a GPU: their rules, their schedules as values, and their compiled code."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
torch = pytest.importorskip("torch")

from autosparse._native.triton import source  # noqa: E402
from autosparse._native.triton.entries import entries_of_csr, entries_of_transpose, select  # noqa: E402
from autosparse._native.triton.spec import DeviceSpec  # noqa: E402
from autosparse.cache import Store  # noqa: E402
from autosparse.tuner.gpu import composites, facts, model, space  # noqa: E402

from autosparse.core.composite import REST, Blocks, Rows, Selection  # noqa: E402
from autosparse.core.pattern import Pattern  # noqa: E402
from autosparse.errors import ScheduleError  # noqa: E402
from autosparse.gpu.schedule import DeviceSchedule, GpuPart  # noqa: E402
from autosparse.gpu.target import targets  # noqa: E402
from tests.triton import compiled as ahead  # noqa: E402
from tests.triton.composites import BLOCKS, PATTERNS, RULES, blocks_and_scatter, first_of_each  # noqa: E402
from tests.triton.test_surfaces import run  # noqa: E402

Cells = NDArray[np.bool_]

FILL = GpuPart(layout="fill", rows=64)
SEGMENTS = GpuPart(layout="segments", split=64)


def rows_of(rule: Selection, left: Cells) -> Cells:
    """Return a mask of the rows that `rule` takes; all False for a rule about entries."""
    if isinstance(rule, Rows):
        lengths = left.sum(axis=1)
        return (lengths >= rule.least) & (lengths <= (np.inf if rule.most is None else rule.most))
    return np.zeros(left.shape[0], dtype=bool)


def entries_of(rule: Selection, left: Cells) -> Cells:
    """Return the cells of `left` that a rule about entries takes."""
    n_cols = left.shape[1]
    row, column = np.indices(left.shape)
    if isinstance(rule, Blocks):
        block, cells = row // rule.r * n_cols + column // rule.c, rule.r * rule.c
        return left & (np.bincount(block[left], minlength=left.size + 1)[block] >= rule.fill * cells - 1e-9)
    return left


def taken(rule: Selection, left: Cells, kept: Cells) -> Cells:
    """Return the cells of `left` that `rule` takes (STile, Section 2), from dense masks; `kept`: rows not yet taken.

    Blocks are those of the matrix of kept rows.
    """
    if isinstance(rule, Rows):
        return left & (rows_of(rule, left) & kept)[:, None]
    found = np.zeros_like(left)
    found[kept] = entries_of(rule, left[kept])
    return found


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_partition_rules_take_what_a_dense_mask_says(pattern: str, transposed: bool) -> None:
    A = PATTERNS[pattern]()
    crow, col = (torch.from_numpy(one.astype(np.int32)) for one in (A.indptr, A.indices))
    make = entries_of_transpose if transposed else entries_of_csr
    number = np.zeros(A.shape, dtype=np.int64)  # of the entry in each cell
    number[A.nonzero()] = np.arange(A.nnz)
    cells = A.toarray() != 0
    if transposed:
        number, cells = number.T, cells.T
    for rules in RULES.values():
        left, remaining, kept = make(crow, col, A.shape[1]), cells, np.ones(cells.shape[0], dtype=bool)
        for rule in rules:
            given, others = select(rule, left)
            rows, at = given.listed()
            wanted = taken(rule, remaining, kept)
            assert np.array_equal(rows.numpy(), np.nonzero(wanted)[0]), rule
            assert np.array_equal(given.places()[at].numpy(), number[wanted]), rule
            kept &= ~rows_of(rule, remaining)
            left, remaining = given if others is None else others, remaining & ~wanted


def test_a_composite_is_a_value() -> None:
    dense = GpuPart(layout="blocks", rows=16, step=16, select=Blocks(16, 16, 0.5))
    schedule = DeviceSchedule(operation="matmul", parts=(dense, SEGMENTS, FILL))
    assert schedule.selections == (Blocks(16, 16, 0.5), REST)
    assert DeviceSchedule.from_json(schedule.to_json()) == schedule
    assert str(schedule).startswith("blocks(16x16,0.5): blocks(rows=16, step=16, at_least=1, split=0) + segments(")
    plain = DeviceSchedule(operation="matmul", parts=(SEGMENTS, FILL))
    assert not plain.is_composite
    assert "select" not in plain.to_json()
    for parts, reason in (
        ((GpuPart(layout="segments", split=64, select=Rows(3)), FILL), "no rule"),
        ((SEGMENTS, GpuPart(layout="fill", select=Rows(3))), "cannot have a rule"),
    ):
        with pytest.raises(ScheduleError, match=reason):
            DeviceSchedule(operation="matmul", parts=parts)
    with pytest.raises(ScheduleError):
        DeviceSchedule.from_json(schedule.to_json().replace("16x16,0.5", "16x16,7"))


def test_the_model_expects_a_gain_where_blocks_are_planted() -> None:
    """Check that blocks in Tensor Cores and rows for the rest have a lower predicted time than any single schedule."""
    from autosparse.cuda import composites as offers

    A, target = blocks_and_scatter(1600, 0.015, share=0.08), targets()["h100-sxm"]
    asked = space.GpuSetting(operation="matmul", n_dense_cols=64, dtype="float16", vector=8)
    product = model.ProductSizes(n_dense_cols=64, dtype="float16")
    given = offers.given_by(A.structure, False, BLOCKS)
    assert sum(one.nnz for one in given.values()) == A.nnz
    whole = facts.facts_of(A.structure.crow, A.structure.col, 1600)
    single = min(model.predicted_s(whole, one, product, target) for _, one in space.offered(asked))
    divided = min(
        model.predicted_s(whole, one, product, target, given) for _, one in composites.schedules(asked, BLOCKS)
    )
    assert divided < single


def test_dense_tiles_of_float32_are_for_full_blocks() -> None:
    """Check that the model ranks dense tiles first for block-pruned weights, and not for scattered entries.

    Measured, dense tiles are up to 1.8 times as fast for the former, and slower than rows for the latter.
    """
    rng, target = np.random.default_rng(0), targets()["h100-sxm"]
    asked = space.GpuSetting(operation="matmul", n_dense_cols=128, dtype="float32", vector=4)
    product = model.ProductSizes(n_dense_cols=128, dtype="float32")
    kept = {
        "blocks": np.kron(rng.random((128, 128)) < 0.1, np.ones((16, 16))),
        "scatter": rng.random((2048, 2048)) < 0.02,
    }
    for name, present in kept.items():
        A = sp.csr_array(present)
        counts = facts.facts_of(torch.from_numpy(A.indptr), torch.from_numpy(A.indices), A.shape[1])
        ranked = sorted(
            (model.predicted_s(counts, one, product, target), family) for family, one in space.offered(asked)
        )
        assert ranked[0][1].startswith("full") is (name == "blocks")
    half = space.GpuSetting(operation="matmul", n_dense_cols=128, dtype="float16", vector=8)
    assert not any(family.startswith("full") for family, _ in space.offered(half)), "Tensor Cores are faster"


def test_uniform_matrices_are_not_divided() -> None:
    A = sp.random_array((640, 640), density=0.02, format="csr", random_state=np.random.default_rng(0))
    asked = space.GpuSetting(operation="matmul", n_dense_cols=64, dtype="float16", vector=8)
    assert not composites.partitions(Pattern(*A.shape, A.indptr, A.indices), asked, targets()["h100-sxm"])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    from triton import knobs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knobs.cache, "dir", str(tmp_path_factory.mktemp("triton")))
        yield Store(tmp_path_factory.mktemp("kernels"))


COMPILED = [
    ("matmul", "float16", "blocks"), ("matmul", "float16", "small blocks"), ("matmul", "float32", "long rows"),
    ("matmul", "float64", "short rows"), ("spmv", "float32", "long rows"), ("sddmm", "float16", "blocks"),
    ("sddmm", "float32", "long rows"), ("matmul", "float16", "long rows and blocks"),
    ("matmul", "tf32", "large blocks"), ("matmul", "float16", "large blocks"), ("sddmm", "float16", "large blocks"),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("operation", "dtype", "rules"), COMPILED)
def test_triton_compiles_every_composite(operation: str, dtype: str, rules: str, store: Store) -> None:
    for schedule in _schedules(operation, dtype, rules):
        for device in ("a100-80gb", "h100-sxm"):
            _check_compiled(schedule, dtype, device, store)


@pytest.mark.parametrize(
    ("device", "at", "layouts"),
    [("a100-80gb", 0, "blocks unrolled fill"), ("h100-sxm", 2, "blocks ell ell ell segments fill")],
)
def test_triton_compiles_blocks_and_the_rest_in_one_kernel(device: str, at: int, layouts: str, store: Store) -> None:
    schedule = _schedules("matmul", "float16", "blocks")[at]
    assert [part.layout for part in schedule.parts] == layouts.split()
    _check_compiled(schedule, "float16", device, store)


def _schedules(operation: str, dtype: str, rules: str, columns: int = 64) -> list[DeviceSchedule]:
    """Return the first schedule of each layout of the parts, which has the widest tile."""
    columns, precision = 1 if operation == "spmv" else columns, "tf32" if dtype == "tf32" else "ieee"
    dtype = "float32" if dtype == "tf32" else dtype
    vector = 1 if operation == "spmv" else space.vector_of(dtype, columns)
    asked = space.GpuSetting(
        operation=operation, n_dense_cols=columns, dtype=dtype, vector=vector, precision=precision
    )  # fmt: skip
    return first_of_each(one for _, one in composites.schedules(asked, RULES[rules]))


def _check_compiled(schedule: DeviceSchedule, dtype: str, device: str, store: Store) -> None:
    """Check Tensor Cores where expected, no spills, and at least half of the possible resident threads."""
    spec, target = DeviceSpec(schedule=schedule, dtype="float32" if dtype == "tf32" else dtype), targets()[device]
    made = ahead.compile_ahead(spec, source.module_of(spec, store), capability=target.capability).resources
    assert made.spilled_bytes == 0, str(schedule)
    assert not ahead.uses_tensor_cores(spec) or made.counts["mma"] > 0
    blocks = made.blocks_per_sm(
        registers=target.registers, shared_bytes=target.shared_bytes, threads=target.threads, blocks=target.blocks
    )
    assert blocks * made.threads >= target.threads / 2, str(schedule)


@pytest.mark.full
def test_every_composite_is_scipys_product() -> None:
    lines = [json.loads(line) for line in run("-m", "tests.triton.composites", TRITON_INTERPRET="1").splitlines()]
    wrong = {line["id"]: line["error"] for line in lines if line["error"] is not None}
    assert len(lines) > 300
    assert not wrong, next(iter(wrong.items()))

"""Tests of the offered schedules after Triton's compiler, for GPUs that are not present."""

from __future__ import annotations

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
torch = pytest.importorskip("torch")

from autosparse._native.triton import packing, source  # noqa: E402
from autosparse._native.triton.entries import entries_of_csr  # noqa: E402
from autosparse._native.triton.spec import DeviceSpec  # noqa: E402
from autosparse.cache import Store  # noqa: E402
from autosparse.tuner.gpu import facts, model, space  # noqa: E402

from autosparse.gpu.schedule import DOT_LAYOUTS, kinds  # noqa: E402
from autosparse.gpu.target import DeviceTarget, targets  # noqa: E402
from tests.covering import in_turn  # noqa: E402
from tests.triton import compiled as ahead  # noqa: E402
from tests.triton import roofline  # noqa: E402

TARGETS = ("a100-80gb", "h100-sxm")
AGREEMENT = 2.5
"""Factor within which the roofs of the analytic model and of the compiled loop agree."""

USUAL = {
    ("matmul", "unrolled", "float32", "a100-80gb"), ("matmul", "segments", "float32", "h100-sxm"),
    ("matmul", "windows 8", "float16", "h100-sxm"),
    ("matmul", "windows 16", "tf32", "h100-sxm"), ("matmul", "blocks 16", "bfloat16", "h100-sxm"),
    ("matmul", "unrolled", "float64", "a100-80gb"), ("spmv", "binned", "float32", "h100-sxm"),
    ("sddmm", "entries", "float32", "a100-80gb"), ("sddmm", "windows 16", "float16", "h100-sxm"),
    ("mttkrp", "fibers 16", "float32", "a100-80gb"),
}  # fmt: skip
"""Schedules compiled by `make test`; `make test-full` compiles all."""


def _cases() -> list[object]:
    found = []
    for operation, kind in kinds().items():
        for dtype in ("float32", "tf32", "float16", "bfloat16", "float64"):
            offered = schedules_of(operation, dtype)
            for name in space.FAMILIES[kind]:
                for target in TARGETS if name in offered else ():
                    marks = () if (operation, name, dtype, target) in USUAL else pytest.mark.full
                    found.append(pytest.param(operation, name, dtype, target, marks=marks))
    return found


def schedules_of(operation: str, dtype: str, columns: int = 64) -> dict[str, object]:
    """Return the first schedule of each family that is offered, which has the widest tile."""
    precision, dtype = ("tf32", "float32") if dtype == "tf32" else ("ieee", dtype)
    vector = 1 if operation == "spmv" else space.vector_of(dtype, columns)
    offered = space.schedules(operation, n_dense_cols=columns, dtype=dtype, vector=vector, precision=precision)
    first: dict[str, object] = {}
    for name, schedule in offered:
        first.setdefault(name, schedule)
    return first


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    from triton import knobs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knobs.cache, "dir", str(tmp_path_factory.mktemp("triton")))
        yield Store(tmp_path_factory.mktemp("kernels"))


def compiled(spec: DeviceSpec, target: DeviceTarget, store: Store) -> ahead.Compiled:
    return ahead.compile_ahead(spec, source.module_of(spec, store), capability=target.capability)


@pytest.mark.parametrize(("operation", "family", "dtype", "device"), _cases())
def test_triton_compiles_every_listed_schedule_without_spills(operation, family, dtype, device, store):
    target = targets()[device]
    schedule = schedules_of(operation, dtype)[family]
    spec = DeviceSpec(schedule=schedule, dtype="float32" if dtype == "tf32" else dtype)
    found = compiled(spec, target, store).resources
    assert found.spilled_bytes == 0
    most = {"registers": target.registers, "shared_bytes": target.shared_bytes}
    blocks = found.blocks_per_sm(**most, threads=target.threads, blocks=target.blocks)
    allowed = target.registers // (schedule.registers * found.threads) * found.threads  # 64 registers: half of all
    assert blocks * found.threads >= min(target.threads / 2, allowed), "fewer threads than its registers allow"
    if schedule.vector * model.ITEM_BYTES[spec.dtype] == 16:
        assert found.widest_load_bytes == 16
        assert found.counts["load_v4"] or found.counts["copy"] or spec.dtype == "float64"
    if ahead.uses_tensor_cores(spec):
        assert found.counts["mma"] > 0


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("operation", ["matmul", "sddmm", "mttkrp"])
def test_triton_spills_nothing_in_the_widest_tiles(operation, dtype, store):
    for family, schedule in schedules_of(operation, dtype, columns=512).items():
        spec = DeviceSpec(schedule=schedule, dtype=dtype)
        assert compiled(spec, targets()["h100-sxm"], store).resources.spilled_bytes == 0, (family, schedule.tile)


def test_triton_tiles_are_no_wider_than_registers_hold():
    for operation in ("matmul", "mttkrp"):
        for dtype, widest in {"float64": 64, "float32": 128, "float16": 128}.items():
            offered = space.schedules(operation, n_dense_cols=512, dtype=dtype, vector=space.vector_of(dtype, 512))
            assert max(schedule.tile for _, schedule in offered) == widest
    offered = space.schedules("matmul", n_dense_cols=512, dtype="float64", vector=2)
    assert max(schedule.tile for name, schedule in offered if name == "hyb") == 32


def test_triton_compiles_the_sum_of_shared_rows(store):
    spec = DeviceSpec(schedule=schedules_of("matmul", "float16")["unrolled"], dtype="float16")
    found = ahead.compile_reduce(spec, source.module_of(spec, store), capability=90)
    assert found.resources.spilled_bytes == 0
    assert found.resources.counts["load"] > 0


def random_pattern() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return a pattern of 1,000 rows with about 20 entries, blocks of 16 × 16 on the diagonal, and one long row."""
    n, generator = 1000, torch.Generator().manual_seed(0)
    present = torch.rand(n, n, generator=generator) < 0.02
    present[5] = torch.rand(n, generator=generator) < 0.5
    for at in range(0, n - 16, 32):
        present[at : at + 16, at : at + 16] = True
    A = present.float().to_sparse_csr()
    return A.crow_indices().int(), A.col_indices().int(), n


MODELLED = [
    ("matmul", "csr", "float32"), ("matmul", "segments", "float16"), ("matmul", "windows 16", "float16"),
    ("matmul", "windows 8", "float16"), ("matmul", "blocks 16", "float16"), ("sddmm", "entries", "float32"),
    ("sddmm", "rows", "float32"), ("spmv", "csr 16", "float32"), ("matmul", "unrolled", "float32"),
    ("matmul", "unrolled", "float16"), ("sddmm", "unrolled", "float32"),
]  # fmt: skip


@in_turn("modelled", "device", first=MODELLED, second=TARGETS, label="-".join)
def test_triton_roofline_agrees_with_the_model(modelled, device, store):
    operation, family, dtype = modelled
    """Compare bytes and instructions of the compiled loop with those that the model counts from the pattern."""
    target, columns = targets()[device], 1 if operation == "spmv" else 64
    schedule = schedules_of(operation, dtype)[family]
    spec = DeviceSpec(schedule=schedule, dtype=dtype)
    crow, col, n = random_pattern()
    packed = packing.pack(spec, entries_of_csr(crow, col, n), nnz=col.shape[0])
    item = model.ITEM_BYTES[dtype]
    loop = roofline.main_loop(compiled(spec, target, store).ptx)
    measured = roofline.estimate(loop, packed, n_dense_cols=columns, item_bytes=item, target=target)
    product = model.ProductSizes(n_dense_cols=columns, dtype=dtype)
    work = model.work_of(facts.facts_of(crow, col, n), schedule, product, target)
    reached = model.TILED_RATE if schedule.parts[0].layout in DOT_LAYOUTS else 1.0  # the model divides by it
    expected_s = max(model.roofs(work, product, schedule, target)) * reached
    assert 1 / AGREEMENT < expected_s / measured.seconds < AGREEMENT

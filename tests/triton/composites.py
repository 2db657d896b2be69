"""Composites in Triton's interpreter against SciPy: checks for `test_surfaces`, and all cases in one process.

``python -m tests.triton.composites`` prints a JSON line for each case, with an error or null.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from autosparse._native.triton import packing, source
from autosparse._native.triton.entries import entries_of_csr
from autosparse._native.triton.launch import Launch
from autosparse._native.triton.spec import DeviceSpec
from autosparse.cache import Store
from autosparse.tuner.gpu import composites, space

import autosparse as asp
from autosparse.config import Effort
from autosparse.core.composite import REST, Blocks, Rows, Selection
from autosparse.core.solver import Choice
from autosparse.cuda import choice, matrix, solvers
from autosparse.cuda.solvers import ProductKind
from autosparse.cuda.structure import structure_of
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import target_of
from autosparse.ops import MATMUL, register, unregister
from autosparse.ops.base import DeviceProduct

RULES: Final[dict[str, tuple[Selection, ...]]] = {
    "long rows": (Rows(12), REST),
    "short rows": (Rows(0, 6), REST),
    "blocks": (Blocks(16, 16, 0.5), REST),
    "large blocks": (Blocks(32, 32, 0.3), REST),
    "small blocks": (Blocks(4, 4, 0.6), REST),
    "long rows and blocks": (Rows(20), Blocks(16, 16, 0.5), REST),
}
DTYPES: Final = ("float32", "float64", "float16")
TOLERANCE: Final = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}
COLUMNS: Final = 5


def planted(n: int = 36) -> Any:
    """Return a matrix with a full block of 16 x 16, one of 4 x 4, scattered entries, and empty rows."""
    cells = np.random.default_rng(0).random((n, n)) < 0.05
    cells[:16, 16:32] = cells[20:24, 4:8] = True
    cells[32:35] = False
    return sp.csr_array(cells.astype(float))


def one_dense_row(n: int = 20) -> Any:
    """Return a matrix with one dense row among rows of one entry or none."""
    cells = np.eye(n) * (np.arange(n) % 3 > 0)
    cells[7] = 1
    return sp.csr_array(cells)


def power_law(n: int = 30) -> Any:
    """Return a matrix whose row i has about n / (i + 1) entries."""
    rng = np.random.default_rng(1)
    return sp.csr_array((rng.random((n, n)) < 1 / (1 + np.arange(n)[:, None])).astype(float))


PATTERNS: Final = {
    "empty": lambda: sp.csr_array((7, 5)), "one dense row": one_dense_row, "planted": planted, "power law": power_law
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Product by one schedule."""

    operation: str
    dtype: str
    pattern: str
    rules: str
    at: int  # index into the offered schedules

    @property
    def id(self) -> str:
        """Name of the test."""
        return f"{self.operation}, {self.dtype}, {self.pattern}, {self.rules}, {self.at}"

    @property
    def schedule(self) -> DeviceSchedule:
        """Schedule that the kernel is emitted from."""
        return offered(self.operation, self.dtype, RULES[self.rules])[self.at]


def offered(operation: str, dtype: str, rules: tuple[Selection, ...]) -> list[DeviceSchedule]:
    """Return one schedule for each layout of the parts."""
    columns = 1 if operation == "spmv" else COLUMNS
    asked = space.GpuSetting(operation=operation, n_dense_cols=columns, dtype=dtype, vector=1)
    return first_of_each(one for _, one in composites.schedules(asked, rules))


def first_of_each(schedules: Iterable[DeviceSchedule]) -> list[DeviceSchedule]:
    """Return the first schedule of each layout of the parts."""
    found: dict[tuple[object, ...], DeviceSchedule] = {}
    for one in schedules:
        # the number of rows of unrolled parts depends on the tile
        laid_out = (replace(part, rows=1) if part.layout == "unrolled" else part for part in one.parts)
        found.setdefault(tuple(laid_out), one)
    return list(found.values())


def cases() -> Iterator[Case]:
    """Yield cases of every operation, dtype and rule; the patterns take turns."""
    patterns = itertools.cycle(PATTERNS)
    for operation, dtype, rules in itertools.product(("matmul", "spmv", "sddmm"), DTYPES, RULES):
        for at in range(len(offered(operation, dtype, RULES[rules]))):
            yield Case(operation, dtype, next(patterns), rules, at)


USUAL: Final = (
    Case("matmul", "float16", "planted", "blocks", 2),  # blocks, three buckets of ELL, equal runs
    Case("matmul", "float16", "planted", "long rows and blocks", 0),
    Case("matmul", "float32", "power law", "short rows", 1),
    Case("matmul", "float64", "one dense row", "long rows", 0),
    Case("matmul", "float16", "empty", "small blocks", 0),
    Case("spmv", "float32", "planted", "long rows", 1),
    Case("spmv", "float64", "power law", "blocks", 0),
    Case("sddmm", "float16", "planted", "small blocks", 0),
    Case("sddmm", "float32", "one dense row", "long rows", 0),
    Case("sddmm", "float64", "power law", "short rows", 0),
)
"""Cases of `make test`; `make test-full` runs all."""


class World:
    """Launch of one case, its operands, and SciPy's answer."""

    def __init__(self, case: Case) -> None:
        self.case, self.dtype = case, getattr(torch, case.dtype)
        self.A, rng = PATTERNS[case.pattern](), np.random.default_rng(2)
        crow, col = (torch.as_tensor(one.astype(np.int32)) for one in (self.A.indptr, self.A.indices))
        spec = DeviceSpec(schedule=case.schedule, dtype=case.dtype)
        entries = entries_of_csr(crow, col, self.A.shape[1])
        self.launch = Launch(source.module_of(spec, Store(None)), packing.pack(spec, entries, nnz=self.A.nnz))
        self.values = self._made(rng, self.A.nnz)
        width = () if case.operation == "spmv" else (COLUMNS,)
        self.B = self._made(rng, self.A.shape[1], *width)
        self.X = self._made(rng, self.A.shape[0], *width)

    def _made(self, rng: np.random.Generator, *shape: int) -> torch.Tensor:
        return torch.as_tensor(rng.standard_normal(shape)).to(self.dtype)

    def product(self) -> torch.Tensor:
        """Return the launch's product, written over NaN."""
        if self.case.operation == "sddmm":
            out = torch.full_like(self.values, float("nan"))
            return self.launch.sddmm(self.values, self.X, self.B, out, alpha=2.0, beta=1.0)
        out = torch.full((self.A.shape[0], *self.B.shape[1:]), float("nan"), dtype=self.dtype)
        return (self.launch.spmv if self.B.dim() == 1 else self.launch.matmul)(self.values, self.B, out)

    def wanted(self) -> tuple[Any, Any]:
        """Return (SciPy's product in float64, sum of the magnitudes of its terms)."""
        values, B, X = (one.double().cpu().numpy() for one in (self.values, self.B, self.X))
        A = sp.csr_array((values, self.A.indices, self.A.indptr), shape=self.A.shape)
        with np.errstate(invalid="ignore"):
            if self.case.operation != "sddmm":
                return A @ B, abs(A) @ abs(B)
            rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
            terms = X[rows] * B[A.indices]
            return 2 * terms.sum(1) + values, 2 * abs(terms).sum(1) + abs(values)

    def check(self) -> torch.Tensor:
        """Check the product against SciPy's and return it.

        Numbers agree within rounding; NaN and infinity are where SciPy has them.
        """
        found, (wanted, scale) = self.product(), self.wanted()
        is_finite, numbers = np.isfinite(wanted), found.double().cpu().numpy()
        np.testing.assert_array_equal(numbers[~is_finite], wanted[~is_finite])
        error = (abs(numbers - wanted) / (scale + 1))[is_finite]
        assert error.size == 0 or error.max() <= TOLERANCE[self.case.dtype], f"off by {error.max():.3g}"
        return found


def check(case: Case) -> None:
    """Check SciPy's answer, equal bits in a second run, changed values, and infinities."""
    world = World(case)
    first = world.check()
    assert torch.equal(world.product(), first), "another order of sums"
    world.values.mul_(-2)
    if world.B.numel():
        world.B[3] = float("inf")
        world.values[:1] = float("nan")
    world.check()


def test_composites_are_scipys_products() -> None:
    for case in USUAL:
        check(case)


BLOCKS: Final = (Blocks(16, 16, 0.5), REST)
N_DENSE: Final = 20
"""Number of dense rows of `dense_rows_and_scatter`."""
KIND: Final = ProductKind(operation="matmul", transposed=False, n_dense_cols=64, dtype="float16", vector=8)


def offered_of(A: matrix.CudaCsr, kind: ProductKind = KIND, **options: Any) -> list[solvers.Named]:
    with asp.options(**options):
        return solvers.ranked(A.structure, kind, target_of("NVIDIA H100"))


def blocks_and_scatter(n: int = 320, density: float = 0.02, share: float = 0.0) -> matrix.CudaCsr:
    """Return a matrix with full blocks on the diagonal, a share `share` of the others full, and scattered entries."""
    rng = np.random.default_rng(3)
    cells = rng.random((n, n)) < density
    full = rng.random((n // 16, n // 16)) < share
    cells |= np.kron(full | np.eye(n // 16, dtype=bool), np.ones((16, 16), dtype=bool))
    stored = torch.as_tensor(cells).half().to_sparse_csr()
    return matrix.CudaCsr(structure_of(stored.crow_indices(), stored.col_indices(), n), stored.values())


def dense_rows_and_scatter(n: int = 320) -> matrix.CudaCsr:
    """Return a matrix whose first N_DENSE rows have half of their entries, and whose other rows have 2 %."""
    density = np.where(np.arange(n) < N_DENSE, 0.5, 0.02)
    stored = torch.as_tensor(np.random.default_rng(3).random((n, n)) < density[:, None]).half().to_sparse_csr()
    return matrix.CudaCsr(structure_of(stored.crow_indices(), stored.col_indices(), n), stored.values())


def test_composites_are_offered_where_they_are_wanted() -> None:
    A = dense_rows_and_scatter()
    wanted, forbidden, unasked = (offered_of(A, hybrid=flag, effort="full") for flag in (True, False, None))
    divided = [(name, one) for name, one in wanted if one.is_composite]
    assert divided
    assert all(isinstance(one.selections[0], Rows) and one.selections[1] == REST for _, one in divided)
    assert all(name.startswith("rows(") for name, _ in divided)
    assert not any(one.is_composite for _, one in [*forbidden, *unasked])  # small matrices are divided on request only
    assert [one for one in wanted if not one[1].is_composite] == forbidden
    order = solvers.tried(wanted, Effort.MEASURE)
    assert [one.is_composite for _, one in order] == [False] * 5 + [True] * solvers.MAX_COMPOSITES
    assert solvers.tried(wanted, Effort.FULL)[: len(forbidden)] == forbidden


def test_composites_of_large_matrices_are_offered_when_the_model_likes_them() -> None:
    from autosparse.cuda import composites as offers
    from tests.triton.choosing import replaced

    A = dense_rows_and_scatter()
    with replaced(offers, "MIN_NNZ", 1000):
        found, measured = (offered_of(A, effort=effort) for effort in ("full", "measure"))
    assert not any(one.is_composite for _, one in measured)
    n_better = [one.is_composite for _, one in found].index(False)
    assert {one.is_composite for _, one in found[n_better:]} == {False}, "a composite behind a single layout"


def test_composites_are_explained_by_their_parts() -> None:
    A = dense_rows_and_scatter()
    B = torch.randn(320, 64).half()
    A @ B
    (made,) = A.structure.choices.values()
    schedule = next(one for _, one in offered_of(A, hybrid=True) if one.is_composite)
    made.plan = replace(made.plan, choice=Choice(solvers.TRITON.name, schedule.to_json()))
    told = A.explain().splitlines()
    lengths, rule = A.structure.crow.diff(), schedule.selections[0]
    assert isinstance(rule, Rows)
    taken = lengths[lengths >= rule.least]
    dense = f"  {rule}: {int(taken.sum()) / A.nnz:.1%} of the entries, in {taken.numel()} rows, by "
    assert any(line.startswith(dense) for line in told), told
    assert any(line.startswith("  rest: ") for line in told), told


def test_composites_that_were_found_are_remembered_and_serve() -> None:
    with tempfile.TemporaryDirectory() as folder, asp.options(cache_dir=folder):
        _check_remembered()


def _check_remembered() -> None:
    from tests.triton.choosing import ANY_GAIN, StandIn, replaced

    A, B = dense_rows_and_scatter(), torch.randn(320, 64).half()
    asked = {"hybrid": True, "runs": 10**9, "effort": "measure"}
    always = replaced(choice, "RULE", ANY_GAIN), replaced(solvers, "MAX_TRIED", {Effort.MEASURE: 0})
    with always[0], always[1], replaced(solvers, "launch_of", lambda *given: StandIn(A)):
        with asp.options(**asked):
            A @ B
        (made,) = A.structure.choices.values()
        assert made.schedule is not None, made.plan.why
        assert made.schedule.is_composite
        assert len(made.measured_s) == 1 + solvers.MAX_COMPOSITES
        again = matrix.CudaCsr(structure_of(A.structure.crow.clone(), A.structure.col, 320), A.values)
        with asp.options(**asked):
            again @ B
        (second,) = again.structure.choices.values()
        assert second.plan.why.startswith("plan from the cache"), second.plan.why
        assert second.schedule == made.schedule


def test_an_operation_that_is_registered_late_has_kernels() -> None:
    import dataclasses

    row = dataclasses.replace(
        MATMUL, name="gather", synonyms=(), device=(DeviceProduct(name="late gather", kind="columns"),)
    )
    register(row)
    try:
        offered = space.schedules("late gather", n_dense_cols=COLUMNS, dtype="float64", vector=1)
        schedule = next(one for family, one in offered if family == "unrolled")
        case = Case("late gather", "float64", "power law", "long rows", 0)
        with_schedule = type("Late", (Case,), {"schedule": schedule})
        World(with_schedule(*dataclasses.astuple(case))).check()
    finally:
        unregister(row.name)


def main() -> None:
    """Print a line for each case; with the argument ``cuda``, on a GPU."""
    from tests.triton.places import is_on_gpu, of_share

    is_on_gpu()
    torch.set_num_threads(1)
    for case in of_share(list(cases())):
        error = None
        try:
            check(case)
        except Exception:  # noqa: BLE001  reported by the test of this case
            error = traceback.format_exc()[-3000:]
        print(json.dumps({"id": case.id, "error": error}), flush=True)


if __name__ == "__main__":
    main()

"""Every layout × operation × dtype × pattern in Triton's interpreter, or on a GPU, in one process.

Triton's interpreter must be enabled before Triton is imported. So the tests start this module once and read one JSON
line for each case, with an error or null. ``python -m tests.triton.interpreted cuda`` runs all cases on a GPU.
"""

from __future__ import annotations

import itertools
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from autosparse.gpu.schedule import DeviceSchedule, GpuPart
from tests.triton import patterns

FILL = GpuPart(layout="fill", rows=8)
SHORT = GpuPart(layout="rows", rows=4, step=4, at_most=4)
ROWS = GpuPart(layout="rows", rows=1, step=8)
SPLIT = GpuPart(layout="rows", rows=2, step=4, split=8)
UNROLLED = GpuPart(layout="unrolled", rows=8, step=4)
UNROLLED_SHORT = GpuPart(layout="unrolled", rows=4, step=2, at_most=4)
UNROLLED_SPLIT = GpuPart(layout="unrolled", rows=2, step=4, split=8)
ELL = GpuPart(layout="ell", rows=8, step=4, at_most=4)
SEGMENTS = GpuPart(layout="segments", step=8, split=16)
WINDOWS = GpuPart(layout="windows", rows=16, step=16)
DENSE_WINDOWS = GpuPart(layout="windows", rows=16, step=16, at_least=3)
NARROW = GpuPart(layout="windows", rows=8, step=16)
BLOCKS = GpuPart(layout="blocks", rows=16, step=16)
DENSE_BLOCKS = GpuPart(layout="blocks", rows=8, step=16, at_least=5)
CUT_WINDOWS = GpuPart(layout="windows", rows=8, step=16, split=16)
CUT_BLOCKS = GpuPart(layout="blocks", rows=16, step=16, split=16)
ENTRIES = GpuPart(layout="entries", rows=32)

LAYOUTS: dict[str, tuple[GpuPart, ...]] = {
    "rows": (ROWS,),
    "rows in lock-step": (GpuPart(layout="rows", rows=8, step=4),),
    "rows binned, long ones split": (SHORT, SPLIT),
    "unrolled": (UNROLLED,),
    "unrolled, binned and split": (UNROLLED_SHORT, UNROLLED_SPLIT),
    "hyb": (ELL, GpuPart(layout="ell", rows=2, step=8, at_most=16), SEGMENTS),
    "segments": (SEGMENTS,),
    "windows 16": (WINDOWS,),
    "windows 8": (NARROW,),
    "windows and rows": (DENSE_WINDOWS, SHORT, SPLIT),
    "windows, cut": (CUT_WINDOWS,),
    "blocks": (BLOCKS,),
    "blocks, cut": (CUT_BLOCKS,),
    "blocks and segments": (DENSE_BLOCKS, SEGMENTS),
}
VECTOR_LAYOUTS: dict[str, tuple[GpuPart, ...]] = {
    "rows": (GpuPart(layout="rows", rows=1, step=16),),
    "rows in lock-step": (GpuPart(layout="rows", rows=8, step=4),),
    "rows binned, long ones split": (GpuPart(layout="rows", rows=8, step=4, at_most=4), SPLIT),
    "hyb": (ELL, GpuPart(layout="ell", rows=2, step=8, at_most=16), SEGMENTS),
    "segments": (SEGMENTS,),
}
SAMPLED_LAYOUTS: dict[str, tuple[GpuPart, ...]] = {
    "entries": (ENTRIES,),
    "rows": (GpuPart(layout="rows", rows=2, step=4, split=8),),
    "unrolled": (UNROLLED_SPLIT,),
    "windows": (WINDOWS,),
    "windows and entries": (DENSE_WINDOWS, ENTRIES),
    "windows, cut": (CUT_WINDOWS,),
    "blocks": (BLOCKS,),
}
DTYPES = ("float16", "bfloat16", "float32", "float64")
TOLERANCES = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 1e-5, "float64": 1e-12}


@dataclass(frozen=True)
class Case:
    """Product in one case: its name, operation, schedule, types and pattern."""

    operation: str
    layout: str
    dtype: str
    pattern: str
    columns: int = 0
    index_dtype: str = "int32"
    transposed: bool = False
    panel: int = 0
    vector: int = 1
    full: bool = False  # run with --full only: other cases cover the type and the pattern

    @property
    def id(self) -> str:
        """Name of the test."""
        facts = [self.operation, self.layout, self.dtype, self.pattern]
        facts += [f"{self.columns} columns"] * bool(self.columns)
        facts += [self.index_dtype] * (self.index_dtype != "int32")
        facts += ["transposed"] * self.transposed
        facts += ["panels"] * bool(self.panel) + [f"vector {self.vector}"] * (self.vector > 1)
        return ", ".join(facts)

    @property
    def schedule(self) -> DeviceSchedule:
        """Schedule that the kernel is emitted from."""
        parts = {"spmv": VECTOR_LAYOUTS, "matmul": LAYOUTS, "sddmm": SAMPLED_LAYOUTS}.get(self.operation, {})
        own = parts.get(self.layout, (GpuPart(layout="fibers", step=4, split=2),))
        return DeviceSchedule(
            operation=self.operation, parts=own if self.operation == "sddmm" else (*own, FILL),
            tile=0 if self.operation == "spmv" else 16, vector=self.vector, panel=self.panel,
        )  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield all cases: every layout with every dtype and every pattern at least once, and the parameters one by one.

    Without --full a layout meets every fourth pattern, its neighbours the others.
    """
    dtypes, wide = itertools.cycle(DTYPES), itertools.cycle(DTYPES)
    for operation, layouts in (("matmul", LAYOUTS), ("spmv", VECTOR_LAYOUTS), ("sddmm", SAMPLED_LAYOUTS)):
        for place, layout in enumerate(layouts):
            for at, pattern in enumerate(patterns.MATRICES, place):
                columns = 0 if operation == "spmv" else 5
                yield Case(operation, layout, next(dtypes), pattern, columns, full=at % 4 != 2)
            usual = next(wide)
            for dtype in DTYPES:
                columns = 0 if operation == "spmv" else 16
                yield Case(operation, layout, dtype, "mixed", columns, index_dtype="int64", full=dtype != usual)
    for layout in ("rows binned, long ones split", "unrolled, binned and split", "windows and rows", "hyb"):
        yield Case("matmul", layout, "float32", "mixed", 21)
        yield Case("matmul", layout, "float32", "mixed", 48, panel=2, vector=4)
        yield Case("matmul", layout, "float32", "one huge row", 20)
        yield Case("matmul", layout, "float64", "duplicates", 7, transposed=True)
    for layout in VECTOR_LAYOUTS:
        yield Case("spmv", layout, "float32", "mixed", transposed=True)
    for pattern, dtype in itertools.product(patterns.TENSORS, DTYPES):
        yield Case("mttkrp", "fibers", dtype, pattern, 19, full=pattern == "empty" and dtype != "float32")


def operands(case: Case) -> tuple[Any, Any, Any]:
    """Return (entries, values, the matrix dense in float64) as torch tensors."""
    import torch
    from autosparse._native.triton.entries import entries_of_csr, entries_of_transpose

    crow, col, shape = patterns.MATRICES[case.pattern]()
    index = getattr(torch, case.index_dtype)
    crow, col = torch.as_tensor(crow, dtype=index), torch.as_tensor(col, dtype=index)
    values = torch.randn(col.shape[0], dtype=torch.float64).to(getattr(torch, case.dtype))
    rows = torch.repeat_interleave(torch.arange(shape[0]), crow.long().diff())
    dense = torch.zeros(shape, dtype=torch.float64).index_put_((rows, col.long()), values.double(), accumulate=True)
    make = entries_of_transpose if case.transposed else entries_of_csr
    return make(crow, col, shape[1]), values, dense.T if case.transposed else dense


def launch_of(case: Case, entries: Any, nnz: int, store: Any) -> Any:
    """Return the bound kernel."""
    from autosparse._native.triton import packing, source
    from autosparse._native.triton.launch import Launch
    from autosparse._native.triton.spec import DeviceSpec

    spec = DeviceSpec(
        schedule=case.schedule, dtype=case.dtype, index_dtype=case.index_dtype, is_indirect=case.transposed
    )
    return Launch(source.module_of(spec, store), packing.pack(spec, entries, nnz=nnz))


def check_product(case: Case, store: Any) -> None:
    """Check A @ B, or A @ x."""
    import torch

    entries, values, dense = operands(case)
    launch = launch_of(case, entries, values.shape[0], store)
    n, m = dense.shape
    vector = case.operation == "spmv"
    B = torch.randn((m,) if vector else (m, case.columns), dtype=torch.float64).to(values.dtype)
    out = torch.full((n,) if vector else (n, case.columns), float("nan"), dtype=values.dtype)
    (launch.spmv if vector else launch.matmul)(values, B, out)
    scale = dense.abs() @ B.double().abs() + 1
    assert_close(case, out, dense @ B.double(), scale)


def check_sampled(case: Case, store: Any) -> None:
    """Check 2 ⟨X[i], Y[j]⟩ - 3 A[i, j], then without A."""
    import torch

    entries, values, _ = operands(case)
    launch = launch_of(case, entries, values.shape[0], store)
    X = torch.randn(entries.n_rows, case.columns, dtype=torch.float64).to(values.dtype)
    Y = torch.randn(entries.n_cols, case.columns, dtype=torch.float64).to(values.dtype)
    out = torch.full_like(values, float("nan"))
    launch.sddmm(values, X, Y, out, alpha=2.0, beta=-3.0)
    rows, at = entries.listed()
    x, y = X.double()[rows], Y.double()[entries.cols[at].long()]
    scale = 2 * (x * y).abs().sum(1) + 3 * values.double().abs() + 1
    assert_close(case, out, 2 * (x * y).sum(1) - 3 * values.double(), scale)
    launch.sddmm(torch.full_like(values, float("nan")), X, Y, out)
    assert_close(case, out, (x * y).sum(1), scale)


def check_mttkrp(case: Case, store: Any) -> None:
    """Check out[i] = Σ A[i, k, l] B[k] ∘ D[l]."""
    import torch
    from autosparse._native.triton.entries import entries_of_csf

    root_ends, fiber_cols, fiber_ends, leaf_cols, shape = patterns.TENSORS[case.pattern]()
    levels = [torch.as_tensor(one, dtype=torch.int32) for one in (root_ends, fiber_cols, fiber_ends, leaf_cols)]
    values = torch.randn(len(leaf_cols), dtype=torch.float64).to(getattr(torch, case.dtype))
    launch = launch_of(case, entries_of_csf(*levels), len(leaf_cols), store)
    B, D = (torch.randn(extent, case.columns, dtype=torch.float64).to(values.dtype) for extent in shape[1:])
    out = torch.full((shape[0], case.columns), float("nan"), dtype=values.dtype)
    launch.mttkrp(values, B, D, out)
    fiber = torch.repeat_interleave(torch.arange(len(fiber_cols)), levels[2].long().diff())
    root = torch.repeat_interleave(torch.arange(shape[0]), levels[0].long().diff())[fiber]
    terms = values.double()[:, None] * B.double()[levels[1].long()[fiber]] * D.double()[levels[3].long()]
    wanted, scale = (torch.zeros(out.shape, dtype=torch.float64).index_add_(0, root, t) for t in (terms, terms.abs()))
    assert_close(case, out, wanted, scale + 1)


def assert_close(case: Case, out: Any, wanted: Any, scale: Any) -> None:
    """Check each element within the dtype's tolerance times the sum of the magnitudes of its terms."""
    error = ((out.double() - wanted).abs() / scale).max().item() if out.numel() else 0.0
    assert error <= TOLERANCES[case.dtype], f"off by {error:.3g} of the sum of magnitudes"
    assert not out.isnan().any(), "not every element was written"


CHECKS: dict[str, Callable[[Case, Any], None]] = {
    "matmul": check_product, "spmv": check_product, "sddmm": check_sampled, "mttkrp": check_mttkrp
}  # fmt: skip


def mend_interpreter() -> None:
    """Correct ``tl.dot`` of bfloat16, whose bits Triton 3.9's interpreter multiplies as integers."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    original = interpreter.InterpreterBuilder.create_dot

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        def wide(handle: Any) -> Any:
            if handle.dtype.scalar != tl.bfloat16 or handle.data.dtype != np.uint16:
                return handle
            return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

        return original(self, wide(a), wide(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot


def main() -> None:
    """Run the cases whose ids are the lines of standard input, or all on a GPU; print a line for each."""
    import torch
    from autosparse.cache import Store

    from tests.triton.places import is_on_gpu, of_share

    found: Iterable[Case] = of_share(list(cases()))
    if not is_on_gpu():
        by_id = {case.id: case for case in found}
        found = (by_id[line.strip()] for line in sys.stdin)
        mend_interpreter()
    store = Store(None)
    torch.set_num_threads(1)
    for case in found:
        torch.manual_seed(0)
        error = None
        try:
            CHECKS[case.operation](case, store)
        except Exception:  # noqa: BLE001  reported by the test of this case
            error = traceback.format_exc()[-3000:]
        print(json.dumps({"id": case.id, "error": error}), flush=True)


if __name__ == "__main__":
    main()

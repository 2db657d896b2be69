"""Call objects: one execution of an operation as kernels see it, by addresses and by widths in entries.

Each class can run the default kernel and a bound generated kernel. Other modules decide which of them runs. They are
plain classes, because the first race of a process loads this module and not that of data classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosparse._native import runtime_api

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Bound
    from autosparse.operands.native_rows import NativeRows
    from autosparse.operands.unfolding import Unfolding

Place = tuple[int, int]
"""Address of a dense operand, and the number of entries from one row to the next."""


class MatmulCall:
    """Call of C = op(M) @ B with row-major B and C."""

    __slots__ = ("kept", "ldb", "ldc", "n_vecs", "result", "rows", "source", "transposed")

    def __init__(
        self, rows: NativeRows, B: Place, C: Place, n_vecs: int, *, transposed: bool, kept: Any = None
    ) -> None:
        (self.source, self.ldb), (self.result, self.ldc) = B, C
        self.rows, self.n_vecs, self.transposed = rows, n_vecs, transposed
        self.kept = kept  # B itself, which the address alone would not keep alive

    @property
    def suits_generated(self) -> bool:
        """Return whether generated kernels support the layout: with one column they write adjacent elements of C."""
        return self.n_vecs != 1 or self.ldc == 1

    def by_default(self, n_threads: int, flags: int) -> int:
        """Run the default kernel and return its status, 0 for success (see `protocols.Call`)."""
        rows, cast = self.rows, runtime_api.ffi.cast
        kernel = runtime_api.lib.asp_csr_t_mm if self.transposed else runtime_api.lib.asp_csr_mm
        status: int = kernel(
            rows.dtype_code, rows.index_code, rows.n_major, rows.n_minor, rows.indptr[0], rows.indices[0],
            rows.data[0], cast("void *", self.source), self.ldb, cast("void *", self.result), self.ldc, self.n_vecs,
            n_threads, flags,
        )  # fmt: skip
        return status

    def by(self, bound: Bound, n_threads: int) -> bool:
        """Run the kernel `bound`; return False if its result is not to be trusted (see `protocols.Call`)."""
        return bound.run(self.source, self.ldb, self.result, self.ldc, self.n_vecs, n_threads) is not False


class SampledCall:
    """Call of S = M ∘ (X @ Yᵀ) at M's entries: X (n_major, n_vecs) and Y (n_minor, n_vecs) by rows, S (nnz,)."""

    __slots__ = ("X", "Y", "kept", "ldx", "ldy", "n_vecs", "result", "rows")

    def __init__(self, rows: NativeRows, X: Place, Y: Place, result: int, n_vecs: int, *, kept: Any = None) -> None:
        (self.X, self.ldx), (self.Y, self.ldy) = X, Y
        self.rows, self.result, self.n_vecs, self.kept = rows, result, n_vecs, kept

    @property
    def suits_generated(self) -> bool:
        """Return whether generated kernels support the layout: rows must not overlap, as broadcast ones do."""
        return self.ldx >= self.n_vecs <= self.ldy and self.n_vecs > 0

    def by_default(self, n_threads: int, flags: int) -> int:
        """Run the default kernel and return its status, 0 for success; the order of sums never changes."""
        rows, cast = self.rows, runtime_api.ffi.cast
        status: int = runtime_api.lib.asp_sddmm_scaled(
            rows.dtype_code, rows.index_code, rows.n_major, rows.n_minor, rows.indptr[0], rows.indices[0],
            cast("void *", self.X), self.ldx, cast("void *", self.Y), self.ldy, self.n_vecs, rows.data[0],
            cast("void *", self.result), n_threads, flags,
        )  # fmt: skip
        return status

    def by(self, bound: Bound, n_threads: int) -> bool:
        """Run the kernel `bound`; return False if its result is not to be trusted (see `protocols.Call`)."""
        values = int(runtime_api.ffi.cast("intptr_t", self.rows.data[0]))
        done = bound.run(self.X, self.ldx, self.Y, self.ldy, values, self.result, self.n_vecs, n_threads)
        return done is not False


class TensorCall:
    """Call of MTTKRP: M from an unfolded tensor and factors (extent, n_vecs) by rows, in the order of other modes."""

    __slots__ = ("dtype", "factors", "kept", "ldm", "lds", "n_vecs", "result", "rows", "unfolding")

    def __init__(
        self, unfolding: Unfolding, factors: list[int], lds: list[int], M: Place, *, n_vecs: int, dtype: Any,
        kept: Any = None,
    ) -> None:  # fmt: skip
        self.rows: None = None
        self.unfolding, self.dtype, self.kept = unfolding, dtype, kept
        self.factors, self.lds, (self.result, self.ldm), self.n_vecs = factors, lds, M, n_vecs

    @property
    def suits_generated(self) -> bool:
        """Return whether generated kernels support the layout: rows must not overlap."""
        return self.n_vecs > 0 and min((*self.lds, self.ldm)) >= self.n_vecs

    def by_default(self, n_threads: int, flags: int) -> int:
        """Run the default kernel and return its status, 0 for success (see `protocols.Call`)."""
        from autosparse.operands.csf import csf_mttkrp

        result, places = (self.result, self.ldm, self.n_vecs), self.unfolding.places
        factors, lds = [self.factors[at] for at in places], [self.lds[at] for at in places]
        return csf_mttkrp(self.unfolding.csf(self.dtype), factors, lds, result, threads=n_threads, flags=flags)

    def by(self, bound: Bound, n_threads: int) -> bool:
        """Run the kernel `bound`; return False if its result is not to be trusted (see `protocols.Call`)."""
        done = bound.run(self.factors, self.lds, self.result, self.ldm, self.n_vecs, n_threads)
        return done is not False

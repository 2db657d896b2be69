"""Execution of products: by the default kernel from the first call on, by a tuned kernel once tuning has paid off.

`matmul` is the hot path: all of its work beside the kernel costs every user on every call.
"""

from __future__ import annotations

import errno
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import forking
from autosparse._native import memory, runtime_api
from autosparse.config import decisive_options, get_options
from autosparse.containment import contained
from autosparse.dispatch.state import FOREVER_NS, DispatchState, is_unpaid, state_for
from autosparse.errors import StructureError
from autosparse.operands.csr import SMALL_AT_FIRST, Operand
from autosparse.operands.native_rows import NATIVE, NativeRows
from autosparse.ops import names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from autosparse.core.plan import Plan
    from autosparse.dispatch.calls import MatmulCall
    from autosparse.dispatch.protocols import Call, HasDtype, Serving
    from autosparse.operands.unfolding import AnyOperand, Unfolding
    from autosparse.tuning.report import Report

AnyArray = NDArray[Any]  # Any: one of the native dtypes

MAX_ROWS: Final = SMALL_AT_FIRST
"""Maximum number of result rows for which a product may be computed by `small_product`."""
LARGE_COPY: Final = 1 << 12
"""Minimum number of entries of a dense operand for which reading it in place, or transposing it by threads, pays.
NumPy copies rows whose elements have gaps in half the time of one thread."""
_CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED

_ffi, _lib, _address_of = runtime_api.ffi, runtime_api.lib, runtime_api.address_of
_empty = memory.empty_result
_new = np.empty
_from_buffer: Any = _ffi.from_buffer if runtime_api.available else None  # unused without the runtime


def matmul(
    operand: Operand, B: AnyArray, *, transposed: bool, out: AnyArray | None = None, rows: NativeRows | None = None
) -> AnyArray:
    """Compute C = M @ B, or Mᵀ @ B when `transposed`; B (k,) or (k, n) of the operand's dtype, any strides.

    `out`, when given, has the right shape and dtype and rows without gaps between their entries, and shares no memory
    with B or the operand. `rows` are those that the caller has validated for this product.
    """
    rows = rows or operand.rows or operand.validate()
    ldb = 1 if B.ndim == 1 else B.shape[1]
    source = None
    if B.flags.num & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED:
        B, ldb, source = _strided(B)
    is_new = out is None
    if out is None:
        out = _empty(((rows.n_minor if transposed else rows.n_major), *B.shape[1:]), rows.dtype, transposed)
        enter = operand.fast_path
        if enter is not None and (
            enter(operand, B, out, decisive_options(), transposed) or enters(operand, B, out, transposed)
        ):
            return out
    operand.begin_reading()  # kernels read the arrays by their addresses: another thread may replace them
    try:
        _multiply(operand, rows, (B, ldb, source), out, transposed=transposed, is_new=is_new)
    finally:
        operand.end_reading()
    return out


def _multiply(
    operand: Operand, rows: NativeRows, right: tuple[AnyArray, int, Any], out: AnyArray, *, transposed: bool,
    is_new: bool,
) -> None:  # fmt: skip
    """Compute `out` by the tuned kernel or the default one, count the product, and let tuning continue where it is due.

    `right`: B, its row step, and its memory by rows where it is a copy. `is_new`: later products may use a fast call.
    """
    B, ldb, source = right
    if operand.rows is not rows and operand._known_rows is not rows:  # another thread has replaced an array since
        rows = operand.validate()
    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    if not n_vecs:  # nothing to compute, and the kernels of this state's bucket are those of a vector
        return
    ldc = n_vecs if is_new else out.strides[0] // out.itemsize
    dispatcher = operand.dispatcher
    state = dispatcher.hot.get((n_vecs, transposed)) if dispatcher is not None else None
    if state is None or state.decisive is not decisive_options() or state.dtype is not rows.dtype:
        state = state_for(operand, rows, n_vecs, transposed)
        state.take_small_products(operand)
    trial = None if sys.is_finalizing() else state.serving  # it may import, which fails in `__del__` at exit
    sampled_ns = _sampled_ns(operand, state, B, out) if state.is_sampled and source is None else None
    start_ns = perf_counter_ns()
    if sampled_ns is None and (trial is None or not trial.run(operand, _call(rows, B, out, transposed))):
        trial = _without(trial, operand)
        to = _from_buffer(out) if ldc == n_vecs and out.flags.num & 1 else _void(out)
        at = _from_buffer(B) if source is None else source, ldb, to, ldc, n_vecs
        if state.turning is None or not _by_turned_rows(state, operand, at):
            _by_default(state, rows, at)
    took_ns = perf_counter_ns() - start_ns if sampled_ns is None else sampled_ns
    state.count(took_ns, is_tuned=trial is not None)
    if state.turning is not None and trial is None:
        state.turning.count(operand, n_vecs, took_ns)
    state.commit()
    if state.product_ns >= state.next_look_ns:
        _look(state, operand, n_vecs, trial, took_ns)
    elif is_new and state.n_calls >= state.fast_path_due:
        open_fast_path(operand, B, transposed=transposed)


def _by_default(state: DispatchState, rows: NativeRows, at: tuple[Any, ...]) -> None:
    """Compute C = M @ B or Mᵀ @ B by the default kernel; `at`: address and row step of B, then of C, and columns."""
    B, ldb, C, ldc, n_vecs = at
    code = (_lib.asp_csr_t_mm if state.transposed else _lib.asp_csr_mm)(
        rows.dtype_code, rows.index_code, rows.n_major, rows.n_minor, rows.indptr[0], rows.indices[0], rows.data[0],
        B, ldb, C, ldc, n_vecs, state.threads or _lib.asp_max_threads(), state.flags,
    )  # fmt: skip
    if code:
        raise MemoryError(f"not enough memory for the product (status {code})")


def _by_turned_rows(state: DispatchState, operand: Operand, at: tuple[Any, ...]) -> bool:
    """Compute C = Mᵀ @ B from kept rows of Mᵀ if there are any that are faster; return whether it was computed."""
    turning = state.turning
    assert turning is not None
    made = turning.rows(operand, at[-1])
    return made is not None and not made.multiply(at, state.threads or _lib.asp_max_threads())


def small_product(operand: Operand, B: AnyArray, *, transposed: bool) -> AnyArray | None:
    """Compute C = M @ B, or Mᵀ @ B when `transposed`, for the first small products of an operand; None for others.

    No dispatch state, fast path or native rows are made in the first milliseconds, because the product may be the only
    one. B may be any array. `matmul` raises StructureError.
    """
    if B.dtype.char not in NATIVE:
        return None
    options, n, shape = get_options(), operand.n_minor if transposed else operand.n_major, B.shape
    if n > MAX_ROWS or not 0 < len(shape) < 3 or options.runs is not None:
        return None
    runtime_api.hold(options.isa, options.wait)
    out = _new((n, *shape[1:]) if len(shape) > 1 else n, B.dtype)
    flags = runtime_api.FLAG_DETERMINISTIC if options.deterministic else 0
    return out if operand.small_product(B, out, transposed, flags) else None


def _sampled_ns(operand: Operand, state: DispatchState, B: AnyArray, out: AnyArray) -> int | None:
    """Time a product by a sampling fast path (`fast_path.sampled_ns`, a module that tuning has loaded).

    Return None where the product must go through Python: rows of the transpose, for example, are first tried there.
    """
    turning = state.turning if state.serving is None else None
    if sys.is_finalizing() or (turning is not None and turning.is_trying(1 if B.ndim == 1 else B.shape[1])):
        return None
    from autosparse.dispatch import fast_path

    return fast_path.sampled_ns(operand, state, B, out)


def open_fast_path(operand: Operand, B: AnyArray, *, transposed: bool) -> None:
    """Open a fast path for the next product like this one, if it is due."""
    dispatcher = operand.dispatcher
    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    state = dispatcher.hot.get((n_vecs, transposed)) if dispatcher is not None else None
    if state is not None and state.n_calls >= state.fast_path_due and state.product_ns < state.next_look_ns:
        if sys.is_finalizing():  # a product in `__del__` at exit: modules cannot be imported
            return
        if state.turning is not None and state.serving is None and state.turning.is_open(operand, n_vecs):
            return
        try:
            from autosparse.dispatch import fast_path

            fast_path.arm(operand, state, n_dims=B.ndim, n_vecs=n_vecs)
        except RecursionError:  # opening needs more frames than a product
            state.fast_path_due = 2 * state.n_calls
        except contained() as err:
            state.give_up(err)


def enters(operand: Operand, B: Any, out: AnyArray, transposed: bool) -> bool:
    """Compute C = M @ B, or Mᵀ @ B, by a fast path other than the open one; return whether there is one that did.

    Each problem of an operand has its own fast path, for example products with M and Mᵀ in turn, or with one and
    several columns. The fast path that computes becomes the open one. `B` may be anything.
    """
    dispatcher = operand.dispatcher
    if dispatcher is None or type(B) is not np.ndarray or not 0 < B.ndim < 3:
        return False
    state = dispatcher.hot.get((1 if B.ndim == 1 else B.shape[1], transposed))
    path = None if state is None else state.fast_path
    if path is None or path.run is operand.fast_path:
        return False
    if not path.run(operand, B, out, decisive_options(), transposed):
        return False
    operand.fast_path = path.run
    return True


def sddmm(operand: Operand, X: AnyArray, Y: AnyArray, *, out: AnyArray | None = None) -> AnyArray:
    """Compute the values of M ∘ (X @ Yᵀ) in the order of M's entries, (nnz,); X (n_major, k), Y (n_minor, k) of M's
    dtype.

    Rows of X and Y that cannot be read in place are copied. `out`, when given, is (nnz,), contiguous, of M's dtype, and
    shares no memory with the operands.
    """
    from autosparse.dispatch.calls import SampledCall
    from autosparse.operands.dense import by_rows, row_step

    operand.begin_reading()
    try:
        rows = operand.rows or operand.validate()
        S = _empty((operand.nnz,), rows.dtype) if out is None else out
        if not X.shape[1]:
            S[...] = 0
            return S

        def call(threads: int) -> SampledCall:
            left, right = by_rows(X, threads=threads), by_rows(Y, threads=threads)
            places = (_address_of(left), row_step(left)), (_address_of(right), row_step(right))
            return SampledCall(rows, *places, _address_of(S), X.shape[1], kept=(left, right))

        serve(names.SDDMM, operand, rows, X.shape[1], call)
    finally:
        operand.end_reading()
    return S


def mttkrp(unfolding: Unfolding, factors: Sequence[AnyArray], *, out: AnyArray | None = None) -> AnyArray:
    """Compute the MTTKRP matrix M (rows of the first mode, R); `factors` (extent, R) in the order of the other modes.

    The factors' dtype is float32 or float64; where the tensor has another one, its values are converted at every call.
    `out`, when given, is (rows, R) of that dtype with adjacent entries in each row, and shares no memory with the
    operands.
    """
    from autosparse.dispatch.calls import TensorCall
    from autosparse.operands.dense import by_rows, row_step

    dtype, n_vecs = factors[0].dtype, factors[0].shape[1]
    M = _empty((unfolding.entries.shape[unfolding.mode], n_vecs), dtype) if out is None else out
    if not n_vecs:
        return M

    def call(threads: int) -> TensorCall:
        dense = [by_rows(factor, threads=threads) for factor in factors]
        found = [_address_of(one) for one in dense], [row_step(one) for one in dense]
        return TensorCall(unfolding, *found, (_address_of(M), row_step(M)), n_vecs=n_vecs, dtype=dtype, kept=dense)

    serve(names.MTTKRP, unfolding, factors[0], n_vecs, call)
    return M


def serve(operation: str, operand: AnyOperand, typed: HasDtype, n_vecs: int, make_call: Callable[[int], Call]) -> None:
    """Run the call that `make_call` makes for a number of threads (0: all), by the tuned kernel or the default one.

    For every tuned operation of `OPS`; `typed` has the dtype that is computed in.
    """
    dispatcher = operand.dispatcher
    state = dispatcher.hot.get((n_vecs, operation)) if dispatcher is not None else None
    if state is None or state.decisive is not decisive_options() or state.dtype is not typed.dtype:
        state = state_for(operand, typed, n_vecs, False, operation=operation)
    _serve(state, operand, make_call(state.threads))


def _serve(state: DispatchState, operand: AnyOperand, call: Call) -> None:
    """Run the call by the tuned kernel or the default one, count it, and let tuning continue where it is due."""
    trial = state.serving
    start_ns = perf_counter_ns()
    if trial is None or not trial.run(operand, call):
        trial = _without(trial, operand)
        if code := call.by_default(state.threads or _lib.asp_max_threads(), state.flags):
            raise MemoryError(f"not enough memory for {state.operation} (status {code})")
    took_ns = perf_counter_ns() - start_ns
    state.count(took_ns, is_tuned=trial is not None)
    if state.product_ns >= state.next_look_ns:
        _look(state, operand, call.n_vecs, trial, took_ns)


def _call(rows: NativeRows, B: AnyArray, out: AnyArray, transposed: bool) -> MatmulCall:
    """Return the call object of these operands for tuned kernels; a vector B without adjacent elements is copied."""
    from autosparse.dispatch.calls import MatmulCall  # only tuned kernels need it

    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    if n_vecs == 1 and B.strides[0] != B.itemsize:
        B = np.ascontiguousarray(B)
    ldb, ldc = (1, out.strides[0] // out.itemsize) if n_vecs == 1 else (B.strides[0], out.strides[0])
    if n_vecs > 1:
        ldb, ldc = ldb // B.itemsize, ldc // out.itemsize
    return MatmulCall(rows, (_address_of(B), ldb), (_address_of(out), ldc), n_vecs, transposed=transposed, kept=B)


def _void(array: AnyArray) -> Any:
    """Return ``void *`` to the elements of an array of any strides."""
    return _ffi.cast("void *", array.__array_interface__["data"][0])


def _strided(B: AnyArray) -> tuple[AnyArray, int, Any]:
    """Return (B or a row-major copy, its row step in entries, its address or None for a contiguous copy) for any B."""
    if B.ndim == 1 or B.size < (LARGE_COPY << 6 if B.strides[0] > B.strides[1] > B.itemsize else LARGE_COPY):
        return np.array(B, order="C"), 1 if B.ndim == 1 else B.shape[1], None
    from autosparse.operands.dense import by_rows, has_rows, row_step

    if has_rows(B):
        return B, row_step(B), _void(B)
    return by_rows(B, threads=get_options().threads or 0), B.shape[1], None


def _look(state: DispatchState, operand: AnyOperand, n_vecs: int, trial: Serving | None, took_ns: int) -> None:
    """Begin or continue tuning after a product by `trial` (None: the default kernel) that took `took_ns`.

    Modules for tuning are imported here and not earlier.
    """
    if sys.is_finalizing():
        state.next_look_ns = FOREVER_NS
        return
    state.options = get_options()  # decisive options are equal; the budget is that of the options in force now
    try:
        if is_unpaid(state, operand):
            return
        if state.live_tuner is None and _is_enough(state, operand, trial, took_ns, n_vecs):
            return
        is_new = state.live_tuner is None
        with forking.loading():
            from autosparse.tuning import loading

        live_tuner = loading.live_tuner_of(state, operand)
        if live_tuner is None:
            state.commit()
            return
        if is_new and state.early is not None:
            live_tuner.tuning_s += state.early.spent_s
        live_tuner.look(n_vecs, trial, took_ns)
        state.commit()
        if live_tuner.is_stale:
            operand.dispatcher = None
    except StructureError:
        raise  # as the next product would
    except RecursionError:  # tuning needs more frames than a product
        state.next_look_ns = 2 * state.product_ns
    except contained() as err:
        state.give_up(err)


def _is_enough(state: DispatchState, operand: AnyOperand, trial: Serving | None, took_ns: int, n_vecs: int) -> bool:
    """Return whether tuning need not be considered yet, after reading the account of earlier processes."""
    with forking.loading():
        from autosparse.dispatch import first_look

    return first_look.is_enough(state, operand, trial, took_ns * 1e-9, n_vecs)


def _without(trial: Serving | None, operand: AnyOperand) -> Serving | None:
    """Return None, the kernel that serves in place of `trial`; drop the dispatcher if the matrix has changed."""
    if trial is not None and (trial.context.is_stale or operand.structure_version != trial.context.structure_version):
        operand.dispatcher = None
    return None


def _explicitly(name: str, operand: AnyOperand, *given: Any, **how: Any) -> Any:
    """Return the result of the function `name` of `tuning.explicit`; raise MemoryError where memory is short."""
    try:
        with forking.loading():
            from autosparse.tuning import explicit

        return getattr(explicit, name)(operand, *given, **how)
    except RuntimeError as err:
        if "start new thread" not in str(err):
            raise
        raise MemoryError("tuning: not enough memory to start a thread") from err
    except SystemError as err:  # raised by Python's import where it could not raise MemoryError
        raise MemoryError("tuning: not enough memory to load a module") from err
    except OSError as err:
        if err.errno != errno.ENOMEM:
            raise
        raise MemoryError(f"tuning: {err}") from err


def tune(operand: AnyOperand, **hints: Any) -> Plan:
    """Find the kernel to run now and let the next products use it; `hints` go to `tuning.explicit.tune`."""
    plan: Plan = _explicitly("tune", operand, **hints)
    return plan


def current_plan(operand: Operand, **problem: Any) -> Plan:
    """Return the plan of the next product; arguments as in `tuning.explicit.current_plan`."""
    plan: Plan = _explicitly("current_plan", operand, **problem)
    return plan


def report(operand: AnyOperand, B: Any = 1, *, transposed: bool = False, operation: str = names.MATMUL) -> Report:
    """Return everything known about the problem ``op(M) @ B``; B is the dense operand or its number of columns."""
    found: Report = _explicitly("report", operand, B, transposed=transposed, operation=operation)
    return found

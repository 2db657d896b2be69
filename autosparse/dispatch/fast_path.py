"""Fast calls: products that go from Python directly to a kernel, for operands that were checked before.

Checking a product's operands, finding its problem and counting its time takes some microseconds in Python, ten and
more after a product that has filled the caches. Small products do not take much longer. A fast path is a `FastCall` of
the extension module (`_native/extension/fast_call.c`). It serves while everything is as it was when it was made: the
operand's arrays (`Operand.rows` is the same object as long as none was exported), dtype, extents, options and the
serving kernel. A kernel that reads a packed copy is guarded as in Python (`Operand.refresh`): the operand's watch
checks the arrays where necessary, and their versions must equal the copy's. Otherwise the call returns False, and
the product goes through Python.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from autosparse._native import python_objects, runtime_api
from autosparse.operands.csr import Operand
from autosparse.operands.native_rows import NativeRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from autosparse._native._extension import FastCall
    from autosparse.dispatch.protocols import Serving
    from autosparse.dispatch.state import DispatchState
    from autosparse.dispatch.turned import TurnedRows

Run = Callable[..., bool]
"""Function (operand, B, out, decisive options, transposed) -> whether out holds the product."""

make: Final = python_objects.FastCall
"""Type of fast calls; None where fast paths are disabled."""

MAX_SAMPLING_CALLS: Final = 8
"""Maximum number of sampling fast paths of one state: a batch of candidates, the incumbent and the default kernel."""
SAMPLING_WAIT: Final = 8
"""Number of products without sampling calls after one that did not serve."""
LOOKS_BY_FAST_CALL: Final = 16
"""Number of guard checks by fast calls after which Python runs a product, so that the plan's service counts them."""
WAIT: Final = 2
"""Number of products before the next fast path, after one that has served; doubled after one that has not."""


class FastPath:
    """Fast path of one state: calls the serving kernel from C without Python's dispatch, for one operand and width."""

    __slots__ = (
        "__weakref__", "_bound", "_call", "_kernel", "_turned", "has_served", "is_retired", "rows", "run", "trial",
    )  # fmt: skip

    def __init__(
        self, state: DispatchState, operand: Operand, rows: NativeRows, n_dims: int, n_vecs: int, *,
        is_guarded: bool = True,
    ) -> None:  # fmt: skip
        assert make is not None
        self.trial: Serving | None = state.serving
        self.rows, self.has_served, self.is_retired = rows, False, False
        self._kernel: list[object] = []  # objects that a generated kernel reads
        call = self._call = make(operand, rows, state.decisive, state.transposed, rows.dtype, self._kernel)
        call.n_dims, call.n_vecs = n_dims, n_vecs
        call.dtype, call.itype = rows.dtype_code, rows.index_code
        call.flags, call.n_threads = state.flags, state.threads
        call.n_major, call.n_minor = rows.n_major, rows.n_minor
        call.indptr, call.indices, call.data = map(_address, (rows.indptr, rows.indices, rows.data))
        self._bound = None if self.trial is None else weakref.ref(self.trial.bound)
        if self.trial is not None:
            self._kernel += _generated(call, self.trial, operand, rows, is_guarded=is_guarded)
            if self.trial.packed_copy is not None:
                self.trial.packed_copy.fast_paths.add(self)
        self._turned = _turned_rows(state, n_vecs)
        if self._turned is not None:
            self._kernel += self._turned.enter(call, operand if is_guarded else None)
            self._turned.fast_paths.add(self)
        self.run: Run = call.run

    def leads(self, state: DispatchState, rows: NativeRows, n_dims: int, n_vecs: int) -> bool:
        """Return whether the fast path was made for these rows, kernel and shape, and is not retired.

        A generated kernel that did not serve, because of a write, serves again once its copy is updated.
        """
        trial = state.serving
        is_alike = (self._call.n_dims, self._call.n_vecs) == (n_dims, n_vecs)
        is_bound = trial is None or trial.bound is (self._bound and self._bound())
        is_current = self.trial is trial and self._turned is _turned_rows(state, n_vecs)
        return self.rows is rows and is_current and is_alike and is_bound and not self.is_retired

    @property
    def n_running(self) -> int:
        """Number of products that a generated kernel is computing now."""
        return int(self._call.n_running)

    def forget_threads(self) -> None:
        """Reset the running products in a forked child, where other threads do not exist."""
        self._call.n_running = 0

    def commit(self, state: DispatchState) -> None:
        """Add the products that were served to the state's counts, and stay open until tuning is due again."""
        call = self._call
        n_calls, spent_ns = call.take()
        if n_calls:
            self.has_served = True
            state.n_calls += n_calls
            state.product_ns += spent_ns
            if self.trial is not None:
                state.n_tuned += n_calls
                state.tuned_ns += spent_ns
        is_tried = self.trial is not None and self.trial.service is not None and self.trial.service.choice.is_tried
        call.looks_left = 0 if is_tried else LOOKS_BY_FAST_CALL
        is_open = state.serving is self.trial and not self.is_retired
        left_ns = state.next_look_ns - state.product_ns if is_open else 0
        call.limit_ns = int(min(max(left_ns, 0), 1 << 62))

    def open(self) -> None:
        """Stay open without a time limit."""
        self._call.limit_ns = self._call.looks_left = 1 << 62

    def took_ns(self, *product: object) -> int | None:
        """Compute a product (arguments of `run`) and return its nanoseconds, timed in C; None if it was not served."""
        self._call.take()
        return int(self._call.product_ns) if self.run(*product) else None

    def close(self) -> None:
        """Serve nothing until `commit` is called again."""
        self._call.limit_ns = 0

    def retire(self) -> None:
        """Serve nothing any more, and release the packed copy."""
        self.is_retired, self._turned = True, None
        self.close()
        if not self.n_running:
            self._call.release()
            self._kernel.clear()


def arm(operand: Operand, state: DispatchState, *, n_dims: int, n_vecs: int) -> None:
    """Open a fast path after a product (k,) or (k, n_vecs) that went through Python, so that the next can skip it."""
    rows, old = operand.rows, state.fast_path
    if make is None or rows is None or rows.dtype is not state.dtype or not rows.is_live:
        return
    if old is not None and old.leads(state, rows, n_dims, n_vecs):
        operand.fast_path = old.run
        return
    if state.n_calls < state.fast_path_due or not _is_ready(state, operand, rows, n_vecs):
        return
    if old is not None:
        old.commit(state)
        old.close()
    state.fast_path_wait = WAIT if old is None or old.has_served else 2 * state.fast_path_wait
    state.fast_path_due = state.n_calls + state.fast_path_wait
    made = state.fast_path = FastPath(state, operand, rows, n_dims, n_vecs)
    made.commit(state)
    operand.fast_path = made.run


def beside(
    operand: Operand, state: DispatchState, rows: NativeRows, *, n_dims: int, n_vecs: int, is_guarded: bool = True
) -> FastPath | None:
    """Return a separate fast path, as `arm` would open it, for products that are timed; None where none is possible.

    With ``is_guarded=False`` a packed copy is read whatever was written since: results are then useful for timing only.
    """
    trial = state.serving
    if trial is not None and trial.packed_copy is not None and is_guarded:
        operand.refresh()  # a copy of outdated values would not serve
    if make is None or not rows.is_live or not _is_ready(state, operand, rows, n_vecs, is_guarded):
        return None
    made = FastPath(state, operand, rows, n_dims, n_vecs, is_guarded=is_guarded)
    made.open()
    return made


def sampled_ns(operand: Operand, state: DispatchState, B: NDArray[Any], out: NDArray[Any]) -> int | None:
    """Compute a product that tuning samples by a fast path and return its nanoseconds; None if it must go through
    Python.

    Through Python a tuned kernel takes microseconds longer than the default kernel; fast calls do not have this bias.
    """
    rows, trial, n_vecs = operand.rows, state.serving, 1 if B.ndim == 1 else B.shape[1]
    if rows is None or rows.dtype is not state.dtype or state.n_calls < state.sampling_due:
        return None
    sampling_calls = state.sampling_calls = state.sampling_calls if state.sampling_calls is not None else {}
    path = sampling_calls.get(id(trial))
    if path is None or not path.leads(state, rows, B.ndim, n_vecs):
        path = beside(operand, state, rows, n_dims=B.ndim, n_vecs=n_vecs)
        if path is None:
            return None
        if len(sampling_calls) >= MAX_SAMPLING_CALLS:
            sampling_calls.clear()
        sampling_calls[id(trial)] = path
    looks_at = None if trial is None or trial.packed_copy is None else operand
    looked_ns = 0 if looks_at is None else looks_at.total_look_ns
    took_ns = path.took_ns(operand, B, out, state.decisive, state.transposed)
    if took_ns is None:  # an array was written
        del sampling_calls[id(trial)]
        state.sampling_due = state.n_calls + SAMPLING_WAIT
    elif trial is not None:
        trial.looked_ns = 0 if looks_at is None else looks_at.total_look_ns - looked_ns
        if trial.looked_ns and trial.service is not None:
            trial.service.looked_in_fast_call(looks_at, trial.looked_ns)
    return took_ns


def _turned_rows(state: DispatchState, n_vecs: int) -> TurnedRows | None:
    """Return the rows of Mᵀ from which the default kernel computes products of this width, if there are any."""
    return None if state.turning is None or state.serving is not None else state.turning.settled(n_vecs)


def _is_ready(state: DispatchState, operand: Operand, rows: NativeRows, n_vecs: int, is_guarded: bool = True) -> bool:
    """Return whether a fast path can compute what the state serves now; see `may_serve` and `TurnedRows.may_serve`."""
    if state.serving is not None:
        return may_serve(state.serving, operand, rows, is_guarded)
    turned = _turned_rows(state, n_vecs)
    return turned is None or not is_guarded or turned.may_serve(operand)


def may_serve(trial: Serving, operand: Operand, rows: NativeRows, is_guarded: bool = True) -> bool:
    """Return whether the kernel of `trial` computes matrix products, and reads the operand's present content.

    With ``is_guarded=False`` a packed copy may hold older values.
    """
    if trial.failed is not None or trial.bound is None or not trial.bound.has_fast_call:
        return False
    if trial.packed_copy is None:
        return trial.bound_to == (rows.n_major, rows.n_minor, rows.index_code, *_places(rows))
    if not is_guarded:
        return operand.structure_version == trial.context.structure_version
    return (
        operand.watch is not None
        and operand.structure_version == trial.context.structure_version
        and operand.values_version == trial.packed_copy.values_version
    )


def _places(rows: NativeRows) -> tuple[Any, ...]:
    return rows.indptr[0], rows.indices[0], rows.data[0]


def _address(pointer: Any) -> int:  # Any: a cffi pointer
    return int(runtime_api.ffi.cast("uintptr_t", pointer))


def _generated(call: FastCall, trial: Serving, operand: Operand, rows: NativeRows, *, is_guarded: bool) -> list[object]:
    """Write the fields of a generated kernel into `call`; return the objects that must live as long as it."""
    bound = trial.bound
    assert bound is not None
    bound.enter(call)
    if trial.packed_copy is None or not is_guarded:  # not guarded: read whatever was written there
        call.fixed_indptr, call.fixed_indices, call.fixed_data = map(_address, _places(rows))
        return [bound]
    assert operand.watch is not None
    call.guard(operand.watch, trial.packed_copy, operand.structure_version)
    return [bound]

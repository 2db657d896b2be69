"""Functions that emitted Python calls: typed memory at addresses, arrays on the stack, tasks for the thread pool.

Everything is a number: addresses are int64, and positions and coordinates are widened to int64 when they are loaded.
No function allocates, raises or touches a Python object, so kernels become objects without external symbols, which are
stored on disk and loaded without numba. Requires the extra `numba`; imported only when a kernel is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from autosparse.scalar import BYTE, COORDINATE, DOUBLE, GENERATED, NARROW_INDEX, SINGLE, WIDE_INDEX, scalar_of

OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
"""Compiler options: the compiler may reorder sums, independently of the number of threads; NaN and infinities are
respected."""

_WORD: Final = ir.IntType(64)
_TASK: Final = ir.FunctionType(ir.VoidType(), [_WORD] * 3)
# Signature of asp_parallel_function: task, context, n_items, min_items, max_items, n_threads, serial_ns.
_PARALLEL: Final = ir.FunctionType(ir.IntType(32), [_WORD] * 5 + [ir.IntType(32), ir.DoubleType()])

_INT: Final = getattr(types, WIDE_INDEX.name)
_REALS: Final = {SINGLE.name: ir.FloatType(), DOUBLE.name: ir.DoubleType()}
VALUES: Final = {
    row.short: (getattr(types, row.name), _REALS.get(row.name) or ir.LiteralStructType([_REALS[row.part]] * 2))
    for row in map(scalar_of, GENERATED)
}
"""Types of values and how LLVM spells them; a complex value is a pair of real ones."""
INTEGERS: Final = {
    **{row.short: (ir.IntType(8 * row.itemsize), row.kind == "signed") for row in (BYTE, COORDINATE, NARROW_INDEX)},
    WIDE_INDEX.short: (_WORD, True),
}


def _cell(builder: Any, kind: Any, base: Any, at: Any) -> Any:  # llvmlite values
    return builder.gep(builder.inttoptr(base, kind.as_pointer()), [at])


def _load_value(name: str) -> Any:
    kind, llvm_kind = VALUES[name]

    @intrinsic
    def load(typing_context, base, at):
        def code(context, builder, signature, arguments):
            return builder.load(_cell(builder, llvm_kind, *arguments))

        return kind(_INT, _INT), code

    return load


def _store_value(name: str) -> Any:
    kind, llvm_kind = VALUES[name]

    @intrinsic
    def store(typing_context, base, at, value):
        def code(context, builder, signature, arguments):
            builder.store(arguments[2], _cell(builder, llvm_kind, *arguments[:2]))

        return types.void(_INT, _INT, kind), code

    return store


def _load_integer(name: str) -> Any:
    llvm_kind, signed = INTEGERS[name]

    @intrinsic
    def load(typing_context, base, at):
        def code(context, builder, signature, arguments):
            found = builder.load(_cell(builder, llvm_kind, *arguments))
            if llvm_kind is _WORD:
                return found
            return builder.sext(found, _WORD) if signed else builder.zext(found, _WORD)

        return _INT(_INT, _INT), code

    return load


def _stack(llvm_kind: Any) -> Any:
    @intrinsic
    def stack(typing_context, n):
        if not isinstance(n, types.IntegerLiteral):
            return None

        def code(context, builder, signature, arguments):
            room = cgutils.alloca_once(builder, ir.ArrayType(llvm_kind, n.literal_value))
            return builder.ptrtoint(room, _WORD)

        return _INT(n), code

    return stack


@intrinsic
def store_i64(typing_context, base, at, value):
    """Store ``base[at] = value``."""

    def code(context, builder, signature, arguments):
        builder.store(arguments[2], _cell(builder, _WORD, *arguments[:2]))

    return types.void(_INT, _INT, _INT), code


@intrinsic
def run_task(typing_context, task, context_address, begin, end):
    """Call the task at an address on the current thread."""

    def code(context, builder, signature, arguments):
        builder.call(builder.inttoptr(arguments[0], _TASK.as_pointer()), arguments[1:])

    return types.void(*[_INT] * 4), code


@intrinsic
def run_parallel(typing_context, pool, task, context_address, n_items, most_items, n_threads, serial_ns):  # noqa: PLR0917
    """Run the parts of a task on the runtime's threads (`asp_parallel_function`)."""

    def code(context, builder, signature, arguments):
        pool, task, where, n_items, most, n_threads, serial_ns = arguments
        function = builder.inttoptr(pool, _PARALLEL.as_pointer())
        threads = builder.trunc(n_threads, ir.IntType(32))
        builder.call(function, [task, where, n_items, ir.Constant(_WORD, 1), most, threads, serial_ns])

    return types.void(*[_INT] * 6, VALUES[DOUBLE.short][0]), code


TASK_SIGNATURE: Final = types.void(_INT, _INT, _INT)


def address_of_task(task: Any) -> Any:  # a function
    """Return a function without arguments that returns the address of `task`, which becomes part of the same object.

    Numba's own wrapper for C callers reports exceptions through Python; a task cannot raise, so its status is dropped.
    """
    compiled = numba.njit(TASK_SIGNATURE, **OPTIONS)(task).overloads[TASK_SIGNATURE.args]

    @intrinsic
    def address(typing_context):
        def code(context, builder, signature, arguments):
            entry = ir.Function(builder.module, _TASK, name=f"asp_{task.__name__}")
            entry.linkage = "internal"
            body = ir.IRBuilder(entry.append_basic_block())
            inner = context.declare_function(builder.module, compiled.fndesc)
            context.call_conv.call_function(body, inner, types.none, TASK_SIGNATURE.args, entry.args)
            body.ret_void()
            context.active_code_library.add_linking_library(compiled.library)
            return builder.ptrtoint(entry, _WORD)

        return _INT(), code

    return address


def _bfloat16(builder: Any, bits: Any) -> Any:  # llvmlite values
    word = ir.IntType(32)
    return builder.bitcast(builder.shl(bits, word(16)), ir.FloatType())


def _float16(builder: Any, bits: Any) -> Any:
    """Widen a float16 to float32; infinities are never stored."""
    word, real = ir.IntType(32), ir.FloatType()
    magnitude = builder.bitcast(builder.shl(builder.and_(bits, word(0x7FFF)), word(13)), real)
    scaled = builder.bitcast(builder.fmul(magnitude, real(2.0**112)), word)
    sign = builder.shl(builder.and_(bits, word(0x8000)), word(16))
    return builder.bitcast(builder.or_(scaled, sign), real)


def _load_half(widen: Any) -> Any:  # of 32 bits
    """Return ``load(base, at)`` of a half-precision value, as float32."""

    @intrinsic
    def load(typing_context, base, at):
        def code(context, builder, signature, arguments):
            half = ir.IntType(16)
            loaded = builder.load(_cell(builder, half, *arguments))
            loaded.align = 2
            return widen(builder, builder.zext(loaded, ir.IntType(32)))

        return VALUES[SINGLE.short][0](_INT, _INT), code

    return load


LOADS: Final[dict[str, Any]] = {
    "load_bfloat16": _load_half(_bfloat16),
    "load_float16": _load_half(_float16),
    **{f"load_{name}": _load_value(name) for name in VALUES},
    **{f"load_{name}": _load_integer(name) for name in INTEGERS},
    **{f"store_{name}": _store_value(name) for name in VALUES},
    **{f"stack_{name}": _stack(kind) for name, (_, kind) in VALUES.items()},
    "stack_i64": _stack(_WORD),
    "store_i64": store_i64,
    "run_task": run_task,
    "run_parallel": run_parallel,
}


def _boundary(load: Any) -> Any:
    def boundary(pos, n, chunk, part, n_parts):
        if part >= n_parts:
            return n
        if chunk > 0:
            return part * chunk
        if pos == 0:
            return n * part // n_parts
        first = load(pos, 0)
        wanted = (float(load(pos, n) - first) + 2.0 * float(n)) * float(part) / float(n_parts)
        low = 0
        high = n
        while low < high:
            middle = (low + high) // 2
            if float(load(pos, middle) - first) + 2.0 * float(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    return numba.njit(**OPTIONS)(boundary)


def _first(load: Any) -> Any:
    def first(crd, low, high, wanted, is_sorted):
        if is_sorted == 0:
            return low
        while low < high:
            middle = (low + high) // 2
            if load(crd, middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    return numba.njit(**OPTIONS)(first)


def namespace(dtype: str) -> dict[str, Any]:
    """Return the names that emitted code may use: loads and stores, and `boundary_i32`, `first_u16`, ... per integer
    type.

    `boundary` and `first` correspond to `asp_boundary` and `asp_first` in C (`c.types.HELPERS`).
    """
    scalar: Callable[[float], Any] = np.dtype(dtype).type
    part: Callable[[float], Any] = np.dtype(scalar_of(dtype).part).type
    names = dict(LOADS)
    for name in INTEGERS:
        names[f"boundary_{name}"] = _boundary(LOADS[f"load_{name}"])
        names[f"first_{name}"] = _first(LOADS[f"load_{name}"])
    most = float(np.finfo(dtype).max)
    return names | {"ZERO": scalar(0), "ONE": scalar(1), "MOST": part(most)}

"""Public functions `einsum` and `einsum_path`, the counterparts of NumPy's for operands of which some are sparse."""

# No `from __future__ import annotations`: a NamedTuple would then compile each annotation string at import.

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from autosparse.contraction import results
from autosparse.contraction.kinds import AnyArray, OperandKind, as_array, cast, is_of_torch, shape_of
from autosparse.contraction.results import check_format, default_format
from autosparse.contraction.routes.existing import Direct, direct
from autosparse.contraction.serving import serve, takes
from autosparse.contraction.subscripts import Subscripts, interleaved, read
from autosparse.errors import EinsumError, InputTypeError, ShapeError

if TYPE_CHECKING:
    from autosparse.contraction.lower.plan import EinsumPlan


def einsum(
    *arguments: Any, format: str | None = None, out: AnyArray | None = None, dtype: DTypeLike | None = None,
    casting: str = "safe", optimize: object = None,
) -> Any:  # fmt: skip
    """Evaluate the Einstein summation convention on operands of which some are sparse, as ``np.einsum`` does on arrays.

    Operands are sparse matrices and arrays of SciPy and autosparse, sparse tensors, dense arrays and scalars. Repeated
    indices, sums, ``...``, broadcasting, type promotion, the call with index lists, and the ValueError on a mismatch
    follow NumPy.

    The result is sparse when it has two or more dimensions and sparse operands have all of its indices: a `csr_array`,
    or a `tensor` above two dimensions or for dtypes that SciPy's matrices lack. Otherwise it is dense. `format`
    overrides this: "csr", "csc", "coo", "dense", "tensor", "dcsr" (two dimensions) or "csf". The last two are tensors
    whose entries are distinct and sorted by their modes, without memory per empty row.

    `out` is an ndarray that receives the result and is returned. `dtype` is the type of the computation, and `casting`
    the rule for converting operands to it. `optimize` is accepted for compatibility with NumPy and has no effect,
    because the sparsity patterns determine the order of products. EinsumError (a ValueError) is raised when `format` is
    unknown, does not fit the number of dimensions, or is sparse although `out` is given.

    With torch tensors (dense, COO, CSR) among the operands the result is a dense tensor. Gradients then flow to dense
    operands and to the values of sparse operands.

    >>> A = sps.csr_array([[1.0, 2.0], [0.0, 3.0]])
    >>> asp.einsum("ij,jk->ik", A, A).toarray()
    array([[1., 8.],
           [0., 9.]])
    >>> float(asp.einsum("ij,ij->", A, A))
    14.0

    """
    text, operands = interleaved(arguments)
    if any(map(is_of_torch, operands)):
        return _of_torch(text, operands, format, out, dtype)
    if out is not None and format not in (None, "dense"):
        raise EinsumError.refused(f"out is an ndarray, format={format!r} is another kind of result", hint="one of them")
    if dtype is not None:
        operands = tuple(cast(one, np.dtype(dtype), casting) for one in operands)
    request = EinsumRequest(text, operands, format if out is None else "dense")
    known, wanted = request.signature, request.signature.format
    if not known.is_sparse:
        return _finished(results.converted(np.einsum(text, *request.operands), wanted), out)
    result = None
    if known.direct is not None:
        result = serve(known.direct, request.operands, known.subscripts, is_dense=wanted == "dense")
    if result is None:
        from autosparse.contraction.execution import compute  # not needed if a route computes the call

        result = compute(request.operands, known.subscripts, known.dtype, is_dense=wanted == "dense")
    return _finished(results.converted(result, wanted), out)


class EinsumSignature(NamedTuple):
    """Facts derived from the subscripts, `format` and the operands' kinds, before any entry is read."""

    subscripts: Subscripts
    format: str
    dtype: np.dtype[Any]
    """Promoted dtype of the operands, in which the einsum is computed."""
    is_sparse: bool
    """True if any operand is sparse; otherwise ``np.einsum`` computes the result."""
    direct: Direct | None
    """Existing product or elementwise operation that computes this expression without a generated kernel, or None."""


@functools.lru_cache(maxsize=1024)
def signature_of(text: str, format: str | None, kinds: tuple[OperandKind, ...]) -> EinsumSignature:
    """Derive and cache these facts; raise EinsumError if subscripts, format and operands do not fit together."""
    subscripts = read(text, [kind.shape for kind in kinds])
    dtype = np.result_type(*(kind.dtype for kind in kinds))
    sparse = [letters for kind, letters in zip(kinds, subscripts.inputs, strict=True) if kind.is_sparse]
    if not sparse:
        return EinsumSignature(subscripts, format or "dense", dtype, False, None)
    wanted = format or default_format(subscripts.output, set("".join(sparse)), dtype)
    check_format(wanted, len(subscripts.output), dtype)
    return EinsumSignature(subscripts, wanted, dtype, True, direct(kinds, subscripts, dtype))


class EinsumRequest:
    """Parsed arguments of one einsum: checked operands and the facts derived from their kinds."""

    __slots__ = ("operands", "signature")

    def __init__(self, text: str, given: Sequence[Any], format: str | None) -> None:
        """Check the operands and derive their facts; raise EinsumError, a ValueError, if they do not fit together."""
        self.operands = tuple(map(as_array, given))
        self.signature = signature_of(text, format, tuple(map(OperandKind.of, self.operands)))

    @classmethod
    def of(cls, arguments: Sequence[Any], format: str | None) -> "EinsumRequest":
        """Create a request from the positional arguments of `einsum`."""
        return cls(*interleaved(arguments), format)


def _of_torch(text: str, operands: Sequence[Any], format: str | None, out: Any, dtype: Any) -> Any:
    from autosparse.torch.autograd.einsum import einsum as of_tensors

    given = {"format": None if format == "dense" else format, "out": out, "dtype": dtype}
    refused = [name for name, value in given.items() if value is not None]
    if refused:
        raise EinsumError.refused(
            "einsum of torch tensors gives a dense tensor of their dtype",
            f"Given: {', '.join(f'{name}={given[name]!r:.80}' for name in refused)}.",
            hint="omit it, and convert operands or the result",
        )
    return of_tensors(read(text, list(map(shape_of, operands))), operands)


def _finished(result: Any, out: Any) -> Any:
    """Copy the result into `out` if given; otherwise return it, a zero-dimensional array as a scalar."""
    if out is None:
        return result[()] if isinstance(result, np.ndarray) and not result.ndim else result
    if not isinstance(out, np.ndarray):
        hint = "out=np.empty(shape, dtype=...)"
        raise InputTypeError.refused("return arrays must be of ArrayType", given=type(out).__name__, hint=hint)
    array = np.asarray(result)
    if out.shape != array.shape:
        raise ShapeError.out(wanted=array.shape, got=out.shape)
    np.copyto(out, array, casting="safe")
    return out


def einsum_path(*arguments: Any, format: str | None = None) -> str:
    """Describe how `einsum` computes these arguments: candidate programs by cost, then the chosen program's loops.

    >>> A = sps.eye_array(3, format="csr")
    >>> print(asp.einsum_path("ij,jk->ik", A, A))  # doctest: +ELLIPSIS
    ij,jk->ik...

    """
    from autosparse.contraction.choice import choose, is_computable
    from autosparse.contraction.operands import prepare
    from autosparse.contraction.path import is_short
    from autosparse.contraction.routes.triangles import triangles

    request = EinsumRequest.of(arguments, format)
    known, subscripts = request.signature, request.signature.subscripts
    if not known.is_sparse:
        return f"{subscripts}: numpy.einsum, no operand is sparse"
    begins = []
    if known.direct is not None and takes(known.direct, known.direct.arguments(request.operands)):
        if not known.direct.route.begins:
            return f"{subscripts}: {known.direct.route.says}"
        begins = [f"{subscripts}: {known.direct.route.says}, until calls justify compiling a kernel"]
    prepared = prepare(request.operands, subscripts, known.dtype)
    halved = triangles(prepared, subscripts)
    if halved is not None:
        prepared, subscripts = halved.operands, halved.subscripts
    if not is_short(prepared, subscripts.output):
        return f"{subscripts}: pairs of operands along a path, each an einsum of its own"
    if not is_computable(prepared):
        return "\n".join(begins or [f"{subscripts}: joins of two operands at a time"])
    choice = choose(prepared, subscripts, is_dense_output=known.format == "dense")
    of = " of the strict lower part, six times" if halved is not None else ""
    lines = [f"{subscripts}{of}: {len(choice.plans)} programs of the frontier, of {choice.found.n_programs}"]
    lines += [f"  {price:9.3g} tasks  {candidate}" for price, _, candidate in choice.plans]
    return "\n".join([*begins, *lines, "runs:", *(f"  {line}" for line in loops(choice.plan))])


def loops(plan: "EinsumPlan") -> list[str]:
    """Return the C loops of a plan as lines, without declarations and helper functions."""
    from autosparse.contraction.lower.emit import emit

    value = emit(plan, dtype="float64", index_bits=32)
    body = value[value.index("static int part(") : value.index("\nend:")].splitlines()
    declared = ("  const ", "  int failed", "  asp_", "static int", "{", "}")
    return [line for line in body if not line.startswith(declared) and "_new(&" not in line]

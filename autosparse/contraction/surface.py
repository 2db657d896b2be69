"""`evaluate`, which computes `einsum`, and the public `einsum_path`: NumPy's for operands of which some are sparse."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from autosparse.contraction.expressions.request import EinsumRequest
from autosparse.contraction.expressions.semirings import PLUS_TIMES, named
from autosparse.contraction.expressions.terms import SumOfTerms, is_sum, parse
from autosparse.contraction.kinds import AnyArray, as_array, cast, is_of_torch, shape_of
from autosparse.contraction.serving import takes
from autosparse.contraction.subscripts import interleaved, read
from autosparse.errors import EinsumError, InputTypeError, ShapeError
from autosparse.scalar import DOUBLE

if TYPE_CHECKING:
    from autosparse.contraction.lower.plan import EinsumPlan


def evaluate(
    arguments: tuple[Any, ...], *, format: str | None, out: AnyArray | None, dtype: DTypeLike | None, casting: str,
    semiring: str,
) -> Any:  # fmt: skip
    """Return the result of `light.expressions.einsum`, whose arguments these are."""
    text, operands = interleaved(arguments)
    if any(map(is_of_torch, operands)):
        whole = None if format == "dense" else format
        return _of_torch(text, operands, semiring, format=whole, out=out, dtype=dtype)
    if out is not None and format not in (None, "dense"):
        raise EinsumError.refused(f"out is an ndarray, format={format!r} is another kind of result", hint="omit one")
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None:
        named(semiring).check_dtype(wanted)
    elif casting != "safe" and operands:
        wanted = np.result_type(*(as_array(one).dtype for one in operands))
    if wanted is not None:
        operands = tuple(cast(one, wanted, casting) for one in operands)
    format = format if out is None else "dense"
    with np.errstate(all="ignore"):  # np.einsum does not report overflow and invalid values either
        if is_sum(text):
            from autosparse.contraction.expressions.sums import einsum_of_sum  # most einsums are one product

            result = einsum_of_sum(text, operands, format, semiring)
        else:
            result = EinsumRequest(text, operands, format, semiring).result()
    return _finished(result, out)


def _of_torch(text: str, operands: Sequence[Any], semiring: str, **given: Any) -> Any:
    """Return the einsum of torch tensors; raise EinsumError if an option is given that tensors do not support."""
    importlib.import_module("autosparse.torch")  # before its modules, which its own import imports
    from autosparse.torch.autograd.einsum import einsum as of_tensors
    from autosparse.torch.autograd.einsum import in_semiring

    refused = [name for name, value in given.items() if value is not None]
    if refused:
        raise EinsumError.refused(
            "einsum of torch tensors gives a dense tensor of their dtype",
            f"Given: {', '.join(f'{name}={given[name]!r:.80}' for name in refused)}.",
            hint="omit it, and convert operands or the result",
        )
    if semiring != PLUS_TIMES:
        return in_semiring(text, operands, semiring)
    if is_sum(text):
        return _torch_sum(parse(text), operands, of_tensors)
    return of_tensors(read(text, list(map(shape_of, operands))), operands)


def _torch_sum(expression: SumOfTerms, operands: Sequence[Any], of_tensors: Callable[..., Any]) -> Any:
    """Return the sum of the einsums of a sum's terms, as a dense tensor."""
    read(expression.as_product, list(map(shape_of, operands)))  # checks the number and the shapes of all operands
    total, at = None, 0
    for term in expression.terms:
        given = operands[at : at + len(term.inputs)]
        at += len(term.inputs)
        own, inner = term.output(expression.output), term.text(expression.output)
        value = of_tensors(read(inner, list(map(shape_of, given))), given)
        value = value[tuple(slice(None) if index in own else None for index in expression.output)]
        value = -value if term.sign == "-" else value
        total = value if total is None else total + value
    return total


def _finished(result: Any, out: Any) -> Any:
    """Copy the result into `out` if given; otherwise return it, a zero-dimensional array as a scalar."""
    if out is None:
        return result[()] if isinstance(result, np.ndarray) and not result.ndim else result
    if not isinstance(out, np.ndarray):
        hint = "pass out=np.empty(shape, dtype=...)"
        raise InputTypeError.refused("return arrays must be of ArrayType", given=type(out).__name__, hint=hint)
    array = np.asarray(result)
    if out.shape != array.shape:
        raise ShapeError.out(wanted=array.shape, got=out.shape)
    np.copyto(out, array, casting="safe")
    return out


def einsum_path(*arguments: Any, format: str | None = None, semiring: str = PLUS_TIMES) -> str:
    """Describe how `einsum` computes these arguments: candidate programs by cost, then the chosen program's loops.

    The arguments are those of `einsum`; nothing is computed. `format` and `semiring` matter, because programs differ by
    the format of the result and by how terms are added and multiplied.

    >>> A = sps.eye_array(3, format="csr")
    >>> print(asp.einsum_path("ij,jk->ik", A, A))  # doctest: +ELLIPSIS
    ij,jk->ik...

    """
    from autosparse.contraction.choice import choose, is_computable
    from autosparse.contraction.operands import Sparse, prepare
    from autosparse.contraction.path import is_short
    from autosparse.contraction.routes.triangles import triangles

    text, operands = interleaved(arguments)
    if is_sum(text):
        return _path_of_sum(text, operands, format, semiring)
    request = EinsumRequest(text, operands, format, semiring)
    known, subscripts = request.signature, request.signature.subscripts
    if not known.is_contracted:
        return f"{subscripts}: numpy.einsum, no operand is sparse"
    begins = []
    if known.direct is not None and takes(known.direct, known.direct.arguments(request.operands)):
        if not known.direct.route.begins:
            return f"{subscripts}: {known.direct.route.says}"
        begins = [f"{subscripts}: {known.direct.route.says}, until calls justify compiling a kernel"]
    prepared = prepare(request.operands, subscripts, known.dtype)
    halved = triangles(prepared, subscripts) if semiring == PLUS_TIMES else None
    if halved is not None:
        prepared, subscripts = halved.operands, halved.subscripts
    if not is_short(prepared, subscripts.output):
        return f"{subscripts}: pairs of operands along a path, each an einsum of its own"
    if not any(isinstance(operand, Sparse) for operand in prepared):
        return f"{subscripts}: NumPy's {named(semiring).says}, no operand is sparse"
    if not is_computable(prepared):
        return "\n".join(begins or [f"{subscripts}: joins of two operands at a time"])
    choice = choose(prepared, subscripts, is_dense_output=known.format == "dense")
    of = " of the strict lower part, six times" if halved is not None else ""
    lines = [f"{subscripts}{of}: {len(choice.plans)} programs of the frontier, of {choice.found.n_programs}"]
    lines += ["  i:s steps through the stored coordinates of i, i:l locates one; a task is one innermost iteration"]
    lines += [f"  {price:9.3g} tasks  {candidate}" for price, _, candidate in choice.plans]
    return "\n".join([*begins, *lines, "runs:", *(f"  {line}" for line in loops(choice.plan))])


def _path_of_sum(text: str, operands: Sequence[Any], format: str | None, semiring: str) -> str:
    """Describe how each term of a sum is computed, and how the terms are added."""
    from autosparse.contraction.expressions.sums import SumRequest

    request = SumRequest(text, operands, format, semiring)
    lines = [f"{request.expression}: {request.how_added}"]
    for term, given in request.terms:
        inner = einsum_path(term.text(request.expression.output), *given, semiring=semiring)
        lines += [f"  {line}" for line in inner.splitlines()]
    return "\n".join(lines)


def loops(plan: EinsumPlan) -> list[str]:
    """Return the C loops of a plan as lines, without declarations and helper functions."""
    from autosparse.contraction.lower.emit import emit

    value = emit(plan, dtype=DOUBLE.name, index_bits=32)
    body = value[value.index("static int part(") : value.index("\nend:")].splitlines()
    declared = ("  const ", "  int failed", "  asp_", "static int", "{", "}")
    return [line for line in body if not line.startswith(declared) and "_new(&" not in line]

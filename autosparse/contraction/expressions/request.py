"""Request of one einsum: checked operands, and the facts derived from their kinds, before any entry is read."""

# No `from __future__ import annotations`: a NamedTuple would then compile each annotation string at import.

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from autosparse.contraction import results
from autosparse.contraction.expressions.semirings import PLUS_TIMES, named
from autosparse.contraction.kinds import OperandKind, as_array
from autosparse.contraction.results import check_format, default_format
from autosparse.contraction.routes.existing import Direct, direct
from autosparse.contraction.serving import serve
from autosparse.contraction.subscripts import Subscripts, read


class EinsumSignature(NamedTuple):
    """Facts derived from the subscripts, `format` and the operands' kinds, before any entry is read."""

    subscripts: Subscripts
    format: str
    dtype: np.dtype[Any]
    """Promoted dtype of the operands, in which the einsum is computed."""
    is_contracted: bool
    """True if this library computes the result; False if ``np.einsum`` does: no sparse operand, ordinary semiring."""
    direct: Direct | None
    """Existing product or elementwise operation that computes this expression without a generated kernel, or None."""


@functools.lru_cache(maxsize=1024)
def signature_of(text: str, format: str | None, kinds: tuple[OperandKind, ...], semiring: str) -> EinsumSignature:
    """Derive and cache these facts; raise EinsumError if subscripts, format and operands do not fit together."""
    how = named(semiring)
    subscripts = read(text, [kind.shape for kind in kinds])._replace(semiring=semiring)
    dtype = how.dtype(np.result_type(*(kind.dtype for kind in kinds)))
    sparse = [letters for kind, letters in zip(kinds, subscripts.inputs, strict=True) if kind.is_sparse]
    if not sparse:
        return EinsumSignature(subscripts, format or "dense", dtype, not how.is_ordinary, None)
    usual = default_format(subscripts.output, set("".join(sparse)), dtype)
    wanted = format or usual
    check_format(wanted, len(subscripts.output), dtype)
    existing = direct(kinds, subscripts, dtype) if how.is_ordinary else None
    has_vector = any(kind.is_sparse and len(kind.shape) == 1 for kind in kinds)  # its pairs have the usual format
    if existing is None and how.is_ordinary and (wanted == usual or not has_vector):
        from autosparse.contraction.routes import by_pairs  # most einsums have a row

        existing = by_pairs.direct(kinds, subscripts, dtype)
    return EinsumSignature(subscripts, wanted, dtype, True, existing)


class EinsumRequest:
    """Parsed arguments of one einsum: checked operands and the facts derived from their kinds."""

    __slots__ = ("_text", "operands", "signature")

    def __init__(self, text: str, given: Sequence[Any], format: str | None, semiring: str = PLUS_TIMES) -> None:
        """Check the operands and derive their facts; raise EinsumError, a ValueError, if they do not fit together."""
        self._text, self.operands = text, tuple(map(as_array, given))
        kinds = tuple(map(OperandKind.of, self.operands))
        self.signature = signature_of(text, format, kinds, named(semiring).name)

    def result(self) -> Any:
        """Compute the einsum, in the format of the signature."""
        known, wanted = self.signature, self.signature.format
        subscripts = known.subscripts
        if not known.is_contracted:
            return results.converted(np.einsum(self._text, *self.operands), wanted)
        result = None
        if known.direct is not None:
            result = serve(known.direct, self.operands, subscripts, is_dense=wanted == "dense")
        if result is None:
            from autosparse.contraction.execution import compute  # not needed if a route computes the call

            result = compute(self.operands, subscripts, known.dtype, is_dense=wanted == "dense")
        return results.converted(result, wanted, named(subscripts.semiring))

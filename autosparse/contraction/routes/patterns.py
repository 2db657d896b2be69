"""Cache keys of einsum operands: hashes of their sparsity patterns and everything else that a choice depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from autosparse import config
from autosparse._native import runtime_api
from autosparse.contraction.kinds import AnyArray, arrays_of, coordinates, is_sparse, is_tensor
from autosparse.contraction.operands import Operand, Sparse
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.calls import Recent
from autosparse.core.dtypes import WideIndex

MAX_KEYS: Final = 256
"""Maximum number of keys kept in a process."""
VERSION: Final = 5
"""Version of the candidates and kernels, part of every key. Increasing it invalidates all earlier choices."""

_keys: Final[Recent[tuple[object, ...], str]] = Recent(MAX_KEYS)


def key_of(operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool) -> str:
    """Return a digest of everything that the choice depends on: subscripts, extents, dtypes, threads and patterns."""
    threads = config.get_options().threads or runtime_api.max_threads()
    facts: list[object] = [subscripts.inputs, subscripts.output, tuple(sorted(subscripts.extents.items()))]
    facts += [subscripts.semiring, is_dense_output, threads, VERSION]
    hashes: dict[tuple[int, int], object] = {}
    for operand in operands:
        if isinstance(operand, Sparse):
            facts += [operand.indices, operand.nnz, operand.dtype.str]
            if operand.tensor is not None:
                facts.append(operand.tensor.hash)
                continue
            for part in operand.rows or (operand.coords,):
                place = runtime_api.address_of(part), part.nbytes
                facts.append(hashes.get(place) or hashes.setdefault(place, _hash(part)))
        else:
            facts += [operand.indices, operand.array.dtype.str]
    known = tuple(facts)
    key = _keys.get(known)
    return key or _keys.keep(known, hashlib.blake2b(repr(known).encode(), digest_size=16).hexdigest())


def _hash(array: AnyArray) -> object:
    """Return a hash of an index array, or of a sample without the runtime; a collision costs time, not correctness."""
    if runtime_api.available:
        return runtime_api.hash128(np.ascontiguousarray(array)) if array.size else (0, 0)
    flat = array.reshape(-1)
    sample = np.ascontiguousarray(flat[:: max(1, flat.size // 4096)], dtype=WideIndex)
    return hashlib.blake2b(sample.tobytes(), digest_size=16).hexdigest()


def of_arguments(arguments: Sequence[Any]) -> tuple[object, ...]:
    """Return a hash of the pattern of each sparse argument, before arguments are converted to operands."""
    return tuple(_structure(one) for one in arguments if is_sparse(one))


def _structure(obj: Any) -> object:
    if is_tensor(obj):
        return obj._entries.pattern.sparsity_hash
    arrays = arrays_of(obj)[:2] if obj.format in ("csr", "csc") else coordinates(obj.tocoo())
    return (obj.format, obj.shape, *map(_hash, arrays))

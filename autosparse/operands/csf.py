"""Compressed sparse fibers (CSF): the storage of a tensor that the default MTTKRP kernel reads (Smith et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.scalar import WIDE_INDEX

AnyArray = NDArray[Any]  # Any: one native dtype

SIZES: Final = WIDE_INDEX.array
MAX_ORDER: Final = 16
"""Maximum number of modes that kernels support (ASP_MAX_MODES)."""
MIN_CHILDREN: Final = 3
"""Minimum number of entries per node of the level above them. Below it a tensor is stored flat, with two levels."""


class Csf(NamedTuple):
    """Tensor in compressed sparse fibers (csf_api.h): nodes of each level, outermost first, and the leaves' values."""

    ids: tuple[AnyArray, ...]
    ptr: tuple[AnyArray, ...]
    first_leaf: AnyArray  # first leaf of each node of level 0, then the number of leaves
    perm: AnyArray  # number of the entry at each leaf
    values: AnyArray  # values of the leaves
    struct: Any  # cffi asp_csf *

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.ids, *self.ptr, self.first_leaf, self.perm, self.values))

    def with_values(self, values: AnyArray) -> Csf:
        """Return the same structure with other values (in the order of the entries), which are gathered anew."""
        leaves = _gathered(values, self.perm)
        struct = runtime_api.ffi.new("asp_csf *", self.struct[0])
        struct.values = runtime_api.pointer(leaves)
        return Csf(self.ids, self.ptr, self.first_leaf, self.perm, leaves, struct)


def compressed_fibers(coords: Sequence[AnyArray], sizes: Sequence[int], values: AnyArray) -> Csf:
    """Return the CSF of entries: `coords` and extents `sizes` of the modes, outermost level first; values (nnz,).

    Coordinates have one type, int32 (then nnz < 2**31) or int64, are contiguous and within the extents. May raise
    MemoryError.
    """
    ffi, lib, pointer = runtime_api.ffi, runtime_api.lib, runtime_api.pointer
    n_modes, nnz, dtype = len(coords), values.size, coords[0].dtype
    code = runtime_api.INDEX_CODES[dtype.name]
    sources, extents = ffi.new("void *[]", list(map(pointer, coords))), ffi.new(SIZES, list(sizes))
    perm, n_nodes = np.empty(nnz, dtype), ffi.new(SIZES, n_modes)
    runtime_api.raise_for(lib.asp_tensor_sort(code, n_modes, nnz, sources, extents, pointer(perm)))
    lib.asp_tensor_levels(code, n_modes, nnz, sources, pointer(perm), n_nodes, ffi.NULL, ffi.NULL)
    is_flat = n_modes > 2 and MIN_CHILDREN * n_nodes[n_modes - 2] > nnz
    n_levels = 2 if is_flat else n_modes  # with two levels every entry is a node of the second
    common = (code, n_levels, nnz, sources, pointer(perm), n_nodes)
    lib.asp_tensor_levels(*common, ffi.NULL, ffi.NULL)
    ids = tuple(np.empty(n_nodes[depth], dtype) for depth in range(n_levels))
    ptr = tuple(np.empty(n_nodes[depth] + 1, dtype) for depth in range(n_levels - 1))
    lib.asp_tensor_levels(
        *common, ffi.new("void *[]", list(map(pointer, ids))), ffi.new("void *[]", list(map(pointer, ptr)))
    )
    first_leaf = ptr[0]
    for below in ptr[1:]:
        first_leaf = below[first_leaf]
    ids += tuple(_gathered(coords[depth], perm) for depth in range(n_levels, n_modes))
    leaves = _gathered(values, perm)
    struct = ffi.new("asp_csf *")
    struct.n_modes, struct.n_rows, struct.is_flat = n_modes, sizes[0], is_flat
    struct.largest_row = int(np.diff(first_leaf).max(initial=0))
    for depth, level in enumerate(ids):
        struct.n_nodes[depth], struct.ids[depth] = level.size, pointer(level)
    for depth, positions in enumerate(ptr):
        struct.ptr[depth] = pointer(positions)
    struct.values, struct.first_leaf = pointer(leaves), pointer(first_leaf)
    return Csf(ids, ptr, first_leaf, perm, leaves, struct)


def csf_mttkrp(
    csf: Csf, addresses: Sequence[int], lds: Sequence[int], result: tuple[int, int, int], *, threads: int, flags: int
) -> int:
    """Compute the MTTKRP M of `csf` and the factors of the levels below the first; return the runtime's status code.

    `addresses` and `lds` are each factor's address and entries between rows. `result` is M's address, the number
    of entries between its rows, and its number of columns.
    """
    ffi = runtime_api.ffi
    pointers = ffi.new("uintptr_t[]", [0, *addresses])
    M, ldm, n_vecs = result
    status: int = runtime_api.lib.asp_csf_mttkrp(
        runtime_api.DTYPE_CODES[csf.values.dtype.name], runtime_api.INDEX_CODES[csf.perm.dtype.name], csf.struct,
        ffi.cast("void **", pointers), ffi.new(SIZES, [0, *lds]), n_vecs, ffi.cast("void *", M), ldm,
        threads, flags,
    )  # fmt: skip
    return status


def _gathered(values: AnyArray, perm: AnyArray) -> AnyArray:
    return runtime_api.gather(values, perm, np.empty(perm.size, values.dtype), threads=runtime_api.max_threads())

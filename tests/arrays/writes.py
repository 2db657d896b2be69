"""Every way we know of to write to the arrays of a sparse matrix, played on ours and on SciPy's at the same time.

A `World` is a matrix and what somebody keeps of it (aliases, views, siblings). A write is a function of a world and a
random generator; given the same seeds it does the same to a world over our class and to one over SciPy's, so that
SciPy's matrix says what the product must be without our arrays being looked at.
"""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sps

N_ROWS, N_COLUMNS = 9, 11


class World:
    """A matrix `A` and the references that somebody keeps."""

    def __init__(self, make: Callable[..., Any], fmt: str, seed: int) -> None:
        m = sps.random(N_ROWS, N_COLUMNS, 0.35, format=fmt, random_state=np.random.RandomState(seed))
        self.kept: dict[str, Any] = {}
        arrays = (m.data.copy(), m.indices.copy(), m.indptr.copy())
        if seed % 3 == 0:
            self.kept["origin"] = arrays[0]
        if seed % 5 == 0:
            self.kept["origin_indices"] = arrays[1]
        self.A = make(arrays, shape=m.shape)

    @property
    def n_minor(self) -> int:
        return self.A.shape[0] if self.A.format == "csc" else self.A.shape[1]


Write = Callable[[World, np.random.Generator], None]
WRITES: dict[str, Write] = {}


def write(function: Write) -> Write:
    WRITES[function.__name__] = function
    return function


def _spot(array: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(len(array)))


# -- values, through the attribute


@write
def one_element(w: World, rng: np.random.Generator) -> None:
    w.A.data[_spot(w.A.data, rng)] = rng.random()


@write
def a_slice(w: World, rng: np.random.Generator) -> None:
    w.A.data[_spot(w.A.data, rng) :] = rng.random()


@write
def times_in_place(w: World, rng: np.random.Generator) -> None:
    w.A.data *= 1 + rng.random()


@write
def ufunc_out(w: World, rng: np.random.Generator) -> None:
    np.add(w.A.data, rng.random(), out=w.A.data)


@write
def copyto(w: World, rng: np.random.Generator) -> None:
    np.copyto(w.A.data, rng.random(len(w.A.data)))


@write
def fill(w: World, rng: np.random.Generator) -> None:
    w.A.data.fill(rng.random())


@write
def sort_values(w: World, rng: np.random.Generator) -> None:
    w.A.data.sort()


@write
def shuffle(w: World, rng: np.random.Generator) -> None:
    rng.shuffle(w.A.data)


@write
def bits_of_another_dtype(w: World, rng: np.random.Generator) -> None:
    w.A.data.view(np.int64)[_spot(w.A.data, rng)] ^= 1 << 50


@write
def rebind_values(w: World, rng: np.random.Generator) -> None:
    w.A.data = rng.random(len(w.A.data))


@write
def rebind_a_view(w: World, rng: np.random.Generator) -> None:
    values = rng.random(2 * len(w.A.data))
    w.kept["rebound"] = values
    w.A.data = values[: len(w.A.data)]


@write
def write_rebound(w: World, rng: np.random.Generator) -> None:
    if "rebound" in w.kept:
        w.kept["rebound"][:3] = rng.random()


@write
def imul(w: World, rng: np.random.Generator) -> None:
    w.A *= 1 + rng.random()


@write
def itruediv(w: World, rng: np.random.Generator) -> None:
    w.A /= 1 + rng.random()


@write
def through_dict(w: World, rng: np.random.Generator) -> None:
    w.A.__dict__["data"][_spot(w.A.data, rng)] = rng.random()


@write
def from_a_thread(w: World, rng: np.random.Generator) -> None:
    value = rng.random()

    def run() -> None:
        w.A.data[0] = value

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


# -- values, through something kept from before


@write
def keep_alias(w: World, rng: np.random.Generator) -> None:
    w.kept["alias"] = w.A.data


@write
def write_alias(w: World, rng: np.random.Generator) -> None:
    if "alias" in w.kept:
        w.kept["alias"][_spot(w.kept["alias"], rng)] = rng.random()


@write
def drop_alias_after_writing(w: World, rng: np.random.Generator) -> None:
    alias = w.kept.pop("alias", None)
    if alias is not None:
        alias[_spot(alias, rng)] = rng.random()


@write
def keep_view(w: World, rng: np.random.Generator) -> None:
    w.kept["view"] = w.A.data[1::2]


@write
def write_view(w: World, rng: np.random.Generator) -> None:
    if "view" in w.kept:
        w.kept["view"][:] = rng.random()


@write
def drop_view_after_writing(w: World, rng: np.random.Generator) -> None:
    view = w.kept.pop("view", None)
    if view is not None:
        view[:1] = rng.random()


@write
def keep_memoryview(w: World, rng: np.random.Generator) -> None:
    w.kept["memoryview"] = memoryview(w.A.data)


@write
def write_memoryview(w: World, rng: np.random.Generator) -> None:
    if "memoryview" in w.kept:
        w.kept["memoryview"][_spot(w.kept["memoryview"], rng)] = rng.random()


@write
def keep_frombuffer(w: World, rng: np.random.Generator) -> None:
    w.kept["frombuffer"] = np.frombuffer(w.A.data)


@write
def write_frombuffer(w: World, rng: np.random.Generator) -> None:
    if "frombuffer" in w.kept:
        w.kept["frombuffer"][-1] = rng.random()


@write
def keep_ctypes(w: World, rng: np.random.Generator) -> None:
    w.kept["ctypes"] = w.A.data.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@write
def write_ctypes(w: World, rng: np.random.Generator) -> None:
    if "ctypes" in w.kept:
        w.kept["ctypes"][0] = rng.random()


@write
def keep_ctypes_array(w: World, rng: np.random.Generator) -> None:
    w.kept["ctypes_array"] = np.ctypeslib.as_ctypes(w.A.data)


@write
def write_ctypes_array(w: World, rng: np.random.Generator) -> None:
    if "ctypes_array" in w.kept:
        w.kept["ctypes_array"][1] = rng.random()


@write
def keep_dlpack(w: World, rng: np.random.Generator) -> None:
    w.kept["dlpack"] = np.from_dlpack(w.A.data)


@write
def write_dlpack(w: World, rng: np.random.Generator) -> None:
    if "dlpack" in w.kept and w.kept["dlpack"].flags.writeable:
        w.kept["dlpack"][0] = rng.random()


@write
def keep_weak_reference(w: World, rng: np.random.Generator) -> None:
    array = w.A.data  # its owner, because prune() may drop a view of it
    w.kept["weak"] = weakref.ref(array.base if isinstance(array.base, np.ndarray) else array)


@write
def write_weak_reference(w: World, rng: np.random.Generator) -> None:
    array = w.kept["weak"]() if "weak" in w.kept else None
    if array is not None:
        array[0] = rng.random()


@write
def keep_in_a_cycle(w: World, rng: np.random.Generator) -> None:
    cycle: list[Any] = [w.A.data]
    cycle.append(cycle)


@write
def write_and_collect(w: World, rng: np.random.Generator) -> None:
    w.A.data[0] = rng.random()
    gc.collect(0)


@write
def keep_generator(w: World, rng: np.random.Generator) -> None:
    def writer(array: Any) -> Any:
        while True:
            array[0] = yield

    w.kept["generator"] = writer(w.A.data)
    next(w.kept["generator"])


@write
def write_generator(w: World, rng: np.random.Generator) -> None:
    if "generator" in w.kept:
        w.kept["generator"].send(rng.random())


@write
def write_origin(w: World, rng: np.random.Generator) -> None:
    if "origin" in w.kept:
        w.kept["origin"][_spot(w.kept["origin"], rng)] = rng.random()


@write
def drop_origin_after_writing(w: World, rng: np.random.Generator) -> None:
    origin = w.kept.pop("origin", None)
    if origin is not None:
        origin[0] = rng.random()


@write
def rebind_foreign_memory(w: World, rng: np.random.Generator) -> None:
    w.kept["bytes"] = bytearray(rng.random(len(w.A.data)).tobytes())
    w.A.data = np.frombuffer(w.kept["bytes"])


@write
def write_foreign_memory(w: World, rng: np.random.Generator) -> None:
    if "bytes" in w.kept:
        w.kept["bytes"][:8] = np.float64(rng.random()).tobytes()


# -- values, through other sparse objects


@write
def transpose_data(w: World, rng: np.random.Generator) -> None:
    w.A.T.data[_spot(w.A.data, rng)] = rng.random()


@write
def keep_transpose(w: World, rng: np.random.Generator) -> None:
    w.kept["transpose"] = w.A.T


@write
def write_transpose(w: World, rng: np.random.Generator) -> None:
    if "transpose" in w.kept:
        w.kept["transpose"].data[0] = rng.random()


@write
def rebind_transpose(w: World, rng: np.random.Generator) -> None:
    if "transpose" in w.kept:
        w.kept["transpose"].data = rng.random(len(w.kept["transpose"].data))


@write
def scale_transpose(w: World, rng: np.random.Generator) -> None:
    if "transpose" in w.kept:
        w.kept["transpose"] *= 1 + rng.random()


@write
def keep_sibling(w: World, rng: np.random.Generator) -> None:
    w.kept["sibling"] = type(w.A)(w.A)


@write
def write_sibling(w: World, rng: np.random.Generator) -> None:
    if "sibling" in w.kept:
        w.kept["sibling"].data[:2] = rng.random()


@write
def write_copy(w: World, rng: np.random.Generator) -> None:
    w.A.copy().data[:] = rng.random()


@write
def become_a_slice(w: World, rng: np.random.Generator) -> None:
    w.kept["whole"] = w.A
    w.A = w.A[:, :] if rng.random() < 0.5 else w.A.T.T


@write
def write_whole(w: World, rng: np.random.Generator) -> None:
    if "whole" in w.kept:
        w.kept["whole"].data[-1:] = rng.random()


# -- structure


@write
def set_item(w: World, rng: np.random.Generator) -> None:
    i, j = rng.integers(w.A.shape[0]), rng.integers(w.A.shape[1])
    w.A[int(i), int(j)] = rng.random()


@write
def set_diagonal(w: World, rng: np.random.Generator) -> None:
    w.A.setdiag(rng.random())


@write
def index_in_place(w: World, rng: np.random.Generator) -> None:
    w.A.indices[_spot(w.A.indices, rng)] = rng.integers(w.n_minor)
    w.A.has_sorted_indices = False


@write
def keep_indices(w: World, rng: np.random.Generator) -> None:
    w.kept["indices"] = w.A.indices


@write
def write_indices(w: World, rng: np.random.Generator) -> None:
    if "indices" in w.kept:
        w.kept["indices"][0] = rng.integers(min(N_ROWS, N_COLUMNS))
        w.A.has_sorted_indices = False


@write
def write_origin_indices(w: World, rng: np.random.Generator) -> None:
    if "origin_indices" in w.kept:
        w.kept["origin_indices"][-1] = rng.integers(min(N_ROWS, N_COLUMNS))
        w.A.has_sorted_indices = False


@write
def rebind_indices(w: World, rng: np.random.Generator) -> None:
    w.A.indices = rng.integers(w.n_minor, size=len(w.A.indices)).astype(w.A.indices.dtype)
    w.A.has_sorted_indices = False


@write
def widen_indices(w: World, rng: np.random.Generator) -> None:
    w.A.indices, w.A.indptr = w.A.indices.astype(np.int64), w.A.indptr.astype(np.int64)


@write
def pointer_in_place(w: World, rng: np.random.Generator) -> None:
    row = int(rng.integers(1, len(w.A.indptr) - 1))
    w.A.indptr[row] = w.A.indptr[row - 1]


@write
def keep_pointers(w: World, rng: np.random.Generator) -> None:
    w.kept["indptr"] = w.A.indptr[1:]


@write
def write_pointers(w: World, rng: np.random.Generator) -> None:
    if "indptr" in w.kept:
        w.kept["indptr"][0] = 0


@write
def rebind_pointers(w: World, rng: np.random.Generator) -> None:
    n_stored = int(w.A.indptr[-1])
    inner = np.sort(rng.integers(n_stored + 1, size=len(w.A.indptr) - 2))
    w.A.indptr = np.concatenate([[0], inner, [n_stored]]).astype(w.A.indptr.dtype)
    w.A.has_sorted_indices = False


@write
def sum_duplicates(w: World, rng: np.random.Generator) -> None:
    w.A.has_canonical_format = False
    w.A.has_sorted_indices = False
    w.A.sum_duplicates()


@write
def sort_indices(w: World, rng: np.random.Generator) -> None:
    w.A.has_sorted_indices = False
    w.A.sort_indices()


@write
def eliminate_zeros(w: World, rng: np.random.Generator) -> None:
    w.A.data[::4] = 0
    w.A.eliminate_zeros()


@write
def prune(w: World, rng: np.random.Generator) -> None:
    w.A.prune()


@write
def resize_and_back(w: World, rng: np.random.Generator) -> None:
    shape = w.A.shape
    w.A.resize(shape[0] - 1, shape[1] - 1)
    w.A.resize(*shape)


@write
def state_swap(w: World, rng: np.random.Generator) -> None:
    twin = w.A.copy()
    twin.data[0] = rng.random()
    w.A.__dict__ = dict(twin.__dict__)


# -- nothing is written, but arrays are handed out


@write
def look(w: World, rng: np.random.Generator) -> None:
    w.A.data.sum()
    w.A.sum(axis=0)


@write
def look_at_structure(w: World, rng: np.random.Generator) -> None:
    _ = w.A.nnz, w.A.indices[0], w.A.has_sorted_indices


@write
def forget_everything(w: World, rng: np.random.Generator) -> None:
    w.kept.clear()

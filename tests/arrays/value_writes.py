"""Writes to values: through the attribute, through references kept from before, through other sparse objects."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from typing import Any

import numpy as np

from tests.arrays.samples import World, spot, write

# -- through the attribute


@write
def one_element(w: World, rng: np.random.Generator) -> None:
    w.A.data[spot(w.A.data, rng)] = rng.random()


@write
def a_slice(w: World, rng: np.random.Generator) -> None:
    w.A.data[spot(w.A.data, rng) :] = rng.random()


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
    w.A.data.view(np.int64)[spot(w.A.data, rng)] ^= 1 << 50


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
    w.A.__dict__["data"][spot(w.A.data, rng)] = rng.random()


@write
def from_a_thread(w: World, rng: np.random.Generator) -> None:
    value = rng.random()

    def run() -> None:
        w.A.data[0] = value

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


# -- through references kept from before


@write
def keep_alias(w: World, rng: np.random.Generator) -> None:
    w.kept["alias"] = w.A.data


@write
def write_alias(w: World, rng: np.random.Generator) -> None:
    if "alias" in w.kept:
        w.kept["alias"][spot(w.kept["alias"], rng)] = rng.random()


@write
def drop_alias_after_writing(w: World, rng: np.random.Generator) -> None:
    alias = w.kept.pop("alias", None)
    if alias is not None:
        alias[spot(alias, rng)] = rng.random()


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
        w.kept["memoryview"][spot(w.kept["memoryview"], rng)] = rng.random()


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
    array = w.A.data  # the owner of the memory, because prune() may drop a view of it
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
        w.kept["origin"][spot(w.kept["origin"], rng)] = rng.random()


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


# -- through other sparse objects


@write
def transpose_data(w: World, rng: np.random.Generator) -> None:
    w.A.T.data[spot(w.A.data, rng)] = rng.random()


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

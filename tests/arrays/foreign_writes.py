"""Writes to arrays that bypass the matrix: by threads that keep an array, and by torch through a shared tensor."""

from __future__ import annotations

import importlib.util
import queue
import threading
from typing import Any

import numpy as np

from tests.arrays.samples import World, write


class Writer:
    """Thread that keeps an array and writes to it on request, until the program ends."""

    def __init__(self, array: Any) -> None:
        self.orders: queue.Queue[tuple[int, float] | None] = queue.Queue()
        self.done: queue.Queue[None] = queue.Queue()
        threading.Thread(target=self._run, args=(array,), daemon=True).start()

    def _run(self, array: Any) -> None:
        while (order := self.orders.get()) is not None:
            at, value = order
            array[at] = value
            self.done.put(None)

    def write(self, at: int, value: float) -> None:
        self.orders.put((at, value))
        self.done.get()

    def __del__(self) -> None:
        self.orders.put(None)


@write
def keep_a_thread(w: World, rng: np.random.Generator) -> None:
    w.kept["writer"] = Writer(w.A.data) if w.A.data.size else None


@write
def write_by_a_thread(w: World, rng: np.random.Generator) -> None:
    writer, value = w.kept.get("writer"), rng.random()
    if writer is not None:
        writer.write(0, value)


if importlib.util.find_spec("torch") is not None:

    @write
    def keep_a_torch_alias(w: World, rng: np.random.Generator) -> None:
        import torch

        w.kept["tensor"] = torch.from_numpy(w.A.data) if w.A.data.flags.writeable else None

    @write
    def write_through_torch(w: World, rng: np.random.Generator) -> None:
        tensor, factor = w.kept.get("tensor"), 1 + rng.random()
        if tensor is not None:
            tensor.mul_(factor)

    @write
    def write_through_torch_at_once(w: World, rng: np.random.Generator) -> None:
        import torch

        torch.from_numpy(w.A.data).add_(rng.random())

    @write
    def keep_only_what_torch_made(w: World, rng: np.random.Generator) -> None:
        """Keep a view of a view of the tensor, but not the array object itself."""
        import torch

        w.kept["tensor"] = torch.from_numpy(w.A.data)[1:].view(-1).detach() if w.A.data.size > 1 else None

"""Operations of a processor that products on a GPU need: streams, capture and timing.

`CudaDevice` has them for tensors on "cuda", `HostDevice` for CPU tensors where Triton's interpreter runs the kernels:
the same path, without a GPU.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias

import torch

ROTATED_BYTES: Final = 2.0
"""Total size of the copies over which a measurement rotates, as a multiple of the L2 cache (above 1: cold reads)."""


class CudaDevice:
    """NVIDIA GPUs, through torch."""

    def name(self, tensor: torch.Tensor) -> str:
        """Return the driver's name for the device of `tensor`."""
        return torch.cuda.get_device_name(tensor.device)

    def at(self, tensor: torch.Tensor) -> AbstractContextManager[object]:
        """Return a context in which the tensor's device is current: Triton launches there, on its current stream."""
        here = tensor.device.index == torch.cuda.current_device()
        return nullcontext() if here else torch.cuda.device(tensor.device)

    def is_capturing(self) -> bool:
        """Return whether the current stream is being captured, so that measuring and synchronising are forbidden."""
        return torch.cuda.is_current_stream_capturing()

    def seconds(self, run: Callable[[int], object], *, rounds: int) -> float:
        """Return the mean seconds of ``run(number)`` over `rounds` calls, between two events on the current stream."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for number in range(1, rounds + 1):
            run(number)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3 / rounds


class HostDevice:
    """CPU as a device, for kernels in Triton's interpreter."""

    def name(self, tensor: torch.Tensor) -> str:
        """Return a fixed name."""
        return "Triton's interpreter"

    def at(self, tensor: torch.Tensor) -> AbstractContextManager[object]:
        """Return a context without effect."""
        return nullcontext()

    def is_capturing(self) -> bool:
        """Return whether launches are captured: always false."""
        return False

    def seconds(self, run: Callable[[int], object], *, rounds: int) -> float:
        """Return the seconds of one call ``run(1)``; the interpreter is slow, so that its times have no meaning."""
        start_s = time.perf_counter()
        run(1)
        return time.perf_counter() - start_s


Device: TypeAlias = CudaDevice | HostDevice
"""Processor that computes products."""
DEVICES: Final[dict[str, Device]] = {"cuda": CudaDevice()}
"""Implementation by type of torch device; other devices are not supported."""


def serving(tensor: torch.Tensor) -> Device | None:
    """Return the implementation for the device of `tensor`; None where it is not supported."""
    return DEVICES.get(tensor.device.type)

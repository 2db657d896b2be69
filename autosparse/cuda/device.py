"""Devices: the few questions that products ask of a GPU, behind an interface that other processors can answer.

Tensors on "cuda" are served by `CudaDevice`. `HostDevice` answers for tensors in the computer's memory where Triton's
interpreter runs the kernels: the same path, without a GPU.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import torch

ROTATED_BYTES: Final = 2.0
"""Times the second cache's bytes that the copies of an operand hold together, over which a measurement rotates."""


class Device(Protocol):
    """What is asked of a processor."""

    def name(self, tensor: torch.Tensor) -> str:
        """What the driver calls the device of `tensor`."""

    def at(self, tensor: torch.Tensor) -> AbstractContextManager[object]:
        """Launches inside go to the device of `tensor`, on the stream that is current there."""

    def is_capturing(self) -> bool:
        """Whether launches are being recorded in a graph: nothing may be measured, and nothing waited for."""

    def seconds(self, run: Callable[[int], object], *, rounds: int) -> float:
        """Time of one `run`, over `rounds` of them; `run` is told the number of its round, from 1 on."""


class CudaDevice:
    """NVIDIA GPUs, by torch."""

    def name(self, tensor: torch.Tensor) -> str:
        """See `Device`."""
        return torch.cuda.get_device_name(tensor.device)

    def at(self, tensor: torch.Tensor) -> AbstractContextManager[object]:
        """See `Device`: Triton launches on the current device, whatever tensors it is given."""
        here = tensor.device.index == torch.cuda.current_device()
        return nullcontext() if here else torch.cuda.device(tensor.device)

    def is_capturing(self) -> bool:
        """See `Device`."""
        return torch.cuda.is_current_stream_capturing()

    def seconds(self, run: Callable[[int], object], *, rounds: int) -> float:
        """Between two events on the current stream."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for number in range(1, rounds + 1):
            run(number)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3 / rounds


class HostDevice:
    """The computer itself, for kernels in Triton's interpreter."""

    def name(self, tensor: torch.Tensor) -> str:
        """See `Device`."""
        return "Triton's interpreter"

    def at(self, tensor: torch.Tensor) -> AbstractContextManager[object]:
        """See `Device`."""
        return nullcontext()

    def is_capturing(self) -> bool:
        """See `Device`."""
        return False

    def seconds(self, run: Callable[[int], object], *, rounds: int) -> float:
        """By the clock, and once: an interpreter is slow, and its times decide nothing."""
        start_s = time.perf_counter()
        run(1)
        return time.perf_counter() - start_s


DEVICES: Final[dict[str, Device]] = {"cuda": CudaDevice()}
"""Type of a torch device -> who answers for it; what is not here is not served."""


def serving(tensor: torch.Tensor) -> Device | None:
    """Who answers for the device of `tensor`; None: not served."""
    return DEVICES.get(tensor.device.type)

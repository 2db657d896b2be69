"""Roofline estimate of a compiled kernel, from the instructions and bytes of its own main loop.

It is independent of the analytic model: instructions come from PTX, iterations from the packed operand. A test
compares the two estimates.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import torch
from autosparse._native.triton.packing import Packed
from autosparse._native.triton.spec import part_arrays

from autosparse.gpu.schedule import DOT_LAYOUTS
from autosparse.gpu.target import DeviceTarget
from tests.triton.resources import WARP, counts_of, instructions

ISSUERS: Final = 4
"""Warp instructions that one multiprocessor issues per clock."""
SECTOR_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One iteration of the main loop of one thread: bytes of its loads, multiply-adds, and instructions.

    `dot_flops` are those of one warp: Tensor Cores are used by warps, not by threads.
    """

    load_bytes: int
    fmas: int
    dot_flops: int
    instructions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Seconds for each limit of the roofline; the estimate is the largest."""

    memory_s: float
    l2_s: float
    compute_s: float
    issue_s: float

    @property
    def seconds(self) -> float:
        """Largest of the limits."""
        return max(self.memory_s, self.l2_s, self.compute_s, self.issue_s)


def main_loop(ptx: str) -> Loop:
    """Return the innermost loop with most multiplications, or the whole kernel where the compiler has unrolled it."""
    bodies = _innermost(ptx) or [ptx]
    return max((_loop(body) for body in bodies), key=lambda loop: (loop.dot_flops, loop.fmas, loop.load_bytes))


def _innermost(ptx: str) -> list[str]:
    """Return the bodies of innermost loops: from a label to the branch back to it."""
    lines = ptx.split("\n")
    labels = {line.split(":")[0].strip(): at for at, line in enumerate(lines) if re.match(r"\$L\w+:", line.strip())}
    spans = []
    for at, line in enumerate(lines):
        match = re.search(r"bra(?:\.uni)?\s+(\$L\w+);", line)
        if match and labels.get(match[1], at) < at:
            spans.append((labels[match[1]], at))
    inner = [span for span in spans if not any(span[0] <= o[0] and o[1] <= span[1] and o != span for o in spans)]
    return ["\n".join(lines[start : end + 1]) for start, end in inner]


def _loop(body: str) -> Loop:
    lines = instructions(body)
    loads = [size for line in lines if (size := _bytes_of(line))]
    widest = max(loads, default=0)
    return Loop(
        load_bytes=sum(size for size in loads if size == widest),
        fmas=counts_of(body)["fma"],
        dot_flops=sum(map(_flops_of, lines)),
        instructions=len(lines),
    )


def _bytes_of(line: str) -> int:
    """Return the bytes that one thread loads from global memory by this instruction."""
    if match := re.match(r"ld\.global\S*?(?:\.v(\d))?\.[bfsu](\d+)\s", line):
        return int(match[1] or 1) * int(match[2]) // 8
    match = re.match(r"cp\.async\S*\.shared\.global\S*\s+\[[^\]]*\],\s*\[[^\]]*\],\s*(0x\w+|\d+)", line)
    return int(match[1], 0) if match else 0


def _flops_of(line: str) -> int:
    """Return the operations of one warp in Tensor Cores by this instruction."""
    match = re.match(r"(wgmma\.mma_async|mma)\.\S*?m(\d+)n(\d+)k(\d+)", line)
    if match is None:
        return 0
    flops = 2 * int(match[2]) * int(match[3]) * int(match[4])
    return flops // 4 if match[1].startswith("wgmma") else flops  # four warps share it


def iterations(packed: Packed, *, n_dense_cols: int) -> int:
    """Return the iterations of the main loop over all programs, for schedules of one part beside `fill`."""
    schedule = packed.spec.schedule
    part = schedule.parts[0]
    names = part_arrays(packed.spec, 0)
    shared = len(packed.arrays) - sum(len(part_arrays(packed.spec, n)) for n in range(len(schedule.parts)))
    arrays = dict(zip(names, packed.arrays[shared:], strict=False))
    n_tiles = -(-n_dense_cols // schedule.tile) if schedule.tile else 1
    if part.layout == "entries":
        return arrays["rows"].shape[0] // part.rows * n_tiles
    if part.layout in DOT_LAYOUTS:
        groups = int(arrays["groups"][-1])
        return groups * n_tiles
    if part.layout == "fibers":
        lengths = packed.arrays[0].diff()
        return int(_steps(lengths, part.step).sum()) * n_tiles
    lengths = (arrays["ends"] - arrays["starts"]).reshape(-1, part.rows).amax(1)
    return int(_steps(lengths, part.step).sum()) * n_tiles


def _steps(lengths: torch.Tensor, step: int) -> torch.Tensor:
    return (lengths + step - 1) // step


def estimate(loop: Loop, packed: Packed, *, n_dense_cols: int, item_bytes: int, target: DeviceTarget) -> Roofline:
    """Estimate one product: every iteration's loads and instructions, every operand's bytes once."""
    schedule = packed.spec.schedule
    n, warps = iterations(packed, n_dense_cols=n_dense_cols), schedule.warps
    threads = n * warps * WARP
    dense = (packed.n_rows + packed.n_cols) * n_dense_cols * item_bytes
    # A number gathered by one thread loads a whole sector.
    load_bytes = SECTOR_BYTES * loop.fmas if schedule.is_vector else loop.load_bytes
    flops_s = 2.0 * threads * loop.fmas / target.core_flops(packed.spec.dtype)
    if loop.dot_flops:
        flops_s = n * warps * loop.dot_flops / target.dot_flops(packed.spec.dtype, schedule.precision)
    return Roofline(
        memory_s=(packed.nnz * item_bytes + packed.n_bytes + dense) / target.memory_bytes_s,
        l2_s=threads * load_bytes / target.l2_bytes_s,
        compute_s=flops_s,
        issue_s=n * warps * loop.instructions / (target.n_sms * ISSUERS * target.clock_hz),
    )

"""Resources of a compiled kernel: registers, spills, shared memory, and its instructions by kind."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autosparse import config
from autosparse.errors import BuildError

WARP: Final = 32
KINDS: Final = {
    "mma": r"^(mma|wgmma\.mma_async)\.",
    "wgmma": r"^wgmma\.mma_async\.",
    "load_v4": r"^ld\.global\S*\.v4\.",
    "load": r"^ld\.global",
    "copy": r"^cp\.async(\.\w+)*\.shared\.global",
    "store": r"^st\.global",
    "atomic": r"^(atom|red)\.",
    "fma": r"^fma\.",
    "shared": r"^(ld|st)\.shared|^ldmatrix",
    "barrier": r"^bar\.|^barrier",
}
"""Beginning of the PTX, without predicates, of each kind of instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources of one kernel: registers and spilled bytes per thread, shared memory and threads per block."""

    registers: int
    spilled_bytes: int
    shared_bytes: int
    threads: int
    counts: dict[str, int]  # PTX instructions by kind of KINDS
    widest_load_bytes: int  # of one load from global memory

    def blocks_per_sm(self, *, registers: int, shared_bytes: int, threads: int, blocks: int) -> int:
        """Return the number of blocks that one multiprocessor with these resources holds at once."""
        warps = -(-self.threads // WARP)
        per_warp = -(-self.registers * WARP // 256) * 256  # registers are allocated 256 at a time
        by_registers = registers // (per_warp * warps) if per_warp else blocks
        reserved = self.shared_bytes + 1024  # one KiB of each block is reserved for the system
        return min(by_registers, shared_bytes // reserved, threads // self.threads, blocks)


def resources_of(cubin: bytes, ptx: str, *, shared_bytes: int, warps: int) -> Resources:
    """Read registers and spills from the cubin, instructions from PTX."""
    registers, local = _usage(cubin)
    return Resources(
        registers=registers,
        spilled_bytes=local,
        shared_bytes=shared_bytes,
        threads=warps * WARP,
        counts=counts_of(ptx),
        widest_load_bytes=widest_load(ptx),
    )


def instructions(ptx: str) -> list[str]:
    """Return the instructions of PTX text, without predicates."""
    lines = (re.sub(r"^\s*(@!?%\w+\s+)?", "", line) for line in ptx.split("\n"))
    return [line for line in lines if re.match(r"[a-z]+[\w.:]*\s+[^:]", line) and not line.startswith(".")]


def counts_of(ptx: str) -> dict[str, int]:
    """Return the number of instructions of each kind of KINDS."""
    found: Counter[str] = Counter()
    for line in instructions(ptx):
        found.update(kind for kind, pattern in KINDS.items() if re.match(pattern, line))
    return {kind: found[kind] for kind in KINDS}


def widest_load(ptx: str) -> int:
    """Return the bytes per thread of the widest load (or asynchronous copy) from global memory."""
    widest = 0
    for line in instructions(ptx):
        if match := re.match(r"ld\.global\S*?(?:\.v(\d))?\.[bfsu](\d+)\s", line):
            widest = max(widest, int(match[1] or 1) * int(match[2]) // 8)
        elif match := re.match(r"cp\.async\S*\.shared\.global\S*\s+\[[^\]]*\],\s*\[[^\]]*\],\s*(0x\w+|\d+)", line):
            widest = max(widest, int(match[1], 0))
    return widest


def _usage(cubin: bytes) -> tuple[int, int]:
    """Return (registers per thread, bytes of local memory per thread), as Triton's own tool reads them."""
    text = _inspect("cuobjdump", "--dump-resource-usage", cubin)
    match = re.search(r"REG:(\d+)\s+STACK:(\d+)\s+SHARED:\d+\s+LOCAL:(\d+)", text)
    if match is None:
        raise BuildError(f"the cubin does not tell its resources: {text[:200]!r}")
    return int(match[1]), int(match[2]) + int(match[3])


def _inspect(tool: str, option: str, cubin: bytes) -> str:
    from triton import knobs

    program = Path(getattr(knobs.nvidia, tool).path)
    with tempfile.TemporaryDirectory(prefix="autosparse-cubin-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command, environment = [str(program), option, str(path)], config.child_environment()
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=environment)
        except (OSError, subprocess.SubprocessError) as err:
            raise BuildError(f"{tool} cannot read a cubin: {err}") from err
    return done.stdout

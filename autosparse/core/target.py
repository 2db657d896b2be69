"""Target: the machine that kernels are compiled for and measured on."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from autosparse.core.values import dataclass
from autosparse.isa import ISAS, best_isa, isas_of

VECTOR_BYTES: Final = {row.name: row.vector_bytes for row in isas_of()}
"""Width of one vector register in bytes, by instruction set of this processor family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Cores, instruction set and caches (bytes) of one machine, on which the speed of a plan depends."""

    cpu: str  # model name as the system reports it
    machine: str  # `platform.machine()`: the processor family
    isa: str  # highest usable instruction set, a key of ISAS
    n_cores: int  # usable by this process (affinity, cgroup)
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    @property
    def vector_bytes(self) -> int:
        """Width of one vector register in bytes."""
        return ISAS[self.isa].vector_bytes

    @property
    def fills_last_cache_late(self) -> bool:
        """Return whether the last-level cache is filled by evictions from the cores' own caches (AMD)."""
        return "AMD" in self.cpu

    @property
    def processor(self) -> str:
        """Kind of processor, as `processor_of` names it."""
        return processor_of(asdict(self))

    @functools.cache  # noqa: B019  # there are one or two targets in a process
    def key(self) -> str:
        """Return a stable identity; plans measured on one target are not used on another."""
        facts = {name: getattr(self, name) for name in self.__slots__}  # `asdict` takes 0.3 ms in a new process
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def held_to(self, isa: str | None) -> Target:
        """Return this machine restricted to instruction sets up to `isa`.

        None, or a set of another processor family, is no restriction.
        """
        if isa is None or not ISAS[isa].exists_on(self.machine) or ISAS[isa].level >= ISAS[self.isa].level:
            return self
        return dataclasses.replace(self, isa=isa)

    @classmethod
    @functools.lru_cache(maxsize=1)
    def host(cls) -> Target:
        """Return the machine that this process runs on (detected once per process)."""
        info, caches = _cpu_info(), _data_caches()
        return cls(
            # platform.processor() starts a process: call it only where /proc has no model name.
            cpu=info.get("model name") or platform.processor() or platform.machine() or "unknown",
            machine=platform.machine(),
            isa=_isa_of_runtime() or best_isa(info.get("flags", "").split()).name,
            n_cores=_usable_cores(),
            l1_bytes=caches.get("1", 32 << 10),
            l2_bytes=caches.get("2", 1 << 20),
            l3_bytes=caches.get("3", 8 << 20),
        )


def processor_of(facts: Mapping[str, Any]) -> str:
    """Return the kind of processor from a target's fields: maker and a core's caches, which VMs report, too."""
    cpu = str(facts.get("cpu", ""))
    maker = next((one for one in ("AMD", "Intel") if one in cpu), cpu)
    return f"{maker}, {int(facts.get('l1_bytes', 0)) >> 10} KiB, {int(facts.get('l2_bytes', 0)) >> 10} KiB"


def _cpu_info() -> dict[str, str]:
    """Return the first processor's fields of /proc/cpuinfo; empty where the file is missing.

    The system composes the text while it is read, so the other processors are left out.
    """
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            first = list(itertools.takewhile(str.strip, lines))
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in first if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _isa_of_runtime() -> str | None:
    """Return the instruction set that the C runtime found by CPUID; None where there is no runtime.

    CPUID reports what the process may use. /proc/cpuinfo describes the underlying machine, which may differ from an
    emulator or from a virtual machine that masks instructions.
    """
    from autosparse._native import runtime_api

    return runtime_api.best_isa() if runtime_api.available else None


def _usable_cores() -> int:
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # not available on macOS and Windows
        return os.cpu_count() or 1


def _data_caches() -> dict[str, int]:
    """Return the bytes of the data caches that Linux reports, by level; empty on other systems."""
    found: dict[str, int] = {}
    try:  # neither `glob` nor `re`, whose patterns take 1 ms of a process
        folders = sorted(one for one in Path("/sys/devices/system/cpu/cpu0/cache").iterdir() if "index" in one.name)
    except OSError:
        return found
    units = {"K": 1 << 10, "M": 1 << 20}
    for folder in folders:
        try:
            level, kind, size = ((folder / name).read_text("ascii").strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        number = size[:-1] if size[-1:] in units else size
        if number.isdecimal() and kind in ("Data", "Unified"):
            found.setdefault(level, int(number) * units.get(size[-1:], 1))
    return found

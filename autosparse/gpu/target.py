"""Description of a kind of GPU, read from the data files beside this module."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from autosparse.scalar import HALF, SCALARS

TARGETS: Final = Path(__file__).parent / "targets"
"""Folder of the data files, one for each target."""
GENERIC: Final = "generic"
"""Name of the target for devices that no file describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTarget:
    """Parameters of one kind of GPU. Rates are the vendor's peaks: bytes and floating-point operations per second."""

    name: str
    matches: tuple[str, ...]  # prefixes of the names that the driver reports
    capability: int  # 80: compute capability 8.0
    n_sms: int
    clock_hz: float
    l2_bytes: int
    memory_bytes_s: float
    l2_bytes_s: float
    shared_bytes: int  # per multiprocessor, for blocks
    registers: int  # per multiprocessor
    threads: int  # maximum resident on one multiprocessor
    blocks: int  # maximum resident on one multiprocessor
    flops: Mapping[str, float]  # "float32", "float64": of the cores; "dot_float16", "dot_tf32", ...: of Tensor Cores
    launch_s: float
    latency_s: float  # of a load that misses every cache

    def dot_flops(self, dtype: str, precision: str) -> float:
        """Return the rate of ``tl.dot`` on `dtype`: of Tensor Cores where they are used, else of the cores."""
        kind = f"dot_{dtype}" if dtype in HALF else ""
        if SCALARS[dtype].has_tf32 and precision == "tf32":
            kind = "dot_tf32"
        return self.flops.get(kind, 0.0) or self.core_flops(dtype)

    def core_flops(self, dtype: str) -> float:
        """Return the rate of multiply-adds outside Tensor Cores; half precision is computed in float32."""
        return self.flops[SCALARS[dtype].compute]

    def key(self) -> str:
        """Return a hash of all parameters for cache keys: plans of one kind of device are not used on another."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@functools.cache
def targets() -> Mapping[str, DeviceTarget]:
    """Return all targets by name."""
    found = (_read(path) for path in sorted(TARGETS.glob("*.json")))
    return {target.name: target for target in found}


def target_of(device_name: str) -> DeviceTarget:
    """Return the target with the longest `matches` prefix of the driver's `device_name`, else the generic one."""
    hits = [
        (len(start), target.name)
        for target in targets().values()
        for start in target.matches
        if device_name.startswith(start)
    ]
    return targets()[max(hits)[1]] if hits else targets()[GENERIC]


def _read(path: Path) -> DeviceTarget:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))  # Any: JSON
    del values["source"]
    return DeviceTarget(**values | {"matches": tuple(values["matches"])})

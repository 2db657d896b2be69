"""Options in the environment and accounts of earlier processes, for code that runs before the library is loaded.

`autosparse.config` remains the only module that interprets settings.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Final

import numpy as np

PREFIX: Final = "AUTOSPARSE_"
NO_SETTINGS: Final = frozenset(
    {"MATRICES", "WACO", "SANITIZE", "UPSTREAM_OUT", "UPSTREAM_MODE", "BENCH_STARTED", "STRICT"}
)
"""Variables, without the prefix, that tests, builds and benchmarks read."""
_NO_DIFFERENCE: Final = (NO_SETTINGS - {"SANITIZE"}) | {"CACHE_DIR"}
"""Variables, without the prefix, that change neither results nor matrices."""
ACCOUNTS_FILE: Final = ("cache-v1", "accounts")
"""File of accounts below the cache folder: `trust.LAYOUT` and `accounts.rows.ACCOUNTS`, which are not loaded yet."""
MAX_BYTES: Final = 1 << 20
"""Number of bytes of that file which are read: four times the size at which it is folded. Smaller caches have none."""
_WIDE: Final = "q"
"""Type code of a coordinate in a sample."""


def by_environment() -> bool:
    """Return whether the environment has a variable that sets options, or a name that may be meant as one."""
    return any(name.startswith(PREFIX) and name[len(PREFIX) :] not in _NO_DIFFERENCE for name in os.environ)


def xdg_cache_home() -> str:
    """Return the folder of caches by the XDG specification; relative where the user has no home folder."""
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    return named if os.path.isabs(named) else os.path.expanduser("~/.cache")  # noqa: PTH111, PTH117  # as platformdirs


def accounts_content(folder: str | os.PathLike[str] = "") -> bytes:
    """Return the file of accounts in a cache folder ("": that of the environment); nothing where there is none."""
    folder = folder or os.environ.get("AUTOSPARSE_CACHE_DIR") or os.path.join(xdg_cache_home(), "autosparse")  # noqa: PTH118
    try:
        with open(os.path.join(os.path.expanduser(folder), *ACCOUNTS_FILE), "rb") as file:  # noqa: PTH111, PTH118
            return file.read(MAX_BYTES)
    except OSError:
        return b""


def likely_threads() -> int:
    """Return the number of threads that products are likely to use: OpenMP's setting, or the CPUs of this process."""
    named = os.environ.get("OMP_NUM_THREADS", "")
    if named.isdecimal() and int(named):
        return int(named)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def structure_sample(operand: Any) -> bytes:  # Any: an operand, of a higher layer, or the rows of a light matrix
    """Return the shape and samples of the structure as bytes, which distinguish most patterns in microseconds."""
    nnz = operand.nnz
    picks = np.linspace(0, max(nnz - 1, 0), 64).astype(_WIDE)
    starts = np.linspace(0, operand.n_major, 17).astype(_WIDE)
    facts: bytes = np.array([operand.n_major, operand.n_minor, nnz], dtype=_WIDE).tobytes()
    facts += operand.indptr[starts].astype(_WIDE).tobytes()
    columns: bytes = operand.indices[picks].astype(_WIDE).tobytes() if nnz else b""
    return facts + columns


def account_key(sample: bytes, *facts: object) -> bytes:
    """Return the key of a problem in the file of accounts, from a sample of the structure and other facts."""
    digest = hashlib.blake2b(sample, digest_size=16)
    digest.update(repr(facts).encode())
    return digest.digest()

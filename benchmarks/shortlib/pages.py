"""Pages of a forked child: it copies those that it shares with its parent before its program is timed."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import Final

import numpy as np

_POPULATE_WRITE: Final = 23  # MADV_POPULATE_WRITE, from Linux 5.14 on
_PAGE_BYTES: Final = 4096
_ENTRY_BYTES: Final = 8  # of a page in /proc/self/pagemap; the sign bit says that the page is in memory


def copy_shared_pages() -> None:
    """Copy all pages in memory that a write of this process would copy; do nothing on systems other than Linux.

    A process that was started as users start it writes to pages of its own. A child pays for its first write to each
    page of its parent, 1 to 10 µs. An import writes to hundreds of them: `import autosparse` and `asp.csr` took 11 ms
    in a child instead of 3.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    for begin, end in _written_ranges():
        madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _POPULATE_WRITE)


def _written_ranges() -> Iterator[tuple[int, int]]:
    """Yield the first and the end address of each run of pages in memory that are private and may be written."""
    with open("/proc/self/maps", encoding="utf-8") as maps, open("/proc/self/pagemap", "rb", buffering=0) as pages:
        for line in maps.read().splitlines():
            addresses, rights, *_ = line.split()
            if rights != "rw-p":
                continue
            begin, end = (int(one, 16) for one in addresses.split("-"))
            pages.seek(begin // _PAGE_BYTES * _ENTRY_BYTES)
            entries = np.frombuffer(pages.read((end - begin) // _PAGE_BYTES * _ENTRY_BYTES), np.int64)
            edges = np.flatnonzero(np.diff(entries < 0, prepend=False, append=False))
            yield from ((begin + int(a) * _PAGE_BYTES, begin + int(b) * _PAGE_BYTES) for a, b in edges.reshape(-1, 2))

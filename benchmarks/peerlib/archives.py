"""Raw measurements in compressed archives: `benchmarks/data/KIND.tar.xz`, described by `benchmarks/data/MANIFEST.json`.

`read_bytes` reads one file, `extracted` unpacks a whole archive below `build/data`. Names of raw results are paths
relative to `benchmarks/results`, so `xeon480/totals.jsonl` is in the archive `programs`.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import lzma
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

BENCHMARKS: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = BENCHMARKS / "results"
DATA: Final = BENCHMARKS / "data"
MANIFEST: Final = DATA / "MANIFEST.json"
BUILD: Final = BENCHMARKS.parent / "build"
XZ: Final = ({"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20},)
"""Filter of archives of text."""
XZ_OF_ARRAYS: Final = ({**XZ[0], "lc": 2, "lp": 2, "pb": 2},)
"""Filter of archives of 4-byte numbers; 7 % smaller than `XZ` on training samples."""


def manifest() -> dict[str, dict[str, Any]]:
    """Return the facts of every archive: file, sha256, bytes, command, and the sha256 and size of each member."""
    found: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return found


def kind_of(path: Path) -> str | None:
    """Return the archive that holds the raw file `path` of `benchmarks/results`, or None."""
    try:
        name = path.resolve().relative_to(RESULTS).as_posix()
    except ValueError:
        return None
    return next((kind for kind, facts in _manifest_once().items() if name in facts["members"]), None)


@functools.cache
def _manifest_once() -> dict[str, dict[str, Any]]:
    return manifest() if MANIFEST.exists() else {}


def read_bytes(path: Path) -> bytes | None:
    """Return the content of `path`: of the file, else of the archive that holds it; None without either."""
    if path.exists():
        return path.read_bytes()
    kind = kind_of(path)
    return None if kind is None else members(kind)[path.resolve().relative_to(RESULTS).as_posix()]


@functools.lru_cache(maxsize=2)
def members(kind: str) -> Mapping[str, bytes]:
    """Unpack an archive into memory: the content of every member by name."""
    found = {}
    with tarfile.open(DATA / manifest()[kind]["file"], "r:xz") as archive:
        for one in archive:
            stream = archive.extractfile(one)
            assert stream is not None
            found[one.name] = stream.read()
    return found


def extract(kind: str, folder: Path) -> int:
    """Write the members of an archive into `folder`; return their number."""
    for name, content in members(kind).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{path.name}.{os.getpid()}")  # another process may read or extract the same
        staged.write_bytes(content)
        staged.replace(path)
    return len(members(kind))


def extracted(kind: str) -> Path:
    """Return a folder below `build/data` with the members of an archive; unpack it there first if it has changed."""
    folder, digest = BUILD / "data" / kind, manifest()[kind]["sha256"]
    stamp = folder / ".sha256"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != digest:
        extract(kind, folder)
        stamp.write_text(digest, encoding="utf-8")
    return folder


def verify(kind: str) -> list[str]:
    """Compare an archive and its members with the manifest; return what differs."""
    facts = manifest()[kind]
    content = (DATA / facts["file"]).read_bytes()
    wrong = [facts["file"]] if _digest(content) != facts["sha256"] or len(content) != facts["bytes"] else []
    found = {name: [_digest(one), len(one)] for name, one in members(kind).items()}
    listed = facts["members"]
    return wrong + [name for name in sorted({*found, *listed}) if found.get(name) != listed.get(name)]


def pack(kind: str, contents: Mapping[str, bytes], *, command: str, filters: Any = XZ) -> int:
    """Write an archive and its entry of the manifest; return its size. The same contents give the same bytes."""
    buffer = io.BytesIO()
    with lzma.open(buffer, "wb", filters=filters) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name in sorted(contents, key=lambda name: (Path(name).name, name)):  # similar files beside each other
            one = tarfile.TarInfo(name)
            one.size = len(contents[name])
            archive.addfile(one, io.BytesIO(contents[name]))
    content, file = buffer.getvalue(), f"{kind}.tar.xz"
    (DATA / file).write_bytes(content)
    listed = {name: [_digest(contents[name]), len(contents[name])] for name in sorted(contents)}
    facts = {"file": file, "sha256": _digest(content), "bytes": len(content), "command": command, "members": listed}
    every = {**(manifest() if MANIFEST.exists() else {}), kind: facts}
    text = json.dumps(dict(sorted(every.items())), indent=1)
    text = text.replace("[\n    ", "[").replace(",\n    ", ", ").replace("\n   ]", "]")  # one line per member
    MANIFEST.write_text(f"{text}\n", encoding="utf-8")
    _manifest_once.cache_clear()
    members.cache_clear()
    return len(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def output(name: str, *, record: bool) -> Path:
    """Return where a benchmark writes `name`: in `benchmarks/results` with `--record`, else in `build/benchmarks`."""
    return (RESULTS if record else BUILD / "benchmarks") / name

"""List, verify, extract and make the archives of raw measurements in benchmarks/data.

    python benchmarks/archives.py list                       # archives, sizes, and the command that made each
    python benchmarks/archives.py verify                     # compare every archive and member with MANIFEST.json
    python benchmarks/archives.py extract KIND FOLDER        # for example: extract training build/data/training
    python benchmarks/archives.py pack KIND FOLDER [--bits 9]  # make an archive of the files in FOLDER
    python benchmarks/archives.py add KIND FILE...           # put recorded files of benchmarks/results into an archive

`add` removes the files; their names in the archive are relative to `benchmarks/results`. Scripts that read a file of
`benchmarks/results` find it in its archive (`peerlib/archives.py`), so a report needs no extraction.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from peerlib import archives

ROUNDED: Final = ("seconds", "fastest_s", "pack_s", "default_fastest_s", "others_load")
"""Columns of training samples that `--bits` rounds. No training, model or benchmark reads them; ratios stay exact."""


def rounded(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Round to `bits` significant binary digits: a relative error of at most ``2**-bits``."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits).astype(np.float32)


def uncompressed(path: Path, bits: int | None) -> bytes:
    """Return an .npz file with its arrays uncompressed, which the archive compresses better than the file does."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if bits is not None:
        arrays |= {name: rounded(arrays[name], bits) for name in ROUNDED if name in arrays}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def pack(kind: str, folder: Path, bits: int | None) -> int:
    """Make the archive `kind` of every file below `folder`; return its size in bytes."""
    contents, has_arrays = {}, False
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            has_arrays |= path.suffix == ".npz"
            name = path.relative_to(folder).as_posix()
            contents[name] = uncompressed(path, bits) if path.suffix == ".npz" else path.read_bytes()
    command = f"python benchmarks/archives.py pack {kind} build/raw/{kind}" + (f" --bits {bits}" if bits else "")
    return archives.pack(kind, contents, command=command, filters=archives.XZ_OF_ARRAYS if has_arrays else archives.XZ)


def add(kind: str, files: list[Path]) -> int:
    """Move recorded files of `benchmarks/results` into an archive; return the size of the archive in bytes."""
    contents = dict(archives.members(kind))
    for path in files:
        contents[path.resolve().relative_to(archives.RESULTS).as_posix()] = path.read_bytes()
    size = archives.pack(kind, contents, command=archives.manifest()[kind]["command"])
    for path in files:
        path.unlink()
    return size


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("action", choices=("list", "verify", "extract", "pack", "add"))
    parser.add_argument("kind", nargs="?")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--bits", type=int, help="of pack: significant binary digits of columns that nothing reads")
    args = parser.parse_args()
    if args.action in ("list", "verify"):
        wrong = []
        for kind, facts in archives.manifest().items():
            print(f"{kind}: {facts['bytes']:,} bytes, {len(facts['members'])} files; {facts['command']}")
            wrong += archives.verify(kind) if args.action == "verify" else []
        print("\n".join(f"differs: {name}" for name in wrong))
        return int(bool(wrong))
    if args.kind is None or not args.paths:
        parser.error(f"{args.action} needs KIND and a path")
    if args.action == "extract":
        print(f"{archives.extract(args.kind, args.paths[0])} files in {args.paths[0]}")
    else:
        size = pack(args.kind, args.paths[0], args.bits) if args.action == "pack" else add(args.kind, args.paths)
        print(f"{size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Normalised text of files: without compression, archive or byte-order mark, with SciPy's form of the banner."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

_MARKS: Final = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte-order mark -> encoding that removes it."""
_BANNER: Final = b"%%matrixmarket"
_TAR_MAGIC: Final = slice(257, 262)


def _from_tar(archive: bytes, stem: str) -> bytes:
    """Return the matrix in a SuiteSparse archive: the one named like its folder or the archive, or the only one."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {one.name: one for one in tar.getmembers() if one.isfile() and one.name.lower().endswith(".mtx")}
        named = [name for name in files if PurePosixPath(name).stem in (stem, PurePosixPath(name).parent.name)]
        chosen = named if len(named) == 1 else list(files)
        if len(chosen) != 1:
            raise ValueError(f"the archive holds {len(files)} matrices ({', '.join(files) or 'no .mtx'}), not one")
        member = tar.extractfile(files[chosen[0]])
        assert member is not None  # it is a file
        return member.read()


DECOMPRESS: Final[Mapping[bytes, Callable[[bytes], bytes]]] = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress}
"""First bytes of a compressed file -> function that decompresses it."""


def is_compressed(content: bytes) -> bool:
    """Return whether a file with this content is compressed in a known way."""
    return content.startswith(tuple(DECOMPRESS))


def expanded(content: bytes, stem: str = "") -> bytes:
    """Return `content` decompressed; for an archive the matrix file that `_from_tar` finds in it by the name `stem`."""
    for magic, decompress in DECOMPRESS.items():
        if content.startswith(magic):
            content = decompress(content)
            break
    return _from_tar(content, stem) if content[_TAR_MAGIC] == b"ustar" else content


def is_plain(start: bytes) -> bool:
    """Return whether SciPy's reader accepts a text with this beginning unchanged."""
    return start == normal(start)


def normal(text: bytes) -> bytes:
    """Return `text` in UTF-8 without a byte-order mark, with a Matrix Market banner in the case that SciPy expects."""
    for mark, encoding in _MARKS.items():
        if text.startswith(mark):
            text = text.decode(encoding, errors="replace").encode()
            break
    if text[: len(_BANNER)].lower() != _BANNER:
        return text
    banner, end, rest = text.partition(b"\n")
    first, *words = banner.split()
    if first.lower() != _BANNER:  # the word goes on: no banner
        return text
    wanted = b" ".join([b"%%MatrixMarket", *(word.lower() for word in words)])
    return text if banner.split() == wanted.split() else wanted + end + rest


def content_of(stream: Any) -> bytes:  # Any: an open file, text or binary
    """Return the remaining content of an open file as bytes."""
    content = stream.read()
    return content.encode() if isinstance(content, str) else bytes(content)

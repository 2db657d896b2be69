"""Reader of the safetensors format with NumPy alone: header length (8 bytes), JSON header, tensor bytes.

Supported are little-endian float32, float16, int64, int32, int16, int8 and uint8 arrays, and text metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import Byte, Half, NarrowIndex, NarrowReal, ProgramCode, SmallCode, WideIndex
from autosparse.errors import RecordError

DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    name: np.dtype(kind).newbyteorder("<")
    for name, kind in (
        ("F32", NarrowReal), ("F16", Half), ("I64", WideIndex), ("I32", NarrowIndex), ("I16", ProgramCode),
        ("I8", SmallCode), ("U8", Byte),
    )
}  # fmt: skip
MAX_HEADER: Final = 100_000_000


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return (tensors, metadata) of a file; raise RecordError for an unsupported or truncated file."""
    content = path.read_bytes()
    try:
        n_header = int.from_bytes(content[:8], "little")
        if len(content) < 8 or n_header > MAX_HEADER:
            raise ValueError(f"{len(content)} bytes with a header of {n_header}")
        header = json.loads(content[8 : 8 + n_header])
        metadata = {str(name): str(text) for name, text in header.pop("__metadata__", {}).items()}
        return {name: _tensor(content, 8 + n_header, row) for name, row in header.items()}, metadata
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError.broken(path.name, reason=f"no safetensors file: {error}") from error


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata alone; raise RecordError as `read_safetensors` does."""
    try:
        with path.open("rb") as file:
            n_header = int.from_bytes(file.read(8), "little")
            if n_header > MAX_HEADER:
                raise ValueError(f"a header of {n_header} bytes")
            header = json.loads(file.read(n_header))
        return {str(name): str(text) for name, text in header.get("__metadata__", {}).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise RecordError.broken(path.name, reason=f"no safetensors file: {error}") from error


def _tensor(content: bytes, base: int, row: Mapping[str, Any]) -> NDArray[Any]:
    start, end = row["data_offsets"]
    shape, dtype = row["shape"], DTYPES[row["dtype"]]
    if start < 0 or base + end > len(content) or end - start != int(np.prod(shape, dtype=WideIndex)) * dtype.itemsize:
        raise ValueError(f"a tensor of shape {shape} at {start} .. {end} of {len(content) - base} bytes")
    tensor: NDArray[Any] = np.frombuffer(content[base + start : base + end], dtype).reshape(shape)
    return tensor

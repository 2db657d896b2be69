"""File of a graph of programs: codes, embeddings and neighbours of schedules, readable without hnswlib or torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from autosparse.tuner.learned.safetensors import read_safetensors, write_safetensors
from numpy.typing import NDArray

from autosparse.core.dtypes import Half, NarrowIndex, ProgramCode
from autosparse.errors import RecordError

FORMAT: Final = "autosparse-program-graph"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, eq=False)
class ProgramGraph:
    """Graph of `n` schedules: rows of `codes` in the embedder's form, and the neighbours of each.

    `model` names the weights that computed the embeddings; the graph is valid for these only.
    """

    model: str
    codes: NDArray[ProgramCode] = field(repr=False)  # (n, columns of all parameters)
    embeddings: NDArray[Half] = field(repr=False)  # (n, 128)
    neighbours: NDArray[NarrowIndex] = field(repr=False)  # (n, degree), -1: none
    entries: NDArray[NarrowIndex] = field(repr=False)  # nodes at which searches start

    def __post_init__(self) -> None:
        reason = self._reason_broken()
        if reason:
            raise RecordError.broken("program graph", reason=reason)

    def _reason_broken(self) -> str | None:
        n = len(self.codes)
        if len(self.embeddings) != n or len(self.neighbours) != n:
            return f"{n} codes, {len(self.embeddings)} embeddings, {len(self.neighbours)} lists of neighbours"
        for name, ids, low in (("neighbours", self.neighbours, -1), ("entries", self.entries, 0)):
            if ids.size and (int(ids.min()) < low or int(ids.max()) >= n):
                return f"{name} outside {low} .. {n - 1}"
        return None if n == 0 or self.entries.size else "no entries"

    def __len__(self) -> int:
        return len(self.codes)

    def save(self, path: Path) -> None:
        """Write the graph to the file `path`, atomically."""
        arrays: dict[str, NDArray[Any]] = {
            name: getattr(self, name) for name in ("codes", "embeddings", "neighbours", "entries")
        }
        write_safetensors(path, arrays, {"format": FORMAT, "version": str(FORMAT_VERSION), "model": self.model})

    @classmethod
    def load(cls, path: Path) -> ProgramGraph:
        """Read the result of `save`; raise RecordError for anything else."""
        arrays, metadata = read_safetensors(path)
        said = (metadata.get("format"), metadata.get("version"))
        if said != (FORMAT, str(FORMAT_VERSION)):
            raise RecordError.broken(path.name, reason=f"holds {said}, not a program graph of version {FORMAT_VERSION}")
        missing = {"codes", "embeddings", "neighbours", "entries"} - set(arrays)
        if missing or "model" not in metadata:
            raise RecordError.broken(path.name, reason=f"lacks {sorted(missing) or 'the name of its model'}")
        return cls(metadata["model"], *(arrays[name] for name in ("codes", "embeddings", "neighbours", "entries")))

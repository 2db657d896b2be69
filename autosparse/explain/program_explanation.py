"""Explanation of an einsum, as text and as an HTML page."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from autosparse.core.documents import write_whole
from autosparse.explain.page import as_html
from autosparse.explain.section import Section, as_text


@dataclass(frozen=True, slots=True)
class ProgramExplanation:
    """Snapshot of what runs for one einsum; ``print`` shows it."""

    title: str
    sections: tuple[Section, ...]

    def __str__(self) -> str:
        return as_text(self.sections)

    def __repr__(self) -> str:
        return f"<Explanation of {self.title}; print() shows it in words>"

    def _repr_html_(self) -> str:
        return as_html(self.title, self.sections, ())

    def html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page to `path` and return the path; raise OSError if it cannot be written."""
        target = Path(path)
        write_whole(target, self._repr_html_())
        return target

"""Calibrated models on disk: a file is replaced at once or not at all, and the one before it can be had back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autosparse.tuner.learned.names import MODEL_SUFFIX

BEFORE: Final = "before"
"""Folder beside the models: what the last calibration replaced."""
NONE_SUFFIX: Final = ".none"
"""Of an empty file that says: there was no calibrated model of this operation."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """The calibrated models in `folder`."""

    folder: Path

    def path(self, op: str) -> Path:
        """The model of `op`."""
        return self.folder / f"{op}{MODEL_SUFFIX}"

    def staged(self, op: str) -> Path:
        """Where a new model of `op` is written; nobody reads it there."""
        folder = self.folder / f".new-{os.getpid()}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / self.path(op).name

    def replace(self, op: str) -> None:
        """Put the staged model of `op` in the place of the present one, which is kept.

        Killed at any moment, the present model or the new one is there, whole: the copy is made before, and a rename is
        one step.
        """
        self._keep(op)
        self.staged(op).replace(self.path(op))

    def _keep(self, op: str) -> None:
        before = self.folder / BEFORE
        before.mkdir(parents=True, exist_ok=True)
        kept, none = before / self.path(op).name, before / f"{op}{NONE_SUFFIX}"
        if self.path(op).exists():
            beside = kept.with_name(f".{kept.name}.{os.getpid()}")
            shutil.copyfile(self.path(op), beside)
            beside.replace(kept)
            none.unlink(missing_ok=True)
        else:
            none.touch()
            kept.unlink(missing_ok=True)

    def undo(self, ops: Sequence[str]) -> dict[str, str]:
        """Take back the last calibration of each of `ops`: operation -> what is in use now, of those calibrated."""
        found = {}
        for op in ops:
            kept, none = self.folder / BEFORE / self.path(op).name, self.folder / BEFORE / f"{op}{NONE_SUFFIX}"
            if kept.exists():
                kept.replace(self.path(op))
                found[op] = "the calibration before"
            elif none.exists():
                self.path(op).unlink(missing_ok=True)
                none.unlink()
                found[op] = "the model that comes with autosparse"
        return found

    def clear_staged(self) -> None:
        """Remove what this process, or one that was killed, has left half done."""
        for folder in self.folder.glob(".new-*"):
            shutil.rmtree(folder, ignore_errors=True)

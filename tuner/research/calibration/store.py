"""Storage of calibrated models: a file is replaced atomically, and its predecessor can be restored."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autosparse.tuner.learned.names import MODEL_SUFFIX

BEFORE: Final = "before"
"""Folder beside the models that keeps what the last calibration replaced."""
NONE_SUFFIX: Final = ".none"
"""Suffix of an empty file that records that no calibrated model of the operation existed."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """The calibrated models in `folder`."""

    folder: Path

    def path(self, op: str) -> Path:
        """Return the path of the model of `op`."""
        return self.folder / f"{op}{MODEL_SUFFIX}"

    def staged(self, op: str) -> Path:
        """Return a path for a new model of `op`, in a temporary folder; `replace` puts the model into use."""
        folder = self.folder / f".new-{os.getpid()}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / self.path(op).name

    def replace(self, op: str) -> None:
        """Replace the present model of `op` by the staged one, and keep the present one for `undo`.

        At any moment either the present or the new model is complete: the copy is made first, and a rename is atomic.
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
        """Restore the models of `ops` from before the last calibration.

        Returns a mapping from the restored operations to a text on the model now in use.
        """
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
        """Remove staged files of this process and of processes that were killed."""
        for folder in self.folder.glob(".new-*"):
            shutil.rmtree(folder, ignore_errors=True)

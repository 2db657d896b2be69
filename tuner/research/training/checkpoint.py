"""State of an interrupted training in one file, written atomically: model, optimizer, and facts of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from autosparse.core.values import dataclass, field
from autosparse.errors import OptionError


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """File from which a training continues where it stopped, bit by bit; `path` None stores nothing.

    `identity` holds the settings and data of the run.
    """

    path: Path | None
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    identity: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> dict[str, Any]:
        """Restore the stored state and return its facts, {} without a file; raise OptionError for that of another run.

        The state of another run has other settings or data.
        """
        if self.path is None or not self.path.exists():
            return {}
        state = torch.load(self.path, map_location="cpu", weights_only=True)
        facts: dict[str, Any] = json.loads(state["facts"])
        stored, now = facts.pop("identity"), json.loads(json.dumps(dict(self.identity)))
        if other := sorted(name for name in {*stored, *now} if stored.get(name) != now.get(name)):
            said = ", ".join(f"{name}={stored.get(name)!r} (now {now.get(name)!r})" for name in other)
            raise OptionError.other_run(self.path, said)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return facts

    def save(self, **facts: Any) -> None:
        """Write the present state with `facts`, which JSON can hold, to a temporary file, and rename it."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        staged = self.path.with_suffix(".new")
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save({**state, "facts": json.dumps({**facts, "identity": dict(self.identity)})}, staged)
        staged.replace(self.path)

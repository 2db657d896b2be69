"""CommandError: what a command cannot do, with the cure; shown without a traceback."""

from __future__ import annotations

from autosparse.errors import AutosparseError


class CommandError(AutosparseError):
    """A sub-command cannot go on."""

    def __init__(self, what: str, *, cure: str) -> None:
        super().__init__(f"{what}\n  Cure: {cure}")

"""Deprecated name of `autosparse.scipy_compat`, removed in the release after 0.3."""

from __future__ import annotations

import warnings
from typing import Any

from autosparse import scipy_compat

warnings.warn(
    "autosparse.ours is now autosparse.scipy_compat; the old name will be removed in the release after 0.3",
    DeprecationWarning,
    stacklevel=2,
)


def __getattr__(name: str) -> Any:  # Any: whatever `scipy_compat` returns
    return getattr(scipy_compat, name)


def __dir__() -> list[str]:
    return dir(scipy_compat)

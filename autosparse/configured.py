"""Check of the environment for options, for code that runs before `autosparse.config` is loaded.

`autosparse.config` remains the only module that interprets settings.
"""

from __future__ import annotations

import os
from typing import Final

_PREFIX: Final = "AUTOSPARSE_"
_NO_DIFFERENCE: Final = frozenset({"AUTOSPARSE_CACHE_DIR", "AUTOSPARSE_STRICT"})
"""Variables of that prefix that change neither results nor matrices."""


def by_environment() -> bool:
    """Return whether the environment has a variable that sets options, or a name that may be meant as one."""
    return any(name.startswith(_PREFIX) and name not in _NO_DIFFERENCE for name in os.environ)

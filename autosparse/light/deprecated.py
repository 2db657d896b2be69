"""Warnings of SciPy versions that deprecate sparse matrices: one for each matrix that is made, at the user's line.

SciPy gives its warning in the constructor of `spmatrix`, at the first line outside its own files. For autosparse's
classes that would be a line of autosparse, or none, because arguments are often read without SciPy's constructor.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any, Final

import scipy.sparse as sps

from autosparse.light.matrices import ConvertedBack, Light

_OWN_FILES: Final = str(Path(__file__).parent.parent), str(Path(sps.__file__).parent)
"""Folders whose frames are not the user's."""


def announce(kind: Any) -> None:
    """Make the constructor of a matrix class warn as SciPy's does, once."""

    def __init__(self: Any, *args: Any, **how: Any) -> None:  # noqa: N807
        if sys._getframe(1).f_code is not Light.__init__.__code__:  # which calls the class's constructor again
            warn(kind.__name__)
        super(kind, self).__init__(*args, **how)

    kind.__init__ = __init__


def warn(name: str) -> None:
    """Emit SciPy's DeprecationWarning for the class `name` at the first frame outside autosparse and scipy.sparse."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FILES):
        frame, level = frame.f_back, level + 1
    what = f"{name} is being replaced by {name.replace('matrix', 'array')}, because SciPy deprecates sparse matrices"
    warnings.warn(what, DeprecationWarning, stacklevel=level)


def _past_spmatrix(self: Any, *args: Any, **how: Any) -> None:
    """Call SciPy's constructor without that of `spmatrix`, which would warn again."""
    start: Any = sps.spmatrix if isinstance(self, sps.spmatrix) else ConvertedBack
    super(start, self).__init__(*args, **how)


ConvertedBack.__init__ = _past_spmatrix  # type: ignore[method-assign]

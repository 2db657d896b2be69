"""Services for solvers: convergence estimates for tuning, reused vectors, progress display, and time traces."""

from typing import TYPE_CHECKING

from autosparse import forking

if TYPE_CHECKING:
    from autosparse.linalg.solves.solve import CRITERION as CRITERION
    from autosparse.linalg.solves.solve import NotFiniteError as NotFiniteError
    from autosparse.linalg.solves.solve import Solve as Solve

_HOME = "autosparse.linalg.solves.solve"
__getattr__ = forking.lazy_names(__name__, {"CRITERION": _HOME, "NotFiniteError": _HOME, "Solve": _HOME})

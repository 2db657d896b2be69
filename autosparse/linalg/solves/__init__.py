"""Services for solvers: convergence estimates for tuning, reused vectors, progress display, and time traces."""

from autosparse.linalg.solves.solve import CRITERION as CRITERION
from autosparse.linalg.solves.solve import Solve as Solve

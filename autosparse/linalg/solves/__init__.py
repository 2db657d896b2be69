"""Services for solves: expectations for tuning, vectors that are kept, progress, and where the time went."""

from autosparse.linalg.solves.solve import CRITERION as CRITERION
from autosparse.linalg.solves.solve import Solve as Solve

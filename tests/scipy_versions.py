"""What the installed SciPy can do, for tests whose expectation depends on its version."""

from __future__ import annotations

from typing import Final

import scipy

IS_RECENT: Final = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 15)
"""Whether csr and csc arrays may have one dimension, as rows of arrays then do."""

"""The version of SciPy that is installed, on which the expectations of some tests depend."""

from __future__ import annotations

from typing import Final

import pytest
import scipy

VERSION: Final = tuple(map(int, scipy.__version__.split(".")[:2]))
IS_RECENT: Final = VERSION >= (1, 15)
"""True if csr and csc arrays may have one dimension, as rows of arrays then do."""
HAS_FLAT_CSC: Final = VERSION == (1, 14)
"""True if SciPy makes csc arrays of one dimension, which have no products and no dense form."""
SOLVERS_CALL_DOT: Final = VERSION < (1, 18)
"""True if SciPy's solvers multiply by the `dot` of a matrix; later ones multiply by `@`."""
needs_recent = pytest.mark.skipif(not IS_RECENT, reason="this SciPy has other arguments, dtypes and warnings")
"""Mark of tests that compare `asp.linalg` with SciPy where that changed; ours does what 1.15 and later do."""

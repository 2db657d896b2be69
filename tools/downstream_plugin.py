"""Plugin of pytest: our matrices in the place of SciPy's, in whatever is tested (`tools/test_downstream.py`)."""

import autosparse

autosparse.install()

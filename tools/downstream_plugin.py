"""Pytest plugin that replaces SciPy's sparse matrices by autosparse's (see `tools/test_downstream.py`)."""

import autosparse

autosparse.install()

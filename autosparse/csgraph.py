"""`scipy.sparse.csgraph` as `autosparse.csgraph`, for code that replaces `import scipy.sparse as sp` by autosparse."""

import sys

import scipy.sparse.csgraph

sys.modules[__name__] = (
    scipy.sparse.csgraph
)  # the same module, not a copy: `autosparse.csgraph is scipy.sparse.csgraph`

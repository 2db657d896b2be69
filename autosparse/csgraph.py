"""`scipy.sparse.csgraph` under the name it has when `import autosparse as sp` replaces `import scipy.sparse as sp`."""

import sys

import scipy.sparse.csgraph

sys.modules[__name__] = (
    scipy.sparse.csgraph
)  # the same module, not a copy: `autosparse.csgraph is scipy.sparse.csgraph`

"""`scipy.sparse.linalg` under the name it has when `import autosparse as sp` replaces `import scipy.sparse as sp`."""

import sys

import scipy.sparse.linalg

sys.modules[__name__] = scipy.sparse.linalg  # the same module, not a copy: `autosparse.linalg is scipy.sparse.linalg`

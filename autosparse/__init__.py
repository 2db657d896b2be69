"""autosparse: SciPy sparse matrices that tune themselves."""

from autosparse._version import __version__ as __version__

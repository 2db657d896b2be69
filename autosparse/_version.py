"""Version of the package, in a file of its own so that setuptools can read it without importing the package."""

__version__ = "0.2.0"

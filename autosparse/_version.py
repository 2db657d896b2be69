"""The version, alone in a file so that setuptools can read it without importing the package."""

__version__ = "0.2.0"

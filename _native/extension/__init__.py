"""C sources of the extension module `autosparse._native._extension`, and its build script."""

"""C sources of the runtime and their build script; compiled at install into `autosparse._native._runtime`."""

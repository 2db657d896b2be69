"""C sources of the runtime and their builder; compiled at install into `autosparse._native._runtime`."""

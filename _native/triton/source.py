"""Generated source as a Python module that Triton can read: files under cache keys."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

from autosparse._native.kernels import dumping
from autosparse._native.kernels.backend import ArtefactStore
from autosparse._native.kernels.identity import code_digest
from autosparse._native.triton.emit import emit
from autosparse._native.triton.spec import DeviceSpec

from autosparse import config, forking
from autosparse.errors import BuildError

SOURCE_NAME: Final = "kernel.py"
"""Name of the source file in the folder of a kernel's cache entry."""
_modules: Final[dict[str, ModuleType]] = {}
_mutex: Final = forking.lock()


def known(spec: DeviceSpec) -> ModuleType | None:
    """Return the module of `spec` if this process has loaded it, otherwise None."""
    return _modules.get(spec.key())


def module_of(spec: DeviceSpec, store: ArtefactStore) -> ModuleType:
    """Return the module with ``kernel`` (and ``reduce``) of `spec`. Raises BuildError where there is none."""
    key = spec.key()
    if (known := _modules.get(key)) is not None:
        return known
    if (reason := spec.reason_unsupported()) is not None:
        raise BuildError(f"no GPU kernel: {reason}", key=key)
    folder = store.artefact(key, _writer(spec))
    _dump(spec, key)
    found = load(folder / SOURCE_NAME, key)
    with _mutex:
        return _modules.setdefault(key, found)


def _writer(spec: DeviceSpec) -> Callable[[Path], None]:
    def into(folder: Path) -> None:
        (folder / SOURCE_NAME).write_text(emit(spec), encoding="utf-8")

    return into


def _dump(spec: DeviceSpec, key: str) -> None:
    """Write the source to the folder of the setting `dump_dir`, for inspection."""
    if config.get_options().dump_dir is not None:
        dumping.write({f"{key}.triton.py": emit(spec)}, key)


def load(path: Path, key: str) -> ModuleType:
    """Load the module in the file `path`, from which Triton reads the source of its functions."""
    found = importlib.util.spec_from_file_location(f"autosparse_triton_{key}", path)
    if found is None or found.loader is None:
        raise BuildError(f"the generated kernel cannot be loaded from {str(path)!r}", key=key)
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as err:
        raise BuildError(f"the generated kernel cannot be loaded: {err}", key=key) from err
    return module


def emitter_digest() -> str:
    """Return a digest of the generator's modules; plans of another version are not used."""
    return code_digest("triton")

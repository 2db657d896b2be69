"""From a KernelSpec to a Kernel: part of the runtime, loaded already, found in the cache, or emitted and compiled."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from autosparse._native import c_build, runtime_api
from autosparse._native.c_build import FLAGS, ISA_FLAGS, Compilations, Compiler, code_digest
from autosparse._native.c_emit import emit
from autosparse._native.kernel import Kernel
from autosparse._native.lower import lower, supports
from autosparse._native.ready import ready_kernel
from autosparse._native.spec import KernelSpec

from autosparse import config
from autosparse.errors import AutosparseError, BuildError

__all__ = [
    "BACKENDS",
    "ArtefactStore",
    "backend_name",
    "build",
    "build_many",
    "compiler_id",
    "is_built",
    "loaded",
    "supports",
]

SOURCE_NAME: Final = "kernel.c"
OBJECT_NAME: Final = "kernel.so"


class ArtefactStore(Protocol):
    """The part of the cache that is used here."""

    def artefact(self, key: str, build: Callable[[Path], None]) -> Path:
        """The folder that `build` filled, now or earlier."""


class Backend(Protocol):
    """A way from a spec to a kernel. `compiler` is the setting of that name."""

    def identity(self, compiler: str | None) -> str:
        """Names the compiler; changes when the program does, "none" when there is none."""

    def dump(self, spec: KernelSpec) -> None:
        """Write what is compiled into the setting `dump_dir`, if there is one."""

    def key(self, spec: KernelSpec, compiler: str | None) -> str:
        """Names the artefact: the spec, and all of the way."""

    def fill(self, spec: KernelSpec, compiler: str | None, compilations: Compilations) -> Callable[[Path], None]:
        """What fills the artefact's folder."""

    def load(self, spec: KernelSpec, folder: Path) -> Kernel:
        """The kernel in a filled folder."""


class CBackend:
    """C source, the system's compiler, a shared object."""

    def identity(self, compiler: str | None) -> str:
        """The program file, its size and date."""
        return c_build.compiler_id(compiler)

    def dump(self, spec: KernelSpec) -> None:
        """IR and C; C that was edited stays as it is."""
        _dump(spec)

    def key(self, spec: KernelSpec, compiler: str | None, identity: str | None = None) -> str:
        """The spec's key with the emitter's digest, the compiler, its flags, and the edited source if there is one."""
        edited = _edited_source(spec)
        facts = [
            spec.key(),
            _code_digest(),
            identity or self.identity(compiler),
            " ".join((*FLAGS, *ISA_FLAGS[spec.isa])),
            edited or "",
        ]
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()

    def fill(self, spec: KernelSpec, compiler: str | None, compilations: Compilations) -> Callable[[Path], None]:
        """Emit and compile into the folder; the source stays beside the object for whoever wants to read it."""

        def into(folder: Path) -> None:
            source = folder / SOURCE_NAME
            source.write_text(_edited_source(spec) or emit(spec), encoding="utf-8")
            compilations.compile(Compiler.find(compiler), spec.isa, source, folder / OBJECT_NAME)

        return into

    def load(self, spec: KernelSpec, folder: Path) -> Kernel:
        """Map the object."""
        program = lower(spec)
        path = folder / OBJECT_NAME
        return Kernel.load(spec, path, needs_sorted=program.needs_sorted, is_private=program.private)


def _numba() -> Backend:
    """Imported only where it is used."""
    from autosparse._native.numba_backend import NumbaBackend

    return NumbaBackend()


BACKENDS: Final[dict[str, Callable[[], Backend]]] = {"c": CBackend, "numba": _numba}
"""Ways to machine code, best first."""


def backend_name(compiler: str | None) -> str:
    """The backend that the setting `compiler` asks for: numba by its name, or where there is nothing else."""
    if compiler == "numba":
        return "numba"
    if compiler is None and c_build.compiler_id() == "none" and importlib.util.find_spec("numba"):
        return "numba"
    return "c"


def compiler_id(compiler: str | None = None) -> str:
    """Identity of what compiles kernels; "none" when there is nothing."""
    return BACKENDS[backend_name(compiler)]().identity(compiler)


def _key(spec: KernelSpec, compiler: str | None) -> str:
    """The artefact's key; the compiler is looked for once."""
    if compiler is None:
        identity = c_build.compiler_id()
        if identity != "none":
            return CBackend().key(spec, compiler, identity)
    return BACKENDS[backend_name(compiler)]().key(spec, compiler)


_loaded: dict[str, Kernel] = {}
_missing: Final[set[str]] = set()
"""Keys that `is_built` looked for in vain: a look costs milliseconds, and only an estimate hangs on it."""
_present: Final[set[str]] = set()
"""Keys that it found: an estimate too, should somebody clear the cache."""
_mutex: Final = threading.Lock()


class _NotBuiltError(BuildError):
    """Raised by `is_built`'s probe instead of building."""


def build(
    spec: KernelSpec, *, store: ArtefactStore, compiler: str | None = None, compilations: Compilations | None = None
) -> Kernel:
    """The kernel of `spec`: from this process, from `store`, or compiled. BuildError, with the compiler's log."""
    backend = BACKENDS[backend_name(compiler)]()
    if not runtime_api.available:
        raise BuildError("the compiled runtime is missing: reinstall autosparse with a C compiler", key=spec.key())
    if (ready := ready_kernel(spec)) is not None:
        return ready
    key = backend.key(spec, compiler)
    kernel = _loaded.get(key)
    if kernel is not None:
        return kernel if kernel.spec == spec else _with_spec(kernel, spec)
    backend.dump(spec)
    try:
        folder = store.artefact(key, backend.fill(spec, compiler, compilations or Compilations()))
        kernel = backend.load(spec, folder)
    except BuildError as err:
        err.key = err.key or spec.key()
        raise
    with _mutex:
        kernel = _loaded.setdefault(key, kernel)  # another thread may have loaded it for another schedule meanwhile
    return kernel if kernel.spec == spec else _with_spec(kernel, spec)


def loaded(spec: KernelSpec, *, compiler: str | None = None) -> Kernel | None:
    """The kernel of `spec` where this process has it mapped already."""
    if not runtime_api.available:
        return None
    if (ready := ready_kernel(spec)) is not None:
        return ready
    kernel = _loaded.get(_key(spec, compiler))
    return kernel if kernel is None or kernel.spec == spec else _with_spec(kernel, spec)


def _with_spec(kernel: Kernel, spec: KernelSpec) -> Kernel:
    """The same code under a schedule that differs in run-time arguments."""
    return dataclasses.replace(kernel, spec=spec)


def build_many(
    specs: Sequence[KernelSpec], *, store: ArtefactStore, compiler: str | None = None, n_jobs: int | None = None
) -> list[Kernel | BuildError]:
    """Each spec's kernel or its error, compiled `n_jobs` at a time (default: one per core).

    An interrupt ends every compiler before it is passed on.
    """
    compilations = Compilations()

    def one(spec: KernelSpec) -> Kernel | BuildError:
        try:
            return build(spec, store=store, compiler=compiler, compilations=compilations)
        except BuildError as err:
            return err

    if len(specs) == 1:  # no thread for what mostly is loaded already
        try:
            return [one(specs[0])]
        except BaseException:
            compilations.cancel()
            raise
    with ThreadPoolExecutor(n_jobs or os.cpu_count() or 1) as pool:
        futures = [pool.submit(one, spec) for spec in specs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            compilations.cancel()
            raise


def is_built(spec: KernelSpec, *, store: ArtefactStore, compiler: str | None = None) -> bool:
    """Whether `build` would not have to compile, as far as this process knows (others may have built it since)."""
    if not runtime_api.available:
        return False
    if ready_kernel(spec) is not None:
        return True
    key = _key(spec, compiler)
    if key in _loaded or key in _present or key in _missing:
        return key in _loaded or key in _present

    def refuse(folder: Path) -> None:
        raise _NotBuiltError(f"{folder.name} is not built")

    try:
        store.artefact(key, refuse)
    except AutosparseError:  # not built, or the cache is in trouble: a build would have to compile
        _missing.add(key)
        return False
    _present.add(key)
    return True


@functools.lru_cache(maxsize=1)
def _code_digest() -> str:
    return code_digest()


def _edited_source(spec: KernelSpec) -> str | None:
    """The text of ``<dump_dir>/<key>.c`` where somebody changed it."""
    folder = config.get_options().dump_dir
    if folder is None:
        return None
    try:
        text = (folder / f"{spec.key()}.c").read_text(encoding="utf-8")
        generated = (folder / f"{spec.key()}.generated").read_text(encoding="utf-8")
    except OSError:
        return None
    return None if hashlib.blake2b(text.encode()).hexdigest() == generated.strip() else text


def _dump(spec: KernelSpec) -> None:
    """Write ``<key>.ir`` and ``<key>.c`` into the setting `dump_dir`; C that was edited stays as it is.

    ``<key>.generated`` holds the digest of the C as it was written: that is how an edit shows.
    """
    folder = config.get_options().dump_dir
    if folder is None or _edited_source(spec) is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{spec.key()}.ir").write_text(f"{lower(spec)}\n", encoding="utf-8")
        text = emit(spec)
        (folder / f"{spec.key()}.c").write_text(text, encoding="utf-8")
        (folder / f"{spec.key()}.generated").write_text(hashlib.blake2b(text.encode()).hexdigest(), encoding="utf-8")
    except OSError as err:
        raise BuildError(f"cannot write to the folder of AUTOSPARSE_DUMP_DIR: {err}", key=spec.key()) from err

"""Backends: emission and compilation of a KernelSpec to machine code.

Emitters are imported only when something is emitted; existing kernels need none of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from autosparse._native.c import build as c_build
from autosparse._native.c.build import FLAGS, ISA_FLAGS, Compilations, Compiler
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels import dumping
from autosparse._native.kernels.identity import code_digest
from autosparse._native.kernels.kernel import CompiledKernel

from autosparse import config
from autosparse.errors import BuildError

SOURCE_NAME: Final = "kernel.c"
OBJECT_NAME: Final = "kernel.so"


class ArtefactStore(Protocol):
    """The part of the cache that backends use."""

    def artefact(self, key: str, build: Callable[[Path], None]) -> Path:
        """Return the folder of the artefact `key`, which `build` filled now or earlier."""

    def find_artefact(self, key: str) -> Path | None:
        """Return that folder if it exists."""


class Backend(Protocol):
    """A way from a spec to a kernel. `compiler` is the setting of that name."""

    def identity(self, compiler: str | None) -> str:
        """Return a name of the compiler that changes when the program does; "none" without a compiler."""

    def dump(self, spec: KernelSpec) -> None:
        """Write the source to the folder of the setting `dump_dir`, if it is set."""

    def key(self, spec: KernelSpec, compiler: str | None) -> str:
        """Return the key of the artefact, which covers the spec and everything that affects compilation."""

    def fill(self, spec: KernelSpec, compiler: str | None, compilations: Compilations) -> Callable[[Path], None]:
        """Return a function that fills the artefact's folder."""

    def load(self, spec: KernelSpec, folder: Path) -> CompiledKernel:
        """Return the kernel stored in a filled folder."""


class CBackend:
    """Backend that emits C source, runs the system's compiler and loads a shared object."""

    def identity(self, compiler: str | None) -> str:
        """Return the compiler's path, size and modification date."""
        return c_build.compiler_id(compiler)

    def dump(self, spec: KernelSpec) -> None:
        """Write IR and C; C that was edited by hand stays unchanged."""
        _dump(spec)

    def key(self, spec: KernelSpec, compiler: str | None, identity: str | None = None) -> str:
        """Return a key over the spec's key, the emitter's digest, the compiler, its flags, and the edited source if
        there is one.
        """
        edited = _edited_source(spec)
        facts = [
            spec.key(),
            code_digest("c"),
            identity or self.identity(compiler),
            " ".join((*FLAGS, *ISA_FLAGS[spec.isa])),
            edited or "",
        ]
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()

    def fill(self, spec: KernelSpec, compiler: str | None, compilations: Compilations) -> Callable[[Path], None]:
        """Return a function that emits and compiles into the folder; the source stays beside the object for
        inspection.
        """

        def into(folder: Path) -> None:
            from autosparse._native.c.emit import emit

            key = spec.key()
            if (before := compilations.failed.get(key)) is not None:
                raise BuildError(str(before), key=key, log=before.log)
            source = folder / SOURCE_NAME
            source.write_text(_edited_source(spec) or emit(spec), encoding="utf-8")
            try:
                compilations.compile(Compiler.find(compiler), spec.isa, source, folder / OBJECT_NAME)
            except BuildError as err:
                if not err.is_cancelled:
                    compilations.failed[key] = err
                raise

        return into

    def load(self, spec: KernelSpec, folder: Path) -> CompiledKernel:
        """Load the shared object."""
        from autosparse._native.ir.lower import lower

        return CompiledKernel.load(spec, folder / OBJECT_NAME, needs_sorted=lower(spec).needs_sorted)


def _numba() -> Backend:
    """Return the Numba backend, which is imported only when it is used."""
    from autosparse._native.numba.backend import NumbaBackend

    return NumbaBackend()


BACKENDS: Final[dict[str, Callable[[], Backend]]] = {"c": CBackend, "numba": _numba}
"""Backends by name, the preferred one first."""


def _edited_source(spec: KernelSpec) -> str | None:
    """Return the text of ``<dump_dir>/<key>.c`` if it was edited by hand, else None."""
    if config.get_options().dump_dir is None:
        return None
    text, generated = dumping.read(f"{spec.key()}.c"), dumping.read(f"{spec.key()}.generated")
    if text is None or generated is None:
        return None
    return None if hashlib.blake2b(text.encode()).hexdigest() == generated.strip() else text


def _dump(spec: KernelSpec) -> None:
    """Write ``<key>.ir`` and ``<key>.c`` into the folder `dump_dir`; C that was edited by hand stays unchanged.

    ``<key>.generated`` holds the digest of the generated C, by which edits are detected.
    """
    if config.get_options().dump_dir is None or _edited_source(spec) is not None:
        return
    from autosparse._native.c.emit import emit
    from autosparse._native.ir.lower import lower

    key, text = spec.key(), emit(spec)
    digest = hashlib.blake2b(text.encode()).hexdigest()
    dumping.write({f"{key}.ir": f"{lower(spec)}\n", f"{key}.c": text, f"{key}.generated": digest}, key)

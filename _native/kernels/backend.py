"""Backends: ways from a KernelSpec to machine code, emitted and compiled.

What emits is imported when something is to be emitted: kernels that are there need none of it.
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
    """The part of the cache that is used here."""

    def artefact(self, key: str, build: Callable[[Path], None]) -> Path:
        """The folder that `build` filled, now or earlier."""

    def find_artefact(self, key: str) -> Path | None:
        """That folder, if it is there."""


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

    def load(self, spec: KernelSpec, folder: Path) -> CompiledKernel:
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
            code_digest("c"),
            identity or self.identity(compiler),
            " ".join((*FLAGS, *ISA_FLAGS[spec.isa])),
            edited or "",
        ]
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()

    def fill(self, spec: KernelSpec, compiler: str | None, compilations: Compilations) -> Callable[[Path], None]:
        """Emit and compile into the folder; the source stays beside the object for whoever wants to read it."""

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
        """Map the object."""
        from autosparse._native.ir.lower import lower

        return CompiledKernel.load(spec, folder / OBJECT_NAME, needs_sorted=lower(spec).needs_sorted)


def _numba() -> Backend:
    """Imported only where it is used."""
    from autosparse._native.numba.backend import NumbaBackend

    return NumbaBackend()


BACKENDS: Final[dict[str, Callable[[], Backend]]] = {"c": CBackend, "numba": _numba}
"""Ways to machine code, best first."""


def _edited_source(spec: KernelSpec) -> str | None:
    """The text of ``<dump_dir>/<key>.c`` where somebody changed it."""
    if config.get_options().dump_dir is None:
        return None
    text, generated = dumping.read(f"{spec.key()}.c"), dumping.read(f"{spec.key()}.generated")
    if text is None or generated is None:
        return None
    return None if hashlib.blake2b(text.encode()).hexdigest() == generated.strip() else text


def _dump(spec: KernelSpec) -> None:
    """Write ``<key>.ir`` and ``<key>.c`` into the setting `dump_dir`; C that was edited stays as it is.

    ``<key>.generated`` holds the digest of the C as it was written: that is how an edit shows.
    """
    if config.get_options().dump_dir is None or _edited_source(spec) is not None:
        return
    from autosparse._native.c.emit import emit
    from autosparse._native.ir.lower import lower

    key, text = spec.key(), emit(spec)
    digest = hashlib.blake2b(text.encode()).hexdigest()
    dumping.write({f"{key}.ir": f"{lower(spec)}\n", f"{key}.c": text, f"{key}.generated": digest}, key)

"""Numba backend: emitted Python, compiled by LLVM to an object, for machines with numba and without a C compiler.

Compilation requires numba (half a second for its import, about as long per kernel). The object is cached like those of
the C backend, and loading it requires only llvmlite and takes milliseconds. It has no external symbols: no Python, no
allocation.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from autosparse._native.ir.lower import lower
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels import dumping
from autosparse._native.kernels.identity import code_digest, has_numba, numba_versions
from autosparse._native.kernels.kernel import CompiledKernel
from autosparse._native.numba.loops import emit

from autosparse import config, forking
from autosparse.errors import BuildError
from autosparse.scalar import NARROW_INDEX, WIDE_INDEX

SOURCE_NAME: Final = "kernel.py"
OBJECT_NAME: Final = "kernel.o"
SYMBOL: Final = "asp_kernel"
_OUTSIDE: Final = frozenset({"memcpy", "memset", "memmove"})  # of the C library, which is in every process
_llvm_lock: Final = forking.rlock()


@functools.cache
def identity() -> str:
    """Return the identity of everything that an object depends on beside its source: numba, LLVM, CPU; "none" without
    numba.
    """
    if not has_numba():
        return "none"
    import llvmlite.binding as llvm

    return f"{numba_versions()} {llvm.get_host_cpu_name()}"


class NumbaBackend:
    """Backend that emits Python source and lets numba compile it to an object."""

    def identity(self, compiler: str | None) -> str:
        """Return the versions and the processor."""
        return identity()

    def dump(self, spec: KernelSpec) -> None:
        """Write IR and Python for inspection."""
        key = spec.key()
        if config.get_options().dump_dir is not None:
            dumping.write({f"{key}.ir": f"{lower(spec)}\n", f"{key}.py": emit(spec)}, key)

    def key(self, spec: KernelSpec, compiler: str | None) -> str:
        """Return a key over the spec's key, the emitter's digest and numba's identity; no C compiler matters."""
        facts = [spec.key(), code_digest("numba"), identity()]
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()

    def fill(self, spec: KernelSpec, compiler: str | None, compilations: object) -> Callable[[Path], None]:
        """Return a function that emits and compiles into the folder; the source stays beside the object for
        inspection.
        """

        def into(folder: Path) -> None:
            source = emit(spec)
            (folder / SOURCE_NAME).write_text(source, encoding="utf-8")
            (folder / OBJECT_NAME).write_bytes(compile_object(spec, source))

        return into

    def load(self, spec: KernelSpec, folder: Path) -> CompiledKernel:
        """Load the object."""
        try:
            data = (folder / OBJECT_NAME).read_bytes()
        except OSError as err:
            raise BuildError(f"a compiled kernel cannot be read: {err}", key=spec.key()) from err
        engine, address = _map(data, spec)
        program = lower(spec)
        return CompiledKernel(spec, folder / OBJECT_NAME, address, program.needs_sorted, engine)


def compile_object(spec: KernelSpec, source: str) -> bytes:
    """Return the machine code of emitted `source`. Raises BuildError with numba's message."""
    try:
        import numba
        from autosparse._native.numba import intrinsics
        from numba.core.errors import NumbaError
    except ImportError as err:
        raise BuildError(
            f"numba cannot be imported: {err}\n  Hint: pip install 'autosparse[numba]', or install a C compiler.",
            key=spec.key(),
        ) from err
    names = intrinsics.namespace(spec.dtype)
    exec(compile(source, f"<kernel {spec.key()}>", "exec"), names)  # noqa: S102  # our own emitter's text
    n_arguments = names["kernel"].__code__.co_argcount
    try:
        for task in [name for name in names if re.fullmatch(r"task_\d+", name)]:
            names[f"{task}_address"] = intrinsics.address_of_task(names[task])
        words = ", ".join([WIDE_INDEX.name] * n_arguments)
        kernel = numba.cfunc(f"{NARROW_INDEX.name}({words})", forceinline=True, **intrinsics.OPTIONS)(names["kernel"])
    except NumbaError as err:
        first = " ".join(str(err).split("\n")[:2])
        raise BuildError(f"numba failed on a kernel: {first}", key=spec.key(), log=str(err)) from err
    return _object(kernel._library.get_llvm_str().replace(kernel.native_name, SYMBOL), spec)


def _object(text: str, spec: KernelSpec) -> bytes:
    """Return the bytes of the object compiled from LLVM text.

    Raises BuildError for external symbols, which would end the process at loading.
    """
    import llvmlite.binding as llvm

    declared = set(re.findall(r"^declare [^@]*@\"?([\w.$]+)", text, flags=re.MULTILINE))
    foreign = sorted(name for name in declared - _OUTSIDE if not name.startswith("llvm."))
    if foreign:
        raise BuildError(f"numba's code calls {', '.join(foreign)}", key=spec.key())
    with _llvm_lock:
        module = llvm.parse_assembly(text)
        found: bytes = _machine(llvm).emit_object(module)
    return found


def _machine(llvm: Any) -> Any:  # llvmlite.binding
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, reloc="pic", codemodel="small"
    )


def _map(data: bytes, spec: KernelSpec) -> tuple[Any, int]:
    """Return the execution engine that keeps the code mapped, and the kernel's address."""
    try:
        import llvmlite.binding as llvm
    except ImportError as err:
        raise BuildError(f"llvmlite cannot be imported: {err}", key=spec.key()) from err
    with _llvm_lock:
        # LLVM crashes on anything but an object file. The cache verifies that the file is the one that was written.
        if data[:4] != _machine(llvm).emit_object(llvm.parse_assembly(""))[:4]:
            raise BuildError("a compiled kernel cannot be loaded: it is no object file", key=spec.key())
        try:
            # All sections share one mapping: LLVM ends the process if two are farther apart than 32 bits can address.
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm), use_lmm=True)
            engine.add_object_file(llvm.ObjectFileRef.from_data(data))
            engine.finalize_object()
            address = engine.get_function_address(SYMBOL)
        except (RuntimeError, ValueError) as err:
            raise BuildError(f"a compiled kernel cannot be loaded: {err}", key=spec.key()) from err
    if not address:
        raise BuildError(f"a compiled kernel cannot be loaded: it has no {SYMBOL}", key=spec.key())
    return engine, address

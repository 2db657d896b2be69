"""Numba backend: emitted Python to an object that LLVM made, for machines that have numba and no C compiler.

Compiling takes numba (half a second for its import, about as long per kernel); the object, kept in the cache as the C
backend's are, needs only llvmlite to be loaded, in milliseconds. It has no outside symbols: no Python, no allocation.
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
from autosparse._native.numba.emit import emit

from autosparse import config, forking
from autosparse.errors import BuildError

SOURCE_NAME: Final = "kernel.py"
OBJECT_NAME: Final = "kernel.o"
SYMBOL: Final = "asp_kernel"
_OUTSIDE: Final = frozenset({"memcpy", "memset", "memmove"})  # of the C library, in every process
_llvm_lock: Final = forking.rlock()


@functools.cache
def identity() -> str:
    """Names all that an object depends on beside its source: numba, LLVM, the processor. "none" without numba."""
    if not has_numba():
        return "none"
    import llvmlite.binding as llvm

    return f"{numba_versions()} {llvm.get_host_cpu_name()}"


class NumbaBackend:
    """Python source, numba, an object."""

    def identity(self, compiler: str | None) -> str:
        """Versions and processor."""
        return identity()

    def dump(self, spec: KernelSpec) -> None:
        """IR and Python, to be read."""
        key = spec.key()
        if config.get_options().dump_dir is not None:
            dumping.write({f"{key}.ir": f"{lower(spec)}\n", f"{key}.py": emit(spec)}, key)

    def key(self, spec: KernelSpec, compiler: str | None) -> str:
        """The spec's key with the emitter's digest and numba's identity; no C compiler has a part in it."""
        facts = [spec.key(), code_digest("numba"), identity()]
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()

    def fill(self, spec: KernelSpec, compiler: str | None, compilations: object) -> Callable[[Path], None]:
        """Emit and compile into the folder; the source stays beside the object for whoever wants to read it."""

        def into(folder: Path) -> None:
            source = emit(spec)
            (folder / SOURCE_NAME).write_text(source, encoding="utf-8")
            (folder / OBJECT_NAME).write_bytes(compile_object(spec, source))

        return into

    def load(self, spec: KernelSpec, folder: Path) -> CompiledKernel:
        """Map the object."""
        try:
            data = (folder / OBJECT_NAME).read_bytes()
        except OSError as err:
            raise BuildError(f"a compiled kernel cannot be read: {err}", key=spec.key()) from err
        engine, address = _map(data, spec)
        program = lower(spec)
        return CompiledKernel(spec, folder / OBJECT_NAME, address, program.needs_sorted, engine)


def compile_object(spec: KernelSpec, source: str) -> bytes:
    """Machine code of emitted `source`; BuildError with numba's words."""
    try:
        import numba
        from autosparse._native.numba import intrinsics
        from numba.core.errors import NumbaError
    except ImportError as err:
        raise BuildError(
            f"numba cannot be imported: {err}\n  Cure: pip install 'autosparse[numba]', or install a C compiler.",
            key=spec.key(),
        ) from err
    names = intrinsics.namespace(spec.dtype)
    exec(compile(source, f"<kernel {spec.key()}>", "exec"), names)  # noqa: S102  # our own emitter's text
    n_arguments = names["kernel"].__code__.co_argcount
    try:
        for task in [name for name in names if re.fullmatch(r"task_\d+", name)]:
            names[f"{task}_address"] = intrinsics.address_of_task(names[task])
        words = ", ".join(["int64"] * n_arguments)
        kernel = numba.cfunc(f"int32({words})", forceinline=True, **intrinsics.OPTIONS)(names["kernel"])
    except NumbaError as err:
        first = " ".join(str(err).split("\n")[:2])
        raise BuildError(f"numba failed on a kernel: {first}", key=spec.key(), log=str(err)) from err
    return _object(kernel._library.get_llvm_str().replace(kernel.native_name, SYMBOL), spec)


def _object(text: str, spec: KernelSpec) -> bytes:
    """The object of LLVM text. Symbols from outside would end the process when it is loaded: BuildError instead."""
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
    """The execution engine that keeps the code mapped, and the kernel's address."""
    try:
        import llvmlite.binding as llvm
    except ImportError as err:
        raise BuildError(f"llvmlite cannot be imported: {err}", key=spec.key()) from err
    with _llvm_lock:
        # LLVM does not survive what is no object. Whether it is the one that was written is checked by the cache.
        if data[:4] != _machine(llvm).emit_object(llvm.parse_assembly(""))[:4]:
            raise BuildError("a compiled kernel cannot be loaded: it is no object file", key=spec.key())
        try:
            # All sections in one mapping: LLVM ends the process when two lie so far apart that 32 bits cannot tell.
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(llvm), use_lmm=True)
            engine.add_object_file(llvm.ObjectFileRef.from_data(data))
            engine.finalize_object()
            address = engine.get_function_address(SYMBOL)
        except (RuntimeError, ValueError) as err:
            raise BuildError(f"a compiled kernel cannot be loaded: {err}", key=spec.key()) from err
    if not address:
        raise BuildError(f"a compiled kernel cannot be loaded: it has no {SYMBOL}", key=spec.key())
    return engine, address

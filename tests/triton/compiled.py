"""Ahead-of-time compilation of emitted kernels, for GPUs that need not be present."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from autosparse._native.triton.emit import REDUCE_ARGUMENTS
from autosparse._native.triton.launch import REDUCE_OPTIONS, options_of
from autosparse._native.triton.spec import VALUES, DeviceSpec, arguments

from autosparse.errors import BuildError
from autosparse.gpu.schedule import DOT_LAYOUTS
from tests.triton.resources import Resources, resources_of

ALIGNED: Final = (("tt.divisibility", 16),)
"""Alignment of pointers that is assumed: torch's allocator gives at least 16 bytes."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Result of a compilation: PTX, cubin and resources."""

    ptx: str
    cubin: bytes
    resources: Resources


def uses_tensor_cores(spec: DeviceSpec) -> bool:
    """Return whether a part is expected to run in Tensor Cores."""
    is_rounded = spec.dtype in ("float16", "bfloat16") or spec.schedule.precision == "tf32"
    return is_rounded and any(part.layout in DOT_LAYOUTS for part in spec.schedule.parts)


def compile_ahead(spec: DeviceSpec, module: ModuleType, *, capability: int) -> Compiled:
    """Compile ``kernel`` of `module`, emitted from `spec`, for a compute capability (80: A100, 90: H100).

    Addresses are assumed to be multiples of 16 bytes, as torch's are. A failure raises BuildError with the compiler's
    message.
    """
    signature = {argument.name: argument.type for argument in arguments(spec)}
    schedule = spec.schedule
    options = options_of(schedule)
    return _compile(module.kernel, signature, capability=capability, options=options)


def compile_reduce(spec: DeviceSpec, module: ModuleType, *, capability: int) -> Compiled:
    """Compile ``reduce`` of `module`, which sums rows shared by several programs."""
    sums = "*fp64" if spec.dtype == "float64" else "*fp32"
    types = ("*i64", "*i64", sums, f"*{VALUES[spec.dtype]}", "i32", "i32", "i32")
    signature = dict(zip(REDUCE_ARGUMENTS, types, strict=True))
    return _compile(module.reduce, signature, capability=capability, options=REDUCE_OPTIONS)


def _compile(
    function: Any,  # triton.JITFunction
    signature: dict[str, str],
    *,
    capability: int,
    options: dict[str, int],
) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError

    attributes = {(n,): [list(one) for one in ALIGNED] for n, kind in enumerate(signature.values()) if kind[0] == "*"}
    source = ASTSource(fn=function, signature=signature, constexprs={}, attrs=attributes)
    try:
        found = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    except (CompilationError, RuntimeError, ValueError, AssertionError) as err:
        raise BuildError(f"Triton cannot compile a kernel for sm_{capability}: {err}", log=str(err)) from err
    ptx, cubin = found.asm["ptx"], found.asm["cubin"]
    return Compiled(
        ptx, cubin, resources_of(cubin, ptx, shared_bytes=found.metadata.shared, warps=options["num_warps"])
    )

"""Instruction sets: one row each.

A row here, a row in `_native/runtime/isa/isa.h` and a header `isa_<name>.h` beside it are all that the library knows
about an instruction set. The module imports nothing of the package, so that build scripts can run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NoReturn

IsaName = Literal["baseline", "avx2", "avx512", "neon"]
"""Names of `ISAS`, for type checkers."""


class Isa:
    """Instruction set: vectors, registers, and how processors and compilers name it.

    A plain class: the methods of a named tuple or dataclass would be compiled at each import.
    """

    name: str
    title: str
    """Name in comments of generated C."""
    level: int
    """Order of preference among the sets of one processor family; the number that the C runtime uses."""
    vector_bytes: int
    n_registers: int
    machines: frozenset[str]
    """Values of `platform.machine()` on which the set may exist; empty: all."""
    features: tuple[str, ...]
    """Features that compilers enable for it: in target attributes, and as -m options."""
    tuning: tuple[str, ...]
    """Further compiler options for generated kernels."""
    cpu_flags: frozenset[str]
    """Flags in /proc/cpuinfo by which it is recognised without the C runtime."""
    masked_bytes: tuple[int, ...]
    """Sizes of vectors whose first n lanes can be loaded and stored without accessing the other lanes' memory."""
    has_masked_gather: bool
    """True if a gather and its product can be limited to the first n lanes."""
    has_table_permutation: bool
    """True if one permutation reads a table of 16 values from registers (dictionary-encoded values)."""
    has_statistics: bool
    """True if the margins of the analytic cost model were determined with it (docs/design/cost-models.md)."""
    is_shipped: bool
    """True if generated kernels are compiled with the runtime (`_native/kernels/shipped_specs.py`)."""

    __slots__ = tuple(__annotations__)

    def __init__(self, name: str, title: str, level: int, vector_bytes: int, n_registers: int, **others: Any) -> None:
        given = {  # Any: the other fields
            "name": name, "title": title, "level": level, "vector_bytes": vector_bytes, "n_registers": n_registers,
            "machines": frozenset(), "features": (), "tuning": (), "cpu_flags": frozenset(), "masked_bytes": (),
            "has_masked_gather": False, "has_table_permutation": False, "has_statistics": False, "is_shipped": False,
            **others,
        }  # fmt: skip
        for field, value in given.items():
            object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot assign to field {field!r} of an instruction set")

    def __repr__(self) -> str:
        return f"Isa({self.name!r})"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _isa_named, (self.name,)

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler options of generated kernels (gcc and clang)."""
        return (*(f"-m{feature}" for feature in self.features), *self.tuning)

    def exists_on(self, machine: str) -> bool:
        """Return whether processors of the family `machine` may have it."""
        return not self.machines or machine in self.machines


_X86: Final = frozenset({"x86_64", "AMD64", "amd64"})
_AVX2: Final = ("avx2", "fma", "bmi", "bmi2", "popcnt")
_AVX512: Final = ("avx512f", "avx512vl", "avx512dq", "avx512bw")

ISAS: Final[Mapping[str, Isa]] = {
    row.name: row
    for row in (
        Isa(name="baseline", title="any processor", level=0, vector_bytes=16, n_registers=16),
        Isa(
            name="avx2", title="x86-64 with AVX2 and FMA", level=1, vector_bytes=32, n_registers=16, machines=_X86,
            features=_AVX2, cpu_flags=frozenset({"avx2", "fma"}), masked_bytes=(32,),
            is_shipped=True,
        ),
        Isa(
            name="avx512", title="x86-64 with AVX-512 (F, VL, DQ, BW)", level=2, vector_bytes=64, n_registers=32,
            machines=_X86, features=(*_AVX512, *_AVX2), tuning=("-mprefer-vector-width=512",),
            cpu_flags=frozenset(_AVX512), masked_bytes=(64, 32), has_masked_gather=True,
            has_table_permutation=True, has_statistics=True, is_shipped=True,
        ),
        Isa(
            name="neon", title="aarch64 with Advanced SIMD", level=1, vector_bytes=16, n_registers=32,
            machines=frozenset({"aarch64", "arm64", "ARM64"}),
        ),
    )
}  # fmt: skip
"""Instruction sets by name, in ascending order of preference within a processor family."""


def _isa_named(name: str) -> Isa:
    return ISAS[name]


def _machine() -> str:
    """Return `platform.machine()`; the module is imported only where it is needed."""
    import platform

    return platform.machine()


def isas_of(machine: str = "") -> list[Isa]:
    """Return the instruction sets of a processor family (default: this machine's), in ascending order of level."""
    family = machine or _machine()
    return sorted((row for row in ISAS.values() if row.exists_on(family)), key=lambda row: row.level)


def best_isa(cpu_flags: Iterable[str], machine: str = "") -> Isa:
    """Return the highest instruction set of a processor with these flags in /proc/cpuinfo."""
    known = frozenset(cpu_flags)
    return [row for row in isas_of(machine) if row.cpu_flags <= known][-1]

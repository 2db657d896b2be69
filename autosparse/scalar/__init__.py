"""Scalar types: one row each.

A row says how every part of the library spells a type of numbers, and how kernels compute with it. The module imports
nothing of the package and no NumPy, so that build scripts can run it. `autosparse.core.dtypes` names NumPy's classes
of arrays with a fixed purpose, `autosparse.scalar.tensors` torch's dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

if TYPE_CHECKING:
    import numpy as np
    import torch

Kind = Literal["bool", "unsigned", "signed", "real", "complex"]
StoredName = Literal["bfloat16", "float16"]
"""Names of `HALF`, for type checkers."""


class ScalarType:
    """Type of numbers: kind, size, how languages and libraries spell it, and the type that sums of it have.

    A plain class: the methods of a named tuple or dataclass would be compiled at each import.
    """

    name: str
    """Name of NumPy's and torch's dtype, in schedules, plans and messages."""
    kind: Kind
    itemsize: int
    c: str
    """C type of an element in memory."""
    suffix: str
    """Suffix of C literals."""
    short: str
    """Name in generated kernels ("f32"): of loads and stores, and of vector types."""
    triton: str
    """Name in types of Triton's arguments; "": Triton kernels do not support it."""
    code: int
    """Number that the C runtime uses for values; -1: no kernel of one dtype reads it."""
    stored_code: int
    """Number that the C runtime uses for values in products of two dtypes (`pairs_api.h`); -1: none reads it."""
    index_code: int
    """Number that the C runtime uses for index arrays; -1: none."""
    blas: str
    """Letter in names of BLAS functions."""
    compute: str
    """Name of the type in which kernels multiply and sum it."""
    sums: str
    """Name of the type of long sequential sums (einsum): wider where single precision might keep two digits."""
    rounding: float
    """Maximum relative error of a value rounded to it for storage; 0: values are not rounded to it."""
    tolerance: float
    """Tolerance of a GPU kernel's result against torch's, relative to the largest element."""
    has_tf32: bool
    """True if Tensor Cores multiply it in TF32 where a schedule says so."""
    has_numpy: bool
    """True if NumPy has the type."""
    is_widened: bool
    """True if GPU kernels widen it by several instructions, which take registers."""
    pointer: str
    """C type of the address of an element, as cffi parses it."""
    array: str
    """C type of an array whose length cffi takes from its initializer."""
    part: str
    """Name of the type of the real and imaginary parts; its own name if it is not complex."""
    __slots__ = tuple(__annotations__)

    def __init__(self, name: str, kind: Kind, itemsize: int, c: str, **others: Any) -> None:  # Any: the other fields
        given = {
            "name": name, "kind": kind, "itemsize": itemsize, "c": c, "suffix": "", "short": "", "triton": "",
            "code": -1, "stored_code": -1, "index_code": -1, "blas": "", "compute": name, "sums": name,
            "rounding": 0.0, "tolerance": 0.0, "has_tf32": False, "has_numpy": True, "is_widened": False,
            "pointer": f"{c} *", "array": f"{c}[]", "part": name, **others,
        }  # fmt: skip
        for field, value in given.items():
            object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot assign to field {field!r} of a scalar type")

    def __repr__(self) -> str:
        return f"ScalarType({self.name!r})"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return scalar_of, (self.name,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype; raises TypeError if NumPy has none."""
        import numpy as np

        return np.dtype(self.name)

    @property
    def torch(self) -> torch.dtype:
        """Torch's dtype."""
        import torch

        found: torch.dtype = getattr(torch, self.name)
        return found

    @property
    def ctypes(self) -> Any:
        """Class of the module ctypes; bool and complex types have none."""
        import ctypes

        return getattr(ctypes, f"c_{self.c if self.kind == 'real' else self.name}")

    @property
    def n_parts(self) -> int:
        """Number of real numbers in an element: 2 of a complex type, else 1."""
        return 2 if self.kind == "complex" else 1

    def lanes(self, vector_bytes: int) -> int:
        """Return the number of elements in a vector of `vector_bytes`."""
        return vector_bytes // self.itemsize


SCALARS: Final[Mapping[str, ScalarType]] = {
    row.name: row
    for row in (
        ScalarType("bool", "bool", 1, "uint8_t", stored_code=4),
        ScalarType("uint8", "unsigned", 1, "uint8_t", short="u8", stored_code=5),
        ScalarType("uint16", "unsigned", 2, "uint16_t", short="u16", stored_code=6),
        ScalarType("uint32", "unsigned", 4, "uint32_t", short="u32", stored_code=7),
        ScalarType("uint64", "unsigned", 8, "uint64_t", short="u64", stored_code=8),
        ScalarType("int8", "signed", 1, "int8_t", short="i8", stored_code=9),
        ScalarType("int16", "signed", 2, "int16_t", short="i16", stored_code=10),
        ScalarType("int32", "signed", 4, "int32_t", short="i32", triton="i32", stored_code=11, index_code=0),
        ScalarType("int64", "signed", 8, "int64_t", short="i64", triton="i64", stored_code=12, index_code=1),
        ScalarType(
            "bfloat16", "real", 2, "uint16_t", triton="bf16", compute="float32", rounding=2.0**-8, tolerance=1e-1,
            is_widened=True, has_numpy=False,
        ),
        ScalarType(
            "float16", "real", 2, "uint16_t", triton="fp16", compute="float32", rounding=2.0**-11, tolerance=2e-2
        ),
        ScalarType(
            "float32", "real", 4, "float", suffix="f", short="f32", triton="fp32", code=0, stored_code=0, blas="s",
            sums="float64", tolerance=1e-4, has_tf32=True,
        ),
        ScalarType(
            "float64", "real", 8, "double", short="f64", triton="fp64", code=1, stored_code=1, blas="d", tolerance=1e-9
        ),
        ScalarType(
            "complex64", "complex", 8, "float _Complex", short="c64", code=2, stored_code=2, blas="c",
            sums="complex128", part="float32",
        ),
        ScalarType(
            "complex128", "complex", 16, "double _Complex", short="c128", code=3, stored_code=3, blas="z",
            part="float64",
        ),
    )
}  # fmt: skip
"""Scalar types by name, each kind in ascending order of size."""


def scalar_of(name: str) -> ScalarType:
    """Return the scalar type `name`; raise KeyError if there is none."""
    return SCALARS[name]


VALUE_CODES: Final = {row.name: row.code for row in SCALARS.values() if row.code >= 0}
"""Numbers of value types in the C runtime, by name: the types that kernels of one dtype support."""
PRODUCT_CODES: Final = {
    row.name: SCALARS.get(f"u{row.name}", row).stored_code for row in SCALARS.values() if row.stored_code >= 0
}
"""Numbers of types of products in the C runtime, by name: an integer type has the number of the unsigned one."""
INDEX_CODES: Final = {row.name: row.index_code for row in SCALARS.values() if row.index_code >= 0}
"""Numbers of index types in the C runtime, by name."""
GENERATED: Final = tuple(name for name in VALUE_CODES if SCALARS[name].short)
"""Value types for which kernels are generated."""
TRITON: Final = tuple(row.name for row in SCALARS.values() if row.triton and row.kind == "real")
"""Value types for which Triton kernels are generated."""
REAL: Final = tuple(name for name in VALUE_CODES if SCALARS[name].kind == "real")
"""Real types that kernels compute in."""
COMPLEX: Final = tuple(name for name in VALUE_CODES if SCALARS[name].kind == "complex")
"""Complex types that kernels compute in."""
HALF: Final = tuple(row.name for row in SCALARS.values() if row.rounding)
"""16-bit real types, which are stored; sums of them are computed in `ScalarType.compute`."""
DICTIONARY: Final = "numbered"
"""Name of dictionary-encoded values (CSR-VI) among the types of stored values. It is exact."""
INDICES: Final = tuple(INDEX_CODES)
"""Types of index arrays, the narrower one first."""
INDEX_TEXT: Final = " or ".join(INDICES)
"""Index types in a message."""
NARROW_INDEX: Final = SCALARS[INDICES[0]]
"""Type of indices whose arrays have fewer than 2^31 entries and extents."""
WIDE_INDEX: Final = SCALARS[INDICES[-1]]
"""Type of all other indices, and of positions and extents in C."""
SINGLE: Final = SCALARS[REAL[0]]
"""Type for which cost models have measurements; torch's default."""
DOUBLE: Final = SCALARS[REAL[-1]]
"""SciPy's default type, and the type of costs and estimates."""
PROGRAM_CODE: Final = SCALARS["int16"]
"""Type of the codes of schedules that models read."""
COORDINATE: Final = SCALARS["uint16"]
"""Narrowest type of coordinates within a tile; also the bits of half-precision values."""
BY_BITS: Final = {8 * row.itemsize: row for row in (COORDINATE, NARROW_INDEX, WIDE_INDEX)}
"""Types of stored coordinates and positions, by their number of bits."""
HASH: Final = SCALARS["uint64"]
"""Type of halves of a hash."""
BYTE: Final = SCALARS["uint8"]
"""Type of flags and of dictionary-encoded values, which are indices into a table."""
C_SIZE: Final = WIDE_INDEX.c
"""C type of positions, extents and counts in generated code."""
C_REAL: Final = DOUBLE.c
"""C type of times and estimates in generated code."""

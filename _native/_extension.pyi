"""Types of the extension module (`_native/extension`): access to Python's and NumPy's objects from C."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from autosparse._native.python_objects import OperandFields as OperandFields
from numpy.typing import NDArray

HEADERS: Final[str]
"""Digest of the declarations that the module shares with the C runtime (`asp_headers`)."""
FUNCTIONS: Final[tuple[str, ...]]
"""Names of the runtime's functions that the module calls."""

def connect(addresses: tuple[int, ...], /) -> None:
    """Store the addresses of the runtime's functions, in the order of FUNCTIONS; nothing works before."""

def connect_to(path: str, kept_bytes: int, /) -> int:
    """Load the C runtime from a file, let it keep so many bytes of freed results, and return the number of threads.

    Raises ImportError where the file is no runtime that was built from the same sources.
    """

def address_of(array: NDArray[Any], /) -> int:
    """Return the address of the first element of an array."""

def data_slot(array: NDArray[Any], /) -> int:
    """Return the address at which an array object stores the address of its elements."""

def references(objects: tuple[Any, ...], /) -> int:
    """Return the number of references to the members of a tuple, its own included."""

def references_with_bases(objects: list[Any], /) -> int:
    """Return the number of references to the members of a list, and to the bases of those that are arrays."""

def look(arrays: list[Any], n_rows: int, n_cols: int, checked: bool, /) -> int:
    """Validate a CSR matrix [indptr, indices, data] and return dtype code + 4 * index code.

    A negative number means that Python code must inspect the arrays. Indices are read only if `checked` is not True.
    """

def small_product(
    arrays: list[Any], n_rows: int, n_cols: int, checked: bool, B: object, out: object, transposed: bool, flags: int,
    most: int, /,
) -> int:  # fmt: skip
    """Compute out = A B (or A^T B) on this thread and return the time in ns.

    Returns a negative number if nothing was computed: more than `most` multiplications, or unsupported operands. B must
    be aligned and its strides whole elements.
    """

def product(
    arrays: tuple[Any, ...], n_rows: int, n_cols: int, checked: bool, B: object, out: object, transposed: bool, /
) -> bool:
    """Compute out = A B (or A^T B) on all threads; return False if the operands are not supported.

    B and out are arrays in C order of A's dtype. Indices are read before if `checked` is not True.
    """

def compile_sweep(
    steps: tuple[tuple[Any, ...], ...], n_threads: int, /
) -> tuple[Callable[..., tuple[Any, ...]], Callable[[int, NDArray[Any]], None], Callable[..., Any]] | None:
    """Return (run, bind, after) of a sweep (`linalg.sweeps`), or None if the steps do not fit each other.

    `after` takes the method `run` of a FastCall, the arguments of that method, and the coefficients of the sweep. It
    computes the product, executes the sweep, and returns the dot products, or None if the fast call did not serve.
    """

def advance_cg(
    product: tuple[Any, ...], sweeps: tuple[Callable[..., Any], ...], numbers: tuple[float, ...], n_most: int, /
) -> tuple[int, int, float, float, float, float, float]:
    """Run at most `n_most` iterations of conjugate gradients on a real system.

    `product` holds the method `run` of a FastCall and its arguments, `sweeps` builtins of the sweeps that turn p,
    compute p.q, and change r, and `numbers` r.r, r.z, the last r.z, the pending step of x, and the norm that ends the
    solve. Returns the number of whole iterations, where the last one ended (0: between iterations, 1: before the
    product, 2: p.q is 0), r.r, r.z, the last r.z, the pending step, and the least norm.
    """

def advance_columns_cg(
    product: tuple[Any, ...], sweeps: tuple[int, ...], numbers: NDArray[Any], n_most: int, /
) -> tuple[int, int, float]:
    """Run at most `n_most` iterations of conjugate gradients for each column of a real system.

    `product` is that of `advance_cg`. `sweeps` holds the addresses of the asp_sweep structures that turn p, compute
    p.q, and change r. `numbers` is an array (6, k) of doubles, which are changed: r.r, r.z, the last r.z, the pending
    step of x, the norm that ends the column, and whether it runs. Returns the number of whole iterations, where the
    last one ended (0: between iterations, 1: before the product), and the least of their largest norms. Iterations end
    when a running column does.
    """

def advance_columns_bicgstab(
    products: tuple[tuple[Any, ...], tuple[Any, ...]], sweeps: tuple[int, ...], numbers: NDArray[Any],
    smallest: float, n_most: int, /,
) -> tuple[int, int, float]:  # fmt: skip
    """Run at most `n_most` iterations of BiCGSTAB for each column of a real system.

    `products` and the order of the `sweeps`, addresses of asp_sweep structures, are those of `advance_bicgstab`.
    `numbers` is an array (8, k) of doubles, which are changed: r.r, rho, the last rho, alpha, omega, the square of the
    norm in the middle of an iteration, the norm that ends the column, and whether it runs. A column breaks down if
    |rho| or |omega| is below `smallest`. Returns the number of whole iterations, where the last one ended (0: between
    iterations, 1: before the first product, 3: before the test in the middle), and the least of their largest norms.
    Iterations end when a running column does.
    """

def advance_columns_minres(
    products: tuple[tuple[Any, ...], ...], sweeps: tuple[tuple[int, ...], ...], numbers: NDArray[Any],
    constants: tuple[float, ...], n_most: int, /,
) -> tuple[int, float]:  # fmt: skip
    """Run at most `n_most` iterations of MINRES for each column of a real system.

    `products` and `sweeps` hold, for each of three turns of the vectors, a product as for `advance_cg`, and addresses
    of asp_sweep structures: they normalize v, compute A v, orthogonalize it, and change w and x. `numbers` is an array
    (15, k) of doubles, which are changed: SciPy's beta1, beta, the last beta, dbar, epsln, phibar, tnorm2, gmax, gmin,
    cs, sn and root, |x|^2, whether the right-hand side is an eigenvector, and whether the column runs. `constants` are
    the machine epsilon, the ratio of gmax and gmin that ends a column, the tolerance, and the shift. Returns the number
    of iterations, and the least of their largest phibar. Iterations end when a running column does.
    """

def advance_bicgstab(
    products: tuple[tuple[Any, ...], tuple[Any, ...]], sweeps: tuple[Callable[..., Any], ...],
    numbers: tuple[float, ...], n_most: int, /,
) -> tuple[int, int, tuple[float, ...], float]:  # fmt: skip
    """Run at most `n_most` iterations of BiCGSTAB on a real system.

    `products` are v = A M p and t = A M r, each as for `advance_cg`. `sweeps` holds builtins of the sweeps that turn p,
    compute shadow.v, change r, compute (t.r, t.t), and change x and r; `numbers` r.r, rho, the last rho, alpha, omega,
    the norm that ends the solve, and the least |rho| and |omega|. Returns the number of whole iterations, where the
    last one ended (0: between iterations, 1: before v, 2: shadow.v is 0, 3: before t, or the norm of the changed r is
    below the limit, 4: t.t is 0), the first five numbers, shadow.v, r.r after the first change, t.r and t.t, and the
    least norm.
    """

def advance_minres(
    products: tuple[tuple[Any, ...], ...], sweeps: tuple[Callable[..., Any], ...], vectors: tuple[NDArray[Any], ...],
    scalars: tuple[float, ...], constants: tuple[float, ...], counts: tuple[int, ...], /,
) -> tuple[int, int, float, tuple[float, ...]]:  # fmt: skip
    """Run iterations of MINRES (`linalg.minimal_residual`), which exchange the vectors of the sweeps.

    `products` are A v, stored in the vector that is new after 0, 1 and 2 iterations, each as for `advance_cg`. `sweeps`
    holds builtins of the sweeps that multiply, orthogonalize and update; `vectors` r1, r2, new, w and w2; `counts` the
    maximum number of iterations, the number of steps so far and its maximum, and whether M is a diagonal. Returns the
    number of iterations, SciPy's istop, the least criterion, and the scalars. ValueError is raised if the matrix is
    found not to be symmetric.
    """

def advance_lsqr(
    products: tuple[tuple[Any, ...], tuple[Any, ...]], sweeps: tuple[Callable[..., Any], ...],
    scalars: tuple[float, ...], constants: tuple[float, ...], counts: tuple[float, ...], /,
) -> tuple[int, int, int, float, tuple[float, ...]]:  # fmt: skip
    """Run iterations of LSQR (`linalg.least_squares`) in double precision.

    `products` are A v and A^T u, each as for `advance_cg`. `sweeps` holds builtins of the sweeps that compute u and
    u.u, v and v.v, and x; `counts` the maximum number of iterations, the number of iterations so far, and the limit of
    the solve. Returns the number of whole iterations, SciPy's istop, where the last one ended (0: between iterations,
    1: before A^T u, 2: where Python's floats raise ArithmeticError), the least criterion, and the scalars.
    """

def advance_lsmr(
    products: tuple[tuple[Any, ...], tuple[Any, ...]], sweeps: tuple[Callable[..., Any], ...],
    scalars: tuple[float, ...], constants: tuple[float, ...], counts: tuple[float, ...], /,
) -> tuple[int, int, int, float, tuple[float, ...]]:  # fmt: skip
    """Run iterations of LSMR in double precision; arguments and result are those of `advance_lsqr`."""

def make_field(
    owner: type, operand_type: type, slot: object, position: int, name: str, doc: str, fetch: Callable[[Any], Any],
    put: Callable[[Any, Any], None], /,
) -> Any:  # fmt: skip
    """Return a descriptor of class `owner` for an array of its operand, which lives as long as the process.

    `slot` is the descriptor of the attribute that holds the operand. The descriptor reads the operand's list directly
    if that changes nothing in the operand's bookkeeping; otherwise it calls `fetch(object)` or `put(object, value)`.
    """

def empty(shape: tuple[int, ...], dtype: np.dtype[Any], is_scratch: bool, /) -> NDArray[Any]:
    """Return ``np.empty(shape, dtype)`` in memory of the runtime's allocator of results, or of work space."""

class Watch:
    """State by which writes to the arrays of an operand are detected without Python code."""

    n_looks: int
    look_ns: int
    smoothed_look_ns: int
    total_look_ns: int
    @property
    def n_looks_of(self) -> tuple[int, int, int]:
        """Number of looks at indptr, indices and data."""

    def look(self, operand: OperandFields, refreshes: bool, n_threads: int, /) -> bool:
        """Check the arrays of the operand; False means that Python must check. n_threads 0: asp_max_threads().

        With refreshes False, return whether the structure is unchanged, and so within bounds; if exported arrays are no
        longer referenced elsewhere, the operand's `rows` are set. With refreshes True, return whether all arrays were
        checked and the structure is unchanged; the version of the values is raised if the values have changed.
        """

    def fill_in(
        self, rows: object, extents: tuple[int, int], itype: int, arrays: tuple[tuple[Any, ...], ...], /
    ) -> None:
        """Watch three arrays from now on; `extents`: (n_rows, nnz).

        One tuple per array: (array, tuple of the objects that hold its memory or None, number of references to
        these without outside references and views of ours, number of these objects beneath its base, whether a view of
        ours is held, hashes per chunk or None, versions per chunk or None).
        """

    def retire(self) -> None:
        """Disable answers until `fill_in`, and drop all references."""

    def note_lease(self, field: int, /) -> None:
        """Count one more reference to an array as the package's own."""

class FastCall:
    """Product of one operand and one shape that goes from Python directly to a kernel (`dispatch.fast_path`)."""

    n_dims: int
    dtype: int
    itype: int
    flags: int
    n_threads: int
    is_turned: int
    n_major: int
    n_minor: int
    n_vecs: int
    indptr: int
    indices: int
    data: int
    n_calls: int
    product_ns: int
    limit_ns: int
    n_running: int
    looks_left: int
    kernel: int
    kernel_operand: int
    chunk: int
    most_threads: int
    value_bytes: int
    n_reads: int
    fixed_indptr: int
    fixed_indices: int
    fixed_data: int
    def __init__(
        self, operand: OperandFields, rows: object, options: object, transposed: bool, dtype: np.dtype[Any],
        kept: object, /,
    ) -> None: ...  # fmt: skip
    def run(self, operand: OperandFields, B: object, out: object, options: object, transposed: bool, /) -> bool:
        """Compute out = A B (or A^T B) unless anything has changed; return whether out holds the product."""

    def take(self) -> tuple[int, int]:
        """Return the number of calls and their ns since the last `take`."""

    def guard(self, watch: Watch, packed_copy: object, structure_version: int, /) -> None:
        """Read a packed copy, after checks of the operand's arrays by `watch`."""

    def release(self) -> None:
        """Serve nothing any more, and drop the packed copy."""

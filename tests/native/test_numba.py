"""Tests of the numba backend: its kernels compute what interpreter and SciPy compute, without a C compiler."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from autosparse import _native, cache, config
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import BuildError
from tests.native import cases
from tests.native.interpreter import interpret

numba = pytest.importorskip("numba", reason="the extra numba is not installed")

SLICES = (
    cases.schedule("i1:U,k1:S,i0:U | i=8", "i1 k1 i0", unroll=2),
    cases.schedule("i1:U,k1:D,i0:U | i=4 | sigma=8 | bits=16", "i1 k1 i0", prefetch=16, partition="dynamic", chunk=2),
)
PRESETS = (*cases.FAMILY, *SLICES)
ROOT = Path(__file__).resolve().parent.parent.parent


def kernel(made: SuperSchedule, dtype: str = "float32", index_dtype: str = "int32") -> _native.CompiledKernel:
    return _native.build(cases.spec(made, dtype, index_dtype), store=cache.open_store(), compiler="numba")


def product(
    of: _native.CompiledKernel, packed: _native.PackedOperand, B: NDArray[np.generic], n_threads: int
) -> tuple[NDArray[np.generic], bool]:
    C = np.full((packed.sizes["i"], B.shape[1]), np.nan, dtype=B.dtype)
    n = B.shape[1]
    return C, of.bind(packed).run(B.ctypes.data, n, C.ctypes.data, n, n, n_threads)


def check(made: SuperSchedule, dtype: str, index_dtype: str) -> None:
    """Check kernel == interpreter == SciPy over patterns of all kinds, orientations, widths and numbers of threads."""
    of = kernel(made, dtype, index_dtype)
    rows = ([5] * 23, [], [0] * 7, [9] * 7, [0, 40, 0, 1], np.arange(60) % 4)
    for seed, (lengths, n_cols) in enumerate(zip(rows, (31, 4, 9, 9, 17, 60), strict=True)):
        taken = cases.sample(len(lengths), n_cols, list(lengths), seed=seed, dtype=dtype, index_dtype=index_dtype)
        for transposed, n in itertools.product((False, True), cases.n_columns(made)):
            if not cases.fits(made, taken, transposed=transposed):
                continue
            packed = _native.pack(taken.pattern, taken.data, made.format, transposed=transposed)
            operand = taken.matrix.T if transposed else taken.matrix
            B = np.random.default_rng(seed).integers(-3, 4, (operand.shape[1], n)).astype(dtype)
            expected = operand @ B
            for n_threads in (1, 2):
                C, exact = product(of, packed, B, n_threads)
                assert exact
                np.testing.assert_array_equal(C, expected)
            if taken.pattern.nnz * n < 300:
                np.testing.assert_array_equal(interpret(of.spec, packed, B, 2), expected)


@pytest.mark.parametrize("made", PRESETS[::16], ids=cases.label)
def test_numba_equals_interpreter_equals_scipy(made: SuperSchedule) -> None:
    check(made, "float32", "int32")


@pytest.mark.parametrize("made", PRESETS[2::16], ids=cases.label)
def test_numba_in_double_with_wide_indices(made: SuperSchedule) -> None:
    check(made, "float64", "int64")


@pytest.mark.full
@pytest.mark.parametrize("made", PRESETS, ids=cases.label)
def test_numba_everywhere(made: SuperSchedule) -> None:
    check(made, "float32", "int32")
    check(made, "float64", "int64")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(200))
def test_random_schedules_of_the_whole_template(seed: int) -> None:
    check(cases.random_schedule(np.random.default_rng(seed)), "float32", "int32")


@pytest.mark.parametrize("made", SLICES, ids=cases.label)
def test_a_kernel_vouches_for_nothing_that_padding_spoilt(made: SuperSchedule) -> None:
    """Check non-finite values: a result that the kernel reports as exact equals SciPy's."""
    of = kernel(made)
    for seed, bad in enumerate((np.inf, -np.inf, np.nan)):
        taken = cases.sample(11, 9, [0, 3, 1, 2, 0, 4, 1, 1, 2, 0, 3], seed=seed)
        B = np.random.default_rng(seed).integers(-3, 4, (9, 5 if made.dense_split("j") else 1)).astype(np.float32)
        B[seed * 3, 0] = bad
        packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
        flags: list[int] = []
        with np.errstate(invalid="ignore"):
            expected = taken.matrix @ B
            interpret(of.spec, packed, B, flags=flags)
        C, exact = product(of, packed, B, 1)
        assert exact == (not flags[0])
        if exact:
            np.testing.assert_array_equal(C, expected)


def test_thread_count_does_not_change_a_bit() -> None:
    rng = np.random.default_rng(5)
    taken = cases.sample(60, 50, rng.integers(0, 30, 60).tolist(), seed=6)
    taken.data[:] = rng.standard_normal(taken.data.size)
    for made in (PRESETS[4], PRESETS[16]):
        B = rng.standard_normal((50, 33 if made.dense_split("j") else 1)).astype(np.float32)
        packed = _native.pack(taken.pattern, taken.data, made.format, transposed=False)
        results = [product(kernel(made), packed, B, n_threads)[0] for n_threads in (1, 2, 3, 7)]
        assert all(np.array_equal(results[0], other) for other in results[1:])


def run_python(code: str, **extra: str) -> str:
    environment = {**os.environ, "AUTOSPARSE_CC": "", **extra}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TUNE = """
import numpy as np, scipy.sparse as sp, autosparse as asp
from autosparse import _native
from autosparse._native.kernels.identity import backend_name
assert _native.compiler_id().startswith("numba"), _native.compiler_id()
S = sp.random_array((2000, 2000), density=0.01, random_state=np.random.default_rng(0), format="csr", dtype=np.float32)
A, B = asp.csr(S), np.ones((2000, 16), np.float32)
A.tune("matmul", columns=16, runs=10_000_000, effort="measure", budget_s=4)
np.testing.assert_allclose(A @ B, S @ B, rtol=1e-4)
np.testing.assert_allclose(A @ B[:, 0], S @ B[:, 0], rtol=1e-4)
print(backend_name(None), "could not be built" not in str(A.explain(B)))
"""


def test_without_a_compiler_tuning_uses_numba(tmp_path: Path) -> None:
    """Check that kernels are built, measured and stored with an empty PATH."""
    empty = tmp_path / "bin"
    empty.mkdir()
    said = run_python(TUNE, PATH=str(empty), AUTOSPARSE_CACHE_DIR=str(tmp_path / "cache"))
    assert said.endswith("numba True")
    assert list((tmp_path / "cache").rglob("kernel.o"))
    assert not list((tmp_path / "cache").rglob("kernel.so"))


LOAD = """
import sys
from tests.native import cases
from autosparse import _native, cache
of = cases.spec(cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 8))
print(_native.is_built(of, store=cache.open_store(), compiler="numba"), end=" ")
_native.build(of, store=cache.open_store(), compiler="numba")
print("numba" in sys.modules)
"""


@pytest.fixture(scope="module")
def with_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder with the kernel of `LOAD`, which another process has compiled."""
    folder = tmp_path_factory.mktemp("cache")
    assert run_python(LOAD, AUTOSPARSE_CACHE_DIR=str(folder)) == "False True"
    return folder


def test_a_kernel_of_another_process_is_loaded_without_numba(with_kernel: Path) -> None:
    assert run_python(LOAD, AUTOSPARSE_CACHE_DIR=str(with_kernel)) == "True False"


FAR = """
import ctypes
import numpy as np
from tests.native import cases
from tests.native.test_numba import kernel, product
from autosparse import _native
from autosparse._native.numba.backend import NumbaBackend
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NO_RESERVE, PAGE, GIB = 0x4022, 4096, 1 << 30
def reserve(size):
    found = libc.mmap(None, size, 0, NO_RESERVE, -1, 0)
    assert found != ctypes.c_void_p(-1).value, "no room for addresses, not even unused ones"
    return found
made = cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 8)
of = kernel(made)
wall = reserve(64 * GIB)
while reserve(PAGE) > wall:
    pass
for at in range(1, 13):
    libc.munmap(wall + at * 5 * GIB, PAGE)
of = NumbaBackend().load(of.spec, of.path.parent)
taken = cases.sample(4, 9, [2, 0, 3, 1], seed=0)
B = np.arange(9 * 16.0, dtype=np.float32).reshape(9, 16)
C, exact = product(of, _native.pack(taken.pattern, taken.data, made.format, transposed=False), B, 1)
print(exact, np.array_equal(C, taken.matrix @ B))
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems than Linux fill the address space in another way"
)
def test_where_memory_is_crowded_the_pieces_of_a_kernel_stay_together(with_kernel: Path) -> None:
    """Check with free pages 5 GiB apart: code that was mapped page by page could not reach its constants."""
    assert run_python(FAR, AUTOSPARSE_CACHE_DIR=str(with_kernel)) == "True True"


def test_ir_and_python_are_written_where_asked(tmp_path: Path) -> None:
    made = cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 8, prefetch=91)
    with config.options(dump_dir=tmp_path):
        of = kernel(made).spec
    assert "accumulate" in (tmp_path / f"{of.key()}.ir").read_text()
    assert "def kernel(" in (tmp_path / f"{of.key()}.py").read_text()


def test_an_object_that_is_none_is_a_build_error(tmp_path: Path) -> None:
    from autosparse._native.numba.backend import OBJECT_NAME, NumbaBackend

    of = cases.spec(cases.SPMV[0])
    with pytest.raises(BuildError, match="cannot be read"):
        NumbaBackend().load(of, tmp_path)
    (tmp_path / OBJECT_NAME).write_bytes(b"no object")
    with pytest.raises(BuildError, match="cannot be loaded"):
        NumbaBackend().load(of, tmp_path)

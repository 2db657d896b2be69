"""Tests of the runtime and the extension module with sanitizers: addresses, undefined behaviour, and data races."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NATIVE = REPOSITORY / "_native"
NATIVE_TESTS = (
    "test_runtime_matmul.py",  # the longest first: each core runs one file at a time
    "test_runtime_llc_contention.py",
    "test_graph_kernels.py",
    "test_assembly.py",
    "test_composites.py",
    "test_counts.py",
    "test_extension.py",
    "test_register_gather.py",
    "test_dictionary.py",
    "test_pack.py",
    "test_ready.py",
    "test_ready_sddmm.py",
    "test_runtime_concurrent_callers.py",
    "test_runtime_memory.py",
    "test_runtime_neighbours.py",
    "test_runtime_panels.py",
    "test_runtime_pool.py",
    "test_runtime_team.py",
    "test_runtime_shifts.py",
    "test_runtime_structure.py",
    "test_runtime_transposed.py",
    "test_runtime_identical_rows.py",
    "test_sharing_slices.py",
    "test_shipped.py",
    "test_slices.py",
    "test_sweeps.py",
    "test_waconet.py",
    "../ops/test_widths.py",
)
THREADED_TESTS = (
    "test_runtime_matmul.py",
    "test_runtime_llc_contention.py",
    "test_graph_kernels.py",
    "test_runtime_concurrent_callers.py",
    "test_runtime_neighbours.py",
    "test_runtime_pool.py",
    "test_runtime_team.py",
    "test_runtime_transposed.py",
    "test_sweeps.py",
)
OPERATION_TESTS = (
    "../dispatch/test_fast_path.py",
    "../dispatch/test_fast_path_generated.py",
    "../ops/test_mttkrp.py",
    "../ops/test_sddmm.py",
    "../ops/test_spgemm.py",
    "../linalg/test_triangular.py",
    "../linalg/test_incomplete.py",
)
SANITIZERS = {
    "address,undefined": ("libasan.so", (*NATIVE_TESTS, *OPERATION_TESTS)),
    "thread": ("libtsan.so", (*THREADED_TESTS, *OPERATION_TESTS)),
}
# Each sanitizer must report this: two threads write past the end of a result at once.
MISTAKE = """
import threading
import numpy as np
from autosparse._native.runtime_api import ffi, lib

found, begin = np.zeros(3 - SHORT, "int64"), threading.Barrier(2)

def call():
    begin.wait()
    for _ in range(10_000):  # with five, one thread had often ended before the other began
        lib.asp_pool_counters(ffi.cast("int64_t *", found.ctypes.data))

threads = [threading.Thread(target=call) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
# Python would look for autosparse in the working directory first, and pytest in the folder above the tests.
SANITIZED_TESTS = """
import sys
sys.path.pop(0)
import autosparse._native._runtime as runtime
assert runtime.__file__.startswith(sys.argv[1]), runtime.__file__
import pytest
code = pytest.main(sys.argv[2:])
assert sys.modules["autosparse._native.runtime_api"].lib is runtime.lib
sys.exit(code)
"""
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # Python, NumPy and OpenBLAS are not instrumented: it sees their accesses, but not their synchronisation.
    "TSAN_OPTIONS": "halt_on_error=1:ignore_noninstrumented_modules=1:die_after_fork=0",
}


def library(name: str) -> str:
    done = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def sanitized(folder: Path, sanitizer: str) -> None:
    """Prepare `folder` for PYTHONPATH: `autosparse` there is this checkout with a sanitized runtime and extension."""
    package = folder / "autosparse"
    (package / "_native").mkdir(parents=True)
    for source in (REPOSITORY / "autosparse").iterdir():
        (package / source.name).symlink_to(source)
    for name in ("tuner", "cache"):
        (package / name).symlink_to(REPOSITORY / name)
    for source in NATIVE.iterdir():
        if not source.name.startswith(("_runtime", "_extension.cpython")):
            (package / "_native" / source.name).symlink_to(source)
    builder = [sys.executable, str(NATIVE / "runtime" / "build_runtime.py"), str(package / "_native")]
    subprocess.run(builder, env={**os.environ, "AUTOSPARSE_SANITIZE": sanitizer}, check=True, capture_output=True)


@pytest.mark.full
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_no_sanitizer_speaks_up(tmp_path: Path, sanitizer: str) -> None:
    name, tests = SANITIZERS[sanitizer]
    if shutil.which("cc") is None or not Path(library(name)).is_absolute():
        pytest.skip(f"no cc with {name}")
    tree = tmp_path / "sanitized"
    sanitized(tree, sanitizer)
    environment = {**os.environ, **OPTIONS, "PYTHONPATH": str(tree), "LD_PRELOAD": library(name)}
    mistake = MISTAKE.replace("SHORT", str(int("address" in sanitizer)))
    done = subprocess.run([sys.executable, "-c", mistake], env=environment, cwd=tree, capture_output=True, check=False)
    assert done.returncode != 0
    assert b"in asp_pool_counters" in done.stderr, done.stderr[-2000:]
    command = [sys.executable, "-c", SANITIZED_TESTS, str(tree), "-x", "-q", "-p", "no:cacheprovider"]
    # beyond_32_bits: 13 GB, and shadow memory would be written. many_rows: threads that wait for each other at every
    # stage take minutes with the race detector. no_room, from_the_heap: memory of the process, which sanitizers change.
    left_out = "not beyond_32_bits and not no_room and not from_the_heap"
    # no_threads_of: a count of threads, of which the race detector has one.
    left_out += " and not many_rows and not no_threads_of" if sanitizer == "thread" else ""
    command += ["-p", "no:faulthandler", "-k", left_out]

    def run(test: str) -> subprocess.CompletedProcess[str]:
        arguments = [*command, str(REPOSITORY / "tests" / "native" / test)]
        apart = {**environment, "AUTOSPARSE_CACHE_DIR": str(tmp_path / Path(test).stem)}
        return subprocess.run(arguments, env=apart, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for test, done in zip(tests, pool.map(run, tests), strict=True):
            assert done.returncode == 0, f"{test}\n{done.stdout[-6000:]}{done.stderr[-6000:]}"

"""Tests of precompiled kernels: the build compiles the emitter's sources, and they compute what their specs say."""

from __future__ import annotations

import dataclasses
import functools
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api
from autosparse._native.kernels import implementations
from autosparse._native.kernels.shipped import shipped_kernel
from autosparse._native.kernels.shipped_sources import sources
from autosparse._native.kernels.shipped_specs import SHIPPED_ISAS, specs
from autosparse._native.storage.packing import reason_unfit

from autosparse import _native, config
from autosparse.core.pattern import Pattern
from tests.house.sources import IN_CHECKOUT
from tests.native import cases
from tests.native.runtime_cases import isas, needs_runtime

pytestmark = needs_runtime
RUNTIME = Path(_native.__path__[0]) / "runtime"
SPECS = [spec for isa in isas() if isa in SHIPPED_ISAS for spec in specs(isa)]
needs_vectors = pytest.mark.skipif(not SPECS, reason="no avx2 here")


@functools.cache
def generated() -> dict[str, str]:
    """Return the generated sources of the runtime by file name; emitting them takes seconds."""
    return sources() | runpy.run_path(str(RUNTIME / "write_shipped.py"))["levels"]()


@pytest.mark.parametrize("seed", ["1", pytest.param("2", marks=pytest.mark.full)])
def test_the_build_writes_the_emitters_sources(tmp_path: Path, seed: str) -> None:
    """Check that the text depends neither on hash seeds, locale or folder, nor on packages that are installed."""
    environment = {"PYTHONHASHSEED": seed, "LC_ALL": "C"} | {k: v for k, v in os.environ.items() if k == "SYSTEMROOT"}
    (tmp_path / "shipped_of_an_old_version.c").touch()
    command = [sys.executable, "-S", str(RUNTIME / "write_shipped.py"), str(tmp_path)]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == generated()


@pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")
def test_no_generated_source_is_committed() -> None:
    assert not [path for path in RUNTIME.rglob("*") if path.name in generated()]


@needs_vectors
def test_shipped_kernels_compute_their_specs():
    rng = np.random.default_rng(0)
    A = (sp.random(70, 61, density=0.15, random_state=1, format="csr") + sp.eye(70, 61)).tocsr()
    A.data[:] = rng.integers(1, 5, A.nnz)
    for spec in SPECS:
        tile = spec.schedule.dense_split("j")
        n = tile + 3 if tile else 1  # a tile and a remainder
        m, x = A.astype(spec.dtype), cases.integers(rng, (61, n), spec.dtype)
        m.data *= 1 if np.isrealobj(x) else 1 - 2j
        pattern = Pattern(*m.shape, m.indptr.astype(spec.index_dtype), m.indices.astype(spec.index_dtype))
        assert reason_unfit(pattern, spec.schedule.format, transposed=False) is None
        packed, got = (
            _native.pack(pattern, m.data, spec.schedule.format, transposed=False),
            np.full((70, n), np.nan, spec.dtype),
        )
        for threads in (1, 2):
            assert shipped_kernel(spec, None).bind(packed).run(x.ctypes.data, n, got.ctypes.data, n, n, threads)
            np.testing.assert_array_equal(got, m @ x, err_msg=str(spec))


@needs_vectors
def test_shipped_kernels_need_no_sorted_columns_or_private_outputs():
    for spec in SPECS:
        program = implementations.lower.lower(spec)
        assert not program.needs_sorted
        assert not program.private


@needs_vectors
def test_no_compiler_is_needed(tmp_path):
    class Empty:
        def artefact(self, *_):
            raise AssertionError("a shipped kernel was looked for in the cache")

        find_artefact = artefact

    spec = dataclasses.replace(SPECS[0], schedule=dataclasses.replace(SPECS[0].schedule, partition="dynamic", chunk=8))
    assert _native.is_built(spec, store=Empty())
    assert _native.build(spec, store=Empty()).address == shipped_kernel(SPECS[0], None).address
    assert _native.loaded(spec).spec == spec
    assert shipped_kernel(spec, sys.executable) is None, "a compiler was named"
    assert shipped_kernel(spec, "numba") is None
    assert shipped_kernel(spec, "no-such-compiler").address == shipped_kernel(SPECS[0], None).address
    with config.options(dump_dir=tmp_path):
        assert shipped_kernel(spec, None) is None


def test_other_specs_are_not_shipped():
    assert runtime_api.lib.asp_shipped_kernel(b"") == 0
    for spec in SPECS[:1]:
        assert shipped_kernel(dataclasses.replace(spec, adds=True), None) is None

"""Tests of libraries that must accept our matrices as SciPy's: anndata, Dask, pydata/sparse, pandas, scikit-network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.interop import neighbours
from tests.covering import in_turn

CLASSES = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
PLAIN = sps.random_array((60, 20), density=0.3, random_state=np.random.default_rng(0), format="csr")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", CLASSES)
def test_anndata_writes_reads_and_views_ours(name: str, tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    A = getattr(asp, name)(PLAIN)
    annotated = anndata.AnnData(A)
    annotated.write_h5ad(tmp_path / "a.h5ad")
    assert abs(anndata.read_h5ad(tmp_path / "a.h5ad").X - PLAIN).nnz == 0
    view = annotated[:7].X
    assert isinstance(view, type(A))
    assert type(view.copy()) is type(A)
    np.testing.assert_allclose(view @ np.ones(20), (PLAIN @ np.ones(20))[:7])
    annotated[:7].copy().write_h5ad(tmp_path / "b.h5ad")
    assert anndata.read_h5ad(tmp_path / "b.h5ad").X.shape == (7, 20)


@pytest.mark.parametrize("name", CLASSES)
def test_dask_takes_ours_for_sparse(name: str) -> None:
    da = pytest.importorskip("dask.array")
    A = getattr(asp, name)(PLAIN)
    found = da.from_array(A, chunks=(30, 20)).compute()
    assert abs(found - PLAIN).nnz == 0
    like = da.utils.asarray_safe(np.eye(3), like=A)
    assert type(like) is type(A)


@pytest.mark.parametrize("name", CLASSES)
def test_distributed_sends_ours(name: str) -> None:
    protocol = pytest.importorskip("distributed.protocol")
    A = getattr(asp, name)(PLAIN)
    found = protocol.deserialize(*protocol.serialize(A))
    assert type(found) is type(A)
    assert abs(found - PLAIN).nnz == 0
    np.testing.assert_allclose(found @ np.ones(20), PLAIN @ np.ones(20))
    np.testing.assert_allclose(found.T @ np.ones(60), PLAIN.T @ np.ones(60))


EXPRESSIONS = ("COO(A)", "GCXS(A)", "asarray(A)", "P + A")
MORE = ("A + P", "P == A", "P * A", "P @ A.T")  # numba takes seconds to compile each


@in_turn("text", "name", first=EXPRESSIONS, second=CLASSES)
def test_pydata_sparse_takes_ours(text: str, name: str) -> None:
    sparse = pytest.importorskip("sparse")
    P = sparse.COO.from_scipy_sparse(PLAIN)
    names = {"COO": sparse.COO, "GCXS": sparse.GCXS, "asarray": sparse.asarray, "P": P}
    found = eval(text, {**names, "A": getattr(asp, name)(PLAIN)})
    wanted = eval(text, {**names, "A": getattr(sps, name)(PLAIN)})
    assert type(found) is type(wanted)
    np.testing.assert_allclose(found.todense(), wanted.todense())


@pytest.mark.full
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("text", MORE)
def test_pydata_sparse_takes_ours_in_more_expressions(text: str, name: str) -> None:
    test_pydata_sparse_takes_ours(text, name)


def test_scikit_network_takes_the_base_of_ours() -> None:
    """Check what docs/differences.md says: scikit-network compares `type(A)`, and has no registry for other classes."""
    ranking = pytest.importorskip("sknetwork.ranking", reason="scikit-network is not installed")
    graph = sps.csr_matrix((PLAIN[:20] + PLAIN[:20].T) > 0, dtype=float)
    A, rank = asp.csr_matrix(graph), ranking.PageRank().fit_predict
    np.testing.assert_array_equal(rank(A.base), rank(graph))
    with pytest.raises(TypeError, match="must be in Scipy sparse format"):
        rank(A)
    with asp.install(), pytest.raises(TypeError, match="must be in Scipy sparse format"):
        rank(graph)
    np.testing.assert_array_equal(rank(A.base), rank(graph))


def test_classes_have_our_public_module_and_instances_scipys() -> None:
    for name in CLASSES:
        kind = getattr(asp, name)
        assert kind.__module__ == "autosparse"
        assert kind((2, 2)).__module__ == getattr(sps, name).__module__


LIMITS = """
import numpy as np, scipy.sparse as sps, threadpoolctl, autosparse as asp
from autosparse._native import runtime_api
A = asp.csr(sps.eye_array(10, format="csr")); A @ np.ones(10)
def most(**how):
    with threadpoolctl.threadpool_limits(**how):
        return runtime_api.max_threads()
(ours,) = [one for one in threadpoolctl.threadpool_info() if one["internal_api"] == "autosparse"]
assert ours["user_api"] == "openmp", ours
before = runtime_api.max_threads()
asked = most(limits=1), most(limits=1, user_api="openmp"), most(limits=1, user_api="blas"), most(limits=before)
assert asked == (1, 1, before, before), asked
assert runtime_api.max_threads() == before and runtime_api.lib.asp_limit_threads(-1) == 0
with threadpoolctl.threadpool_limits(limits={"_runtime": 1}):
    with threadpoolctl.threadpool_limits(limits={"_runtime": before}):
        pass
    assert runtime_api.max_threads() == 1
assert runtime_api.max_threads() == before
"""


def test_limits_of_threadpoolctl_reach_our_threads_and_those_of_blas_do_not() -> None:
    run(LIMITS)


REGISTERED = """
import sys, numpy as np, autosparse as asp
asp.csr(np.eye(3))
assert not {"anndata", "dask", "threadpoolctl"} & sys.modules.keys()
from autosparse.interop import neighbours
assert set(neighbours.PENDING) == {"anndata", "dask.array", "threadpoolctl"}
import dask.array as da
asp.csc_matrix(np.eye(3))
assert set(neighbours.PENDING) == {"anndata", "threadpoolctl"}, neighbours.PENDING
"""


def test_registering_imports_no_library_and_waits_for_it() -> None:
    pytest.importorskip("dask.array")
    run(REGISTERED)


def test_a_library_that_is_being_imported_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spec:
        _initializing = True

    class Module:
        __spec__ = Spec()

    monkeypatch.setitem(neighbours.PENDING, "no_such_library", "autosparse.no_such_module")
    modules: dict[str, Any] = {"no_such_library": Module()}
    monkeypatch.setattr(neighbours, "_modules", modules)
    neighbours.greet()
    assert "no_such_library" in neighbours.PENDING


@pytest.mark.parametrize("kind", ["COO", "GCXS", "DOK"])
def test_matrices_of_pydata_sparse_are_taken(kind: str) -> None:
    sparse = pytest.importorskip("sparse")
    P = getattr(sparse, kind)(sparse.COO.from_scipy_sparse(PLAIN))
    X, Y = np.ones((60, 3)), np.ones((3, 20))
    for take in (asp.csr, asp.csc):
        assert abs(take(P) - PLAIN).nnz == 0
    np.testing.assert_allclose(asp.sddmm(P, X, Y).toarray(), 3 * PLAIN.toarray())
    np.testing.assert_allclose(asp.matmul(asp.csr(P), np.ones(20)), PLAIN @ np.ones(20))
    np.testing.assert_allclose(asp.einsum("ij,j->i", P, np.ones(20)), PLAIN @ np.ones(20))


def test_tensors_of_pydata_sparse_are_operands_of_einsum() -> None:
    sparse = pytest.importorskip("sparse")
    T = sparse.random((4, 5, 6), density=0.3, random_state=0)
    found = asp.einsum("ijk,k->ij", T, np.ones(6))
    np.testing.assert_allclose(found.toarray(), T.todense().sum(axis=2))


def test_values_of_pydata_sparse_are_copied_as_those_of_others() -> None:
    sparse = pytest.importorskip("sparse")
    P = sparse.COO.from_scipy_sparse(PLAIN.copy())
    A = asp.csr(P)
    P.data[:] = 0
    assert abs(A - PLAIN).nnz == 0
    with pytest.raises(ValueError, match="fill value"):
        asp.csr(sparse.COO.from_numpy(np.eye(3), fill_value=1.0))


def test_sparse_data_frames_are_taken() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame.sparse.from_spmatrix(PLAIN)
    assert abs(asp.csr(frame) - PLAIN).nnz == 0
    np.testing.assert_allclose(asp.csc(pandas.DataFrame(PLAIN.toarray())).toarray(), PLAIN.toarray())
    np.testing.assert_allclose(asp.sddmm(frame, np.ones((60, 3)), np.ones((3, 20))).toarray(), 3 * PLAIN.toarray())
    np.testing.assert_allclose(asp.einsum("ij,j->i", frame, np.ones(20)), PLAIN @ np.ones(20))

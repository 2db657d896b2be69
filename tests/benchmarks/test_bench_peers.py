"""Tests that every installed peer library gives SciPy's answer, and that wrong answers are detected."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from _pytest.mark import ParameterSet
from peerlib import c_peers, dgl_peers, eigen_peers, graphblas_peers
from peerlib.case import Case, Operation, Prepared, Tensor, UnavailableError
from peerlib.matrices import find_matrices, find_tensors, load, load_tensor
from peerlib.registry import PEERS, Peer, contenders

from tests.covering import in_turn

OPERATIONS = ("spmv", "spmm1", "spmm7", "spmm150", "sddmm1", "sddmm7", "sddmm40", "mttkrp3", "mttkrp16@2", "spgemm")
PEER_OF_TESTS = """
#include <stdlib.h>
#include <string.h>
#include "peer_abi.h"
struct state { int64_t m, n; const int32_t *indptr, *indices; const float *values; };
void *peer_prepare(const char *operation, const char *dtype, int64_t n_rows, int64_t n_cols, int64_t n_dense_cols,
                   const int32_t *indptr, const int32_t *indices, const void *values, int n_threads)
{
    if (strcmp(dtype, "float32") || n_threads < 1 || n_cols < 1) return NULL;
    struct state *s = malloc(sizeof *s);
    *s = (struct state){n_rows, n_dense_cols, indptr, indices, values};
    return s;
}
void peer_run(void *state, const void *B, void *C)
{
    struct state *s = state;
    const float *b = B; float *c = C;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            float total = 0;
            for (int32_t p = s->indptr[i]; p < s->indptr[i + 1]; p++)
                total += s->values[p] * b[s->indices[p] * s->n + j];
            c[i * s->n + j] = total + OFFSET;
        }
}
void peer_free(void *state) { free(state); }
"""


def make_case(operation: str, dtype: str = "float32") -> Case:
    shape = (60, 60) if operation == "spgemm" else (60, 50)
    m = scipy.sparse.random_array(shape, density=0.1, format="csr", random_state=np.random.default_rng(3), dtype=dtype)
    m = m.tocsr()
    m.indices, m.indptr = m.indices.astype(np.int32), m.indptr.astype(np.int32)
    return Case.of("random", m, Operation.parse(operation), threads=1, effort="off", budget_s=1.0, seed=0)


def make_cases(operation: Operation, dtype: str) -> list[Case]:
    """Return one case for each input that every peer of the operation accepts."""
    if not operation.is_of_tensors:
        return [make_case(operation.name, dtype)]
    tensor = make_tensor((6, 9, 8), dtype)
    return [Case.of("tensor", tensor, operation, threads=1, effort="off", budget_s=1.0, seed=0)]


def prepared_or_skip(peer: Peer, case: Case) -> Prepared:
    try:
        return peer.prepared(case)
    except UnavailableError as err:
        pytest.skip(str(err))


def make_tensor(shape: tuple[int, ...], dtype: str) -> Tensor:
    """Return a tensor with 70 distinct entries in lexicographic order."""
    rng = np.random.default_rng(5)
    places = np.sort(rng.choice(int(np.prod(shape)), 70, replace=False))
    coords = np.stack(np.unravel_index(places, shape)).astype(np.int32)
    return Tensor(coords, rng.standard_normal(70).astype(dtype), shape)


def peers_and_types() -> Iterator[ParameterSet]:
    """Yield each peer with either type, in turn.

    pydata/sparse and Numba's peers compile each operation for seconds at its first call. Numba's products with dense
    matrices are those that run without --full; tests/interop multiplies by pydata/sparse.
    """
    label = lambda peer: f"{peer.name}-{peer.kinds[-1]}"  # noqa: E731
    for row in in_turn("peer", "dtype", first=PEERS, second=["float32", "float64"], label=label).mark.args[1]:
        peer = row.values[0]
        is_long = peer.name == "pydata-sparse" or (peer.name == "numba" and "spmm" not in peer.kinds)
        yield pytest.param(*row.values, id=row.id, marks=pytest.mark.full if is_long else row.marks)


@pytest.mark.parametrize(("peer", "dtype"), peers_and_types())
def test_peer_gives_the_right_answer(peer: Peer, dtype: str) -> None:
    if not any(peer.can_run(Operation(kind, 7, kind), dtype) for kind in peer.kinds):
        pytest.skip(f"{peer.needs} is not installed")
    for operation in map(Operation.parse, OPERATIONS):
        if not peer.can_run(operation, dtype):
            continue
        for case in make_cases(operation, dtype):
            prepared = prepared_or_skip(peer, case)
            case.out.fill(np.nan)
            for _ in range(2):
                result = prepared.run()
            assert case.checker()(result) is None, operation.name
            assert (result is case.out) == peer.fills
            prepared.close()


def test_peers_whose_parts_are_not_here_say_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, source = make_case("spmm7"), tmp_path / "x.cpp"
    monkeypatch.setattr(eigen_peers, "FOLDERS", (tmp_path,))
    with pytest.raises(UnavailableError, match="no headers of Eigen in"):
        eigen_peers.eigen_dense(case)
    monkeypatch.setitem(c_peers.COMPILERS, ".cpp", "nosuch-compiler")
    with pytest.raises(UnavailableError, match="no compiler nosuch-compiler"):
        c_peers.compile_shared(source, tmp_path, name="x")
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(UnavailableError, match="DGL does not load"):
        dgl_peers.dgl_sum(case)


def test_a_graphblas_of_another_version_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphblas", types.SimpleNamespace())  # accessing `ss` loads it, and fails
    with pytest.raises(UnavailableError, match=r"python-graphblas does not load: .* no attribute 'ss'"):
        graphblas_peers.dense(make_case("spmm7"))


def test_checkers_see_one_wrong_entry_of_every_kind() -> None:
    sampled = make_case("sddmm7")
    right = sampled.A.data * np.einsum("pk,pk->p", *(np.asarray(part) for part in _pairs(sampled)))
    assert sampled.checker()(right) is None
    right[3] += 1e-3
    assert "wrong by" in str(sampled.checker()(right))
    (tensor,) = make_cases(Operation.parse("mttkrp3"), "float32")
    M = tensor.sums(tensor.B, tensor.A.data).astype(np.float32)
    assert tensor.checker()(M) is None
    M[2, 1] += 1e-2
    assert "wrong by" in str(tensor.checker()(M))
    product = make_case("spgemm")
    C = product.A @ product.A
    assert product.checker()(C) is None
    C.data[4] += 1e-2
    assert "wrong by" in str(product.checker()(C))
    assert "entries, not" in str(product.checker()(product.A))


def test_products_may_keep_the_entries_whose_terms_cancel() -> None:
    A = scipy.sparse.csr_array(np.array([[1, -1], [1, -1]], dtype=np.float32))
    case = Case.of("cancels", A, Operation.parse("spgemm"), threads=1, effort="off", budget_s=1.0, seed=0)
    kept = scipy.sparse.csr_array((np.zeros(4, np.float32), A.indices, A.indptr), shape=A.shape)
    assert case.checker()(kept) is None
    assert (A @ A).nnz == 0
    assert case.checker()(A @ A) is None


def _pairs(case: Case) -> tuple[np.ndarray, np.ndarray]:
    (X, Y_rows), A = case.B, case.A
    return X[np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))], Y_rows[A.indices]


def test_skipped_cases_give_a_reason() -> None:
    (tensor,) = make_cases(Operation.parse("mttkrp3@5"), "float32")
    assert "no such mode" in str(tensor.reason_left_out())
    assert make_case("spgemm").reason_left_out() is None
    tall = scipy.sparse.csr_array((5, 6), dtype=np.float32)
    case = Case.of("tall", tall, Operation.parse("spgemm"), threads=1, effort="off", budget_s=1.0, seed=0)
    assert case.reason_left_out() == "not square"


def test_openmp_tensor_peer_takes_orders_up_to_five() -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    peer = next(one for one in PEERS if one.name == "openmp" and one.kinds == ("mttkrp",))
    for shape in ((5, 6, 7), (3, 4, 5, 6), (3, 4, 2, 5, 3)):
        for mode in range(len(shape)):
            operation = Operation.parse(f"mttkrp16@{mode}")
            tensor = make_tensor(shape, "float32")
            case = Case.of("tensor", tensor, operation, threads=2, effort="off", budget_s=1.0, seed=0)
            assert case.checker()(peer.prepared(case).run()) is None, (shape, mode)


def test_checker_sees_one_wrong_entry() -> None:
    case = make_case("spmm7")
    result = case.A @ case.B
    assert case.checker()(result) is None
    result[3, 5] += 1e-3
    assert "wrong by" in str(case.checker()(result))
    result[3, 5] = np.nan
    assert case.checker()(result) is not None
    assert "float64" in str(case.checker()(result.astype(np.float64)))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_adapter_is_run_and_checked(tmp_path: Path) -> None:
    header = Path(c_peers.__file__).parent
    source = tmp_path / "peer.c"
    source.write_text(PEER_OF_TESTS)
    for offset, right in ((0, True), (1, False)):
        extra = (f"-DOFFSET={offset}", f"-I{header}")
        path = c_peers.compile_shared(source, tmp_path, name=f"peer{offset}", extra=extra)
        peer = contenders(["scipy"], [f"theirs={path}"])[-1]
        prepared = peer.prepared(case := make_case("spmm7"))
        assert (case.checker()(prepared.run()) is None) == right
        prepared.close()
        with pytest.raises(RuntimeError, match="declined"):
            peer.prepared(make_case("spmv", "float64"))


def test_contenders_are_chosen_by_name_and_ours_always_run() -> None:
    names = list(dict.fromkeys(peer.name for peer in contenders(["scipy"])))
    assert names == ["autosparse", "autosparse-out", "scipy"]
    with pytest.raises(ValueError, match="no peer nosuch"):
        contenders(["nosuch"])
    with pytest.raises(ValueError, match="NAME=PATH"):
        contenders((), ["x=/nonexistent.so"])
    for text in ("spmm0", "spmm8@1", "nonsense", "mttkrp"):
        with pytest.raises(ValueError, match="spmm<columns>"):
            Operation.parse(text)


def test_matrices_are_found_by_size_and_loaded_canonical(tmp_path: Path) -> None:
    m = scipy.sparse.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [2, 2, 0])), shape=(2, 3))
    scipy.sparse.save_npz(tmp_path / "twice.npz", m)
    coords = np.array([[1, 0, 1], [0, 2, 0], [3, 1, 3]])
    np.savez(tmp_path / "tensor.npz", coords=coords, vals=np.arange(3.0), shape=np.array([2, 3, 4]))
    (tmp_path / "broken.npz").write_bytes(b"PK nonsense")
    scipy.io.mmwrite(tmp_path / "market.mtx", scipy.sparse.eye_array(4))
    assert [(file.name, file.nnz) for file in find_matrices(tmp_path)] == [("market", 4), ("twice", 3)]
    assert [file.name for file in find_matrices(tmp_path, min_nnz=4)] == ["market"]
    assert [file.name for file in find_matrices(tmp_path, only=("twice",))] == ["twice"]
    assert [file.name for file in find_matrices(tmp_path, limit=1)] == ["market"]
    loaded = load(tmp_path / "twice.npz", dtype="float32")
    assert (loaded.dtype, loaded.nnz, loaded.indices.dtype) == (np.float32, 2, np.int32)
    np.testing.assert_array_equal(loaded.toarray(), m.toarray())
    assert [(file.name, file.nnz, file.is_tensor) for file in find_tensors(tmp_path)] == [("tensor", 3, True)]
    assert find_tensors(tmp_path, min_nnz=4) == find_tensors(tmp_path, only=("twice",)) == []
    tensor = load_tensor(tmp_path / "tensor.npz", dtype="float32")  # sorted, the repeated entry added up
    np.testing.assert_array_equal(tensor.coords, [[0, 1], [2, 0], [1, 3]])
    np.testing.assert_array_equal(tensor.data, [1.0, 2.0])

"""Every peer that is installed gives SciPy's answer, and a wrong one is caught."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from peerlib import c_peers
from peerlib.case import Case, Operation
from peerlib.matrices import find_matrices, load
from peerlib.registry import PEERS, Peer, contenders

OPERATIONS = ("spmv", "spmm1", "spmm7", "spmm150")
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
    m = scipy.sparse.random_array((60, 50), density=0.1, format="csr", rng=np.random.default_rng(3), dtype=dtype)
    m = m.tocsr()
    m.indices, m.indptr = m.indices.astype(np.int32), m.indptr.astype(np.int32)
    return Case.of("random", m, Operation.parse(operation), threads=1, effort="off", budget_s=1.0, seed=0)


def needs_compiler(peer: Peer) -> bool:
    return isinstance(peer.prepare, str) and peer.prepare.startswith("peerlib.c_peers")


@pytest.mark.parametrize("peer", [peer for peer in PEERS if not peer.ours], ids=lambda peer: peer.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_peer_gives_the_right_answer(peer: Peer, dtype: str) -> None:
    if peer.needs in {"torch", "numba", "mkl"} and not peer.can_run(Operation.parse("spmm7"), dtype):
        pytest.skip(f"{peer.needs} is not installed")
    if needs_compiler(peer) and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    for operation in map(Operation.parse, OPERATIONS):
        if not peer.can_run(operation, dtype):
            continue
        case = make_case(operation.name, dtype)
        prepared = peer.prepared(case)
        case.out.fill(np.nan)
        result = prepared.run()
        assert case.checker()(result) is None, operation.name
        assert (result is case.out) == peer.fills
        prepared.close()


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
    assert [peer.name for peer in contenders(["scipy"])] == ["autosparse", "autosparse-out", "scipy"]
    with pytest.raises(ValueError, match="no peer nosuch"):
        contenders(["nosuch"])
    with pytest.raises(ValueError, match="NAME=PATH"):
        contenders((), ["x=/nonexistent.so"])
    with pytest.raises(ValueError, match="spmm<columns>"):
        Operation.parse("spmm0")


def test_matrices_are_found_by_size_and_loaded_canonical(tmp_path: Path) -> None:
    m = scipy.sparse.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [2, 2, 0])), shape=(2, 3))
    scipy.sparse.save_npz(tmp_path / "twice.npz", m)
    np.savez(tmp_path / "tensor.npz", coords=np.zeros((3, 9)), vals=np.zeros(9))
    (tmp_path / "broken.npz").write_bytes(b"PK nonsense")
    scipy.io.mmwrite(tmp_path / "market.mtx", scipy.sparse.eye_array(4))
    assert [(file.name, file.nnz) for file in find_matrices(tmp_path)] == [("market", 4), ("twice", 3)]
    assert [file.name for file in find_matrices(tmp_path, min_nnz=4)] == ["market"]
    assert [file.name for file in find_matrices(tmp_path, only=("twice",))] == ["twice"]
    assert [file.name for file in find_matrices(tmp_path, limit=1)] == ["market"]
    loaded = load(tmp_path / "twice.npz", dtype="float32")
    assert (loaded.dtype, loaded.nnz, loaded.indices.dtype) == (np.float32, 2, np.int32)
    np.testing.assert_array_equal(loaded.toarray(), m.toarray())

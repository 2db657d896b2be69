"""Table of contenders. Add a row to add a peer; a peer built elsewhere is passed as ``--adapter NAME=PATH``."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from peerlib.c_peers import adapter
from peerlib.case import Case, Operation, Prepared

REAL: Final = ("float32", "float64")
MATMUL: Final = ("spmv", "spmm")
SDDMM: Final = ("sddmm",)
MTTKRP: Final = ("mttkrp",)
SPGEMM: Final = ("spgemm",)
ADAPTED: Final = (*MATMUL, *SDDMM, *MTTKRP)
GRAPHBLAS: Final = "python-graphblas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One contender: the cases that it supports, and its function `prepare(case) -> Prepared`.

    Peers with `fills` write into an existing array and are compared with autosparse's ``out=``. The others return a new
    array and are compared with ``A @ B``.
    """

    name: str
    prepare: str | Path  # "module:function" of peerlib, or the path of an adapter
    fills: bool
    ours: bool = False
    needs: str | None = None  # package that must be installed
    kinds: tuple[str, ...] = MATMUL
    dtypes: tuple[str, ...] = REAL

    def can_run(self, operation: Operation, dtype: str) -> bool:
        """Return whether this row covers the case and its package is installed."""
        return operation.kind in self.kinds and dtype in self.dtypes and (self.needs is None or _installed(self.needs))

    def prepared(self, case: Case) -> Prepared:
        """Return this contender, ready to run `case`."""
        if isinstance(self.prepare, Path):
            return adapter(self.prepare)(case)
        module, function = self.prepare.split(":")
        chosen: Callable[[Case], Prepared] = getattr(importlib.import_module(module), function)
        return chosen(case)


def _installed(package: str) -> bool:
    """Return whether a distribution is installed; modules are not checked, because MKL's wheel holds libraries only."""
    return any(True for _ in importlib.metadata.distributions(name=package))


PEERS: Final = (
    Peer(name="autosparse", prepare="peerlib.own:autosparse_new", fills=False, ours=True),
    Peer(name="autosparse-out", prepare="peerlib.own:autosparse_out", fills=True, ours=True),
    Peer(name="scipy", prepare="peerlib.python_peers:scipy_csr", fills=False),
    Peer(name="torch", prepare="peerlib.python_peers:torch_csr", fills=False, needs="torch"),
    Peer(name="torch-out", prepare="peerlib.python_peers:torch_csr_out", fills=True, needs="torch"),
    Peer(name="mkl", prepare="peerlib.mkl_peer:mkl_plain", fills=True, needs="mkl"),
    Peer(name="mkl-hint", prepare="peerlib.mkl_peer:mkl_hinted", fills=True, needs="mkl"),
    Peer(name="numba", prepare="peerlib.python_peers:numba_prange", fills=True, needs="numba"),
    Peer(name="openmp", prepare="peerlib.c_peers:openmp_plain", fills=True),
    Peer(name="openmp-tiled", prepare="peerlib.c_peers:openmp_tiled", fills=True, kinds=("spmm",)),
    Peer(name="eigen", prepare="peerlib.eigen_peers:eigen_dense", fills=True),
    Peer(name="graphblas", prepare="peerlib.graphblas_peers:dense", fills=False, needs=GRAPHBLAS),
    Peer(name="pydata-sparse", prepare="peerlib.python_peers:pydata", fills=False, needs="sparse"),
    Peer(name="dgl", prepare="peerlib.dgl_peers:dgl_sum", fills=False, needs="dgl", kinds=("spmm",)),
    Peer(name="autosparse", prepare="peerlib.own:sampled_new", fills=False, ours=True, kinds=SDDMM),
    Peer(name="autosparse-out", prepare="peerlib.own:sampled_out", fills=True, ours=True, kinds=SDDMM),
    Peer(name="numpy", prepare="peerlib.sampled_peers:numpy_gather", fills=False, kinds=SDDMM),
    Peer(name="torch", prepare="peerlib.sampled_peers:torch_sampled", fills=False, needs="torch", kinds=SDDMM),
    Peer(name="numba", prepare="peerlib.sampled_peers:numba_sampled", fills=True, needs="numba", kinds=SDDMM),
    Peer(name="openmp", prepare="peerlib.sampled_peers:openmp_sampled", fills=True, kinds=SDDMM),
    Peer(name="openmp-four", prepare="peerlib.sampled_peers:openmp_four", fills=True, kinds=SDDMM),
    Peer(name="graphblas", prepare="peerlib.graphblas_peers:sampled", fills=False, needs=GRAPHBLAS, kinds=SDDMM),
    Peer(name="dgl", prepare="peerlib.dgl_peers:dgl_dots", fills=False, needs="dgl", kinds=SDDMM),
    Peer(name="autosparse", prepare="peerlib.own:tensor_new", fills=False, ours=True, kinds=MTTKRP),
    Peer(name="autosparse-out", prepare="peerlib.own:tensor_out", fills=True, ours=True, kinds=MTTKRP),
    Peer(name="scipy", prepare="peerlib.tensor_peers:numpy_scipy", fills=False, kinds=MTTKRP),
    Peer(name="pydata-sparse", prepare="peerlib.tensor_peers:pydata", fills=False, needs="sparse", kinds=MTTKRP),
    Peer(name="torch", prepare="peerlib.tensor_peers:torch_index_add", fills=True, needs="torch", kinds=MTTKRP),
    Peer(name="numba", prepare="peerlib.tensor_peers:numba_csf", fills=True, needs="numba", kinds=MTTKRP),
    Peer(name="openmp", prepare="peerlib.tensor_peers:openmp_csf", fills=True, kinds=MTTKRP),
    Peer(name="autosparse", prepare="peerlib.own:sparse_new", fills=False, ours=True, kinds=SPGEMM),
    Peer(name="scipy", prepare="peerlib.sparse_peers:scipy_sparse", fills=False, kinds=SPGEMM),
    Peer(name="torch", prepare="peerlib.sparse_peers:torch_sparse", fills=False, needs="torch", kinds=SPGEMM),
    Peer(name="mkl", prepare="peerlib.sparse_peers:mkl_sparse", fills=False, needs="mkl", kinds=SPGEMM),
    Peer(name="eigen", prepare="peerlib.eigen_peers:eigen_sparse", fills=False, kinds=SPGEMM),
    Peer(name="graphblas", prepare="peerlib.graphblas_peers:product", fills=False, needs=GRAPHBLAS, kinds=SPGEMM),
    Peer(name="pydata-sparse", prepare="peerlib.sparse_peers:pydata_sparse", fills=False, needs="sparse", kinds=SPGEMM),
)


def contenders(names: Iterable[str] = (), adapters: Iterable[str] = ()) -> tuple[Peer, ...]:
    """Return the rows of `PEERS` and one row per adapter "NAME=PATH".

    Rows of autosparse are always included; if `names` is not empty, other rows are restricted to it.
    """
    wanted = set(names)
    known = {peer.name for peer in PEERS}
    if wanted - known:
        raise ValueError(f"no peer {', '.join(sorted(wanted - known))}; the peers are {', '.join(sorted(known))}")
    kept = [peer for peer in PEERS if peer.ours or not wanted or peer.name in wanted]
    for text in adapters:
        name, separator, path = text.partition("=")
        if not separator or not Path(path).is_file():
            raise ValueError(f"--adapter {text!r} must be NAME=PATH of a shared library (see peer_abi.h)")
        kept.append(Peer(name=name, prepare=Path(path).resolve(), fills=True, kinds=ADAPTED))
    return tuple(kept)

"""The table of contenders. To add a peer, add a row; one that is built elsewhere comes with ``--adapter NAME=PATH``."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One contender: what it can do and where its `prepare(case) -> Prepared` is found.

    `fills` peers write into an existing array and are compared with our ``out=``; the others return a new array and
    are compared with our ``A @ B``.
    """

    name: str
    prepare: str | Path  # "module:function" of peerlib, or the path of an adapter
    fills: bool
    ours: bool = False
    needs: str | None = None  # package that must be installed
    spmv: bool = True
    spmm: bool = True
    dtypes: tuple[str, ...] = REAL

    def can_run(self, operation: Operation, dtype: str) -> bool:
        """Whether the flags of this row cover the case and its package is here."""
        covered = self.spmv if operation.is_vector else self.spmm
        return covered and dtype in self.dtypes and (self.needs is None or _installed(self.needs))

    def prepared(self, case: Case) -> Prepared:
        """This contender, ready to run `case`."""
        if isinstance(self.prepare, Path):
            return adapter(self.prepare)(case)
        module, function = self.prepare.split(":")
        chosen: Callable[[Case], Prepared] = getattr(importlib.import_module(module), function)
        return chosen(case)


def _installed(package: str) -> bool:
    """Asked of the distributions, not of the modules: the wheel of MKL holds libraries only."""
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
    Peer(name="openmp-tiled", prepare="peerlib.c_peers:openmp_tiled", fills=True, spmv=False),
)


def contenders(names: Iterable[str] = (), adapters: Iterable[str] = ()) -> tuple[Peer, ...]:
    """Rows of `PEERS` (ours always, and those of `names` when it is not empty) and one row per "NAME=PATH"."""
    wanted = set(names)
    known = {peer.name for peer in PEERS}
    if wanted - known:
        raise ValueError(f"no peer {', '.join(sorted(wanted - known))}; the peers are {', '.join(sorted(known))}")
    kept = [peer for peer in PEERS if peer.ours or not wanted or peer.name in wanted]
    for text in adapters:
        name, separator, path = text.partition("=")
        if not separator or not Path(path).is_file():
            raise ValueError(f"--adapter {text!r} must be NAME=PATH of a shared library (see peer_abi.h)")
        kept.append(Peer(name=name, prepare=Path(path).resolve(), fills=True))
    return tuple(kept)

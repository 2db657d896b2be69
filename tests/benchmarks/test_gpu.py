"""Tests of the GPU comparison: wrong results, exit status, calls of rival libraries, reports."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import gpu
import numpy as np
import pytest
import scipy.sparse as sps


def record(**changes: Any) -> dict[str, Any]:
    return {
        "case": "spmm A 32 float32", "part": "spmm", "schedule": "rows", "wrong": [], "rejected": [], "failed": {},
        "served": [1, 1],
        "seconds": {"torch": 4.0, "autosparse": 2.0}, "is_dry": False, **changes,
    }  # fmt: skip


def test_a_wrong_result_is_told_and_is_no_win():
    wrong = record(case="spmm B 32 float32", wrong=["autosparse"], seconds={"torch": 9.0})
    told = gpu.table([record(), wrong])
    assert "WRONG spmm B 32 float32: autosparse" in told
    assert next(line for line in told.splitlines() if "torch " in line).split() == [
        "spmm",
        "torch",
        "1",
        "2.00",
        "2.00",
    ]


@pytest.mark.parametrize(
    ("changes", "is_bad"),
    [
        ({}, False),
        ({"wrong": ["autosparse"]}, True),
        ({"wrong": ["DGL"]}, False),
        ({"rejected": ["rows"]}, True),
        ({"failed": {"autosparse": "no"}}, True),
        ({"failed": {"autosparse": "no", "torch": "no"}}, False),
        ({"failed": {"kernel": "no", "torch": "no"}}, True),
        ({"served": [0, 1]}, False),
        ({"served": [0, 1], "is_dry": True}, True),
    ],
)
def test_exit_status_reports_only_our_failures(changes: dict[str, Any], is_bad: bool):
    assert gpu.is_bad(record(**changes)) is is_bad


def rivals() -> dict[str, dict[str, Any]]:
    """Return stand-ins for CuPy, DGL and PyG: their functions and parameters, with SciPy's results."""
    import torch

    def arrays(*given: Any) -> Any:
        return [np.asarray(one) for one in given]

    class Dgl:
        def __init__(self, indptr: Any, indices: Any, val: Any, shape: Any) -> None:
            assert indptr.dtype is indices.dtype is torch.int64, "DGL takes LongTensors"
            self.val, self.A = val, sps.csr_array(tuple(arrays(val, indices, indptr)), shape=shape)

    def spmm(A: Any, X: Any) -> Any:
        return torch.from_numpy(A.A @ np.asarray(X))

    def sddmm(A: Any, X1: Any, X2: Any) -> Any:
        rows, cols = A.A.nonzero()
        return SimpleNamespace(val=(X1 @ X2)[rows, cols] * A.val)

    class SparseTensor:
        def __init__(self, *, rowptr: Any, col: Any, value: Any, sparse_sizes: Any) -> None:
            assert rowptr.dtype is col.dtype is torch.int64, "torch_sparse takes LongTensors"
            self.A = sps.csr_array(tuple(arrays(value, col, rowptr)), shape=sparse_sizes)

        def __matmul__(self, X: Any) -> Any:
            return torch.from_numpy(self.A @ np.asarray(X))

    return {
        "cupy": {"from_dlpack": np.from_dlpack},
        "cupyx": {"scipy": None},
        "cupyx.scipy": {"sparse": SimpleNamespace(csr_matrix=sps.csr_matrix)},
        "dgl": {"sparse": SimpleNamespace(from_csr=Dgl, spmm=spmm, sddmm=sddmm)},
        "dgl.sparse": {},
        "torch_sparse": {"SparseTensor": SparseTensor},
    }


def test_rivals_are_called_as_their_interfaces_say(monkeypatch: pytest.MonkeyPatch):
    """None of the libraries can be installed without a GPU, so stand-ins have the parameters of their manuals."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from gpulib import contenders

    from autosparse.cuda import device, matrix

    for name, members in rivals().items():
        module = ModuleType(name)
        module.__spec__, module.__path__ = ModuleSpec(name, None), []
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(device.DEVICES, "cpu", device.HostDevice())
    torch.manual_seed(0)
    D = torch.randn(6, 5) * (torch.rand(6, 5) < 0.5)
    A, B, X = matrix.csr(D.to_sparse_csr()), torch.randn(5, 3), torch.randn(6, 3)
    offered = dict(contenders.of_product(A, B, None)) | {"CuPy": lambda: contenders._cupy(A, B)}
    assert {"CuPy", "DGL", "PyG", "torch", "dense"} <= set(offered)
    for name in ("CuPy", "DGL", "PyG", "torch", "dense"):
        torch.testing.assert_close(offered[name]()(), D @ B)
    samples = dict(contenders.of_sample(A, X, B))
    for name in ("DGL", "torch", "dense"):
        torch.testing.assert_close(samples[name]()(), (X @ B.T)[D != 0])


def test_composites_are_compared_with_the_best_of_each_family():
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from gpulib import hybrid

    from autosparse.core.composite import Blocks
    from autosparse.gpu.schedule import DeviceSchedule, GpuPart

    runs, fill = GpuPart(layout="segments", split=64), GpuPart(layout="fill")
    windows = GpuPart(layout="windows", rows=16, step=16)
    ell = GpuPart(layout="ell", rows=2, step=4, at_most=8)
    ours = GpuPart(layout="blocks", rows=16, step=16, select=Blocks(16, 16, 0.5))
    made = {
        name: DeviceSchedule(operation="matmul", parts=(*parts, fill))
        for name, parts in {
            "runs": (runs,),
            "hyb": (ell, runs),
            "windows": (windows,),
            "mixed": (windows, runs),
        }.items()
    }
    made["composite"] = DeviceSchedule(operation="matmul", parts=(ours, runs, fill))
    times = {"torch": 6.0, "runs": 4.0, "hyb": 3.0, "windows": 5.0, "mixed": 2.5, "composite": 2.0}
    found = hybrid.best_of(times, made)
    wanted = {"torch": 6.0, "single": 2.5, "composite": 2.0, "blocks only": 5.0, "ELL only": 3.0, "1D only": 4.0}
    assert found["seconds"] == wanted
    assert DeviceSchedule.from_json(found["schedules"]["composite"]) == made["composite"]
    line = record(case="hybrid spmm A 64 float16", paper=2.3, n_composites=1, **found)
    _, row, told = hybrid.table([line]).splitlines()
    assert row.split()[-7:] == ["3.00", "1.25", "2.50", "1.50", "2.00", "3.00", "2.3"]
    assert told == "composites beat the best single layout by more than 3 % in 1 of 1 cases"
    assert not gpu.is_bad(line)
    assert not gpu.is_bad(line | {"failed": {"torch": "no half precision here"}})
    assert gpu.is_bad(line | {"wrong": ["composite"]})
    assert gpu.is_bad(line | {"failed": {"composite": "no"}})


def test_a_layout_that_needs_too_much_memory_is_refused_and_has_not_failed(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from gpulib import hybrid

    from autosparse.errors import BuildError, PackError
    from autosparse.gpu.schedule import DeviceSchedule, GpuPart

    runs, csr = (
        DeviceSchedule(operation="matmul", parts=(GpuPart(layout=layout, split=64), GpuPart(layout="fill")))
        for layout in ("segments", "rows")
    )

    class Products:
        def __init__(self, *_: object):
            self.A = self.kind = SimpleNamespace(structure=None)

        def torchs(self):
            return lambda: None

        def ours(self, schedule: DeviceSchedule):
            raise PackError.too_large(schedule, needed_bytes=3, limit_bytes=2) if schedule is runs else BuildError("no")

        def error(self, _: object):
            return 0.0

    monkeypatch.setattr(hybrid, "Products", Products)
    monkeypatch.setattr(hybrid.solvers, "ranked", lambda *_, **__: [("runs", runs), ("csr", csr)])
    clock = SimpleNamespace(place="cpu", name="H200", is_gpu=True, seconds=lambda _: 1.0)
    case, given = hybrid.HybridCase("spmm", "A", 4, "float32"), SimpleNamespace(nnz=1, shape=(1, 1))
    line = hybrid.measure(case, given, clock)
    assert len(line["refused"]) == len(line["failed"]) == 1
    assert "\n" not in "".join(line["refused"].values())
    assert gpu.is_bad(line)
    assert not gpu.is_bad(line | {"failed": {}})

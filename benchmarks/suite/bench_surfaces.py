"""asv benchmarks of products through PyTorch and Dask."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import autosparse
from autosparse.config import reload_options, set_options
from suite import cases


class Torch:
    """Product of a PyTorch CSR tensor and a dense one, with its gradient, by PyTorch and under the override."""

    params = (cases.names(), ("torch", "override"))
    param_names = ("matrix", "by")

    def setup(self, matrix: str, by: str) -> None:
        torch = cases.imported("torch")
        m = cases.matrix(matrix)
        self.A = torch.sparse_csr_tensor(
            *(torch.from_numpy(part) for part in (m.indptr, m.indices, m.data)), size=m.shape, check_invariants=False
        )
        self.X = torch.from_numpy(cases.dense(m.shape[1], 32)).requires_grad_()
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        set_options(cache_dir=self.folder.name)
        self.override = autosparse.torch.override() if by == "override" else None
        if self.override is not None:
            self.override.__enter__()
        self.step()

    def teardown(self, matrix: str, by: str) -> None:
        if getattr(self, "override", None) is not None:
            self.override.__exit__(None, None, None)
        if hasattr(self, "folder"):
            reload_options()
            self.folder.cleanup()

    def step(self) -> Any:
        self.X.grad = None
        (self.A @ self.X).sum().backward()
        return self.X.grad

    def time_product_and_gradient(self, matrix: str, by: str) -> None:
        self.step()


class Dask:
    """Product of a Dask array of four sparse blocks and a vector, by blocks of SciPy and of this library.

    Dask cannot multiply an array of SciPy's blocks. "scipy array" is the usual way to the same result: an array of
    delayed products. "scipy pieces" are the delayed products alone, which no array holds and nothing joins.
    """

    params = (cases.names(), ("scipy pieces", "scipy array", "ours"))
    param_names = ("matrix", "by")
    timeout = 120.0

    def setup(self, matrix: str, by: str) -> None:
        cases.imported("dask.array")
        m = cases.matrix(matrix)
        self.x = cases.dense(m.shape[1], 1)
        rows = -(-m.shape[0] // 4)
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        set_options(cache_dir=self.folder.name)
        if by == "ours":
            A = autosparse.dask.from_csr(m, chunks=rows)
            self.run = lambda: (A @ self.x).compute(scheduler="threads")
        else:
            blocks = [m[start : start + rows] for start in range(0, m.shape[0], rows)]
            self.run = self._pieces(blocks) if by == "scipy pieces" else self._array(blocks)
        self.run()

    def _pieces(self, blocks: list[Any]) -> Callable[[], Any]:
        import dask

        held = [dask.delayed(block) for block in blocks]
        return lambda: dask.compute(*[block @ self.x for block in held], scheduler="threads")

    def _array(self, blocks: list[Any]) -> Callable[[], Any]:
        import dask
        import dask.array

        held = [(dask.delayed(block), block.shape[:1]) for block in blocks]

        def product() -> Any:
            parts = [dask.array.from_delayed(block @ self.x, shape, self.x.dtype) for block, shape in held]
            return dask.array.concatenate(parts).compute(scheduler="threads")

        return product

    def teardown(self, matrix: str, by: str) -> None:
        if hasattr(self, "folder"):
            reload_options()
            self.folder.cleanup()

    def time_product(self, matrix: str, by: str) -> None:
        self.run()

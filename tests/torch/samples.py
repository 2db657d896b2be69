"""Sparse tensors of every layout and type, and a count of the products that reached our kernels."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")

VALUES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
INDICES = (torch.int32, torch.int64)
TOLERANCE = {
    torch.float32: 1e-4, torch.float64: 1e-11, torch.complex64: 1e-4, torch.complex128: 1e-11,
    torch.bfloat16: 5e-2, torch.float16: 5e-3,
}  # fmt: skip


def dense(n, m, density=0.3, dtype=torch.float32, seed=0):
    """Return an n × m tensor with about density · n · m nonzeros."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(n, m, dtype=dtype, generator=generator)
    return values * (torch.rand(n, m, generator=generator) < density)


def numbers(*shape, dtype=torch.float32, seed=1):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def compressed(D, layout=torch.sparse_csr, index_dtype=torch.int64):
    """Return `D` in a compressed layout with indices of `index_dtype`."""
    A = D.to_sparse(layout=layout)
    names = ("crow_indices", "col_indices") if layout == torch.sparse_csr else ("ccol_indices", "row_indices")
    first, second = (getattr(A, name)().to(index_dtype) for name in names)
    return torch.sparse_compressed_tensor(first, second, A.values(), D.shape, layout=layout)


def assert_close(got, want):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    atol = TOLERANCE[want.dtype] * 10
    torch.testing.assert_close(got, want, rtol=0, atol=atol, equal_nan=True)


@contextmanager
def counted():
    """Yield a list that grows by a name with every call of one of our kernels in Python."""
    from autosparse.torch import native, products
    from autosparse.torch.dispatcher import direct

    calls: list[str] = []
    homes = [(native, "mm"), (products, "run"), (native, "sddmm"), (native, "extreme"), (native, "row_softmax")]
    homes += [(direct, "multiply"), (direct, "sample")]
    kept = [getattr(home, name) for home, name in homes]

    def counting(name, function):
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            if result is not None:  # None: left to others
                calls.append(name)
            return result

        return call

    for (home, name), function in zip(homes, kept, strict=True):
        setattr(home, name, counting(name, function))
    try:
        yield calls
    finally:
        for (home, name), function in zip(homes, kept, strict=True):
            setattr(home, name, function)

"""Tests of the extension module's products on all threads, and of its connection with the C runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api

from tests.tuning.forcing import close, make

extension: Any = runtime_api.extension
pytestmark = pytest.mark.skipif(extension is None, reason=f"the extension module: {runtime_api.extension_fault}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("columns", [(), (1,), (5,)])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_of_arrays_equals_scipys(dtype: Any, index: Any, columns: tuple[int, ...], transposed: bool) -> None:
    m = make(60, 40).astype(dtype)
    arrays = m.indptr.astype(index), m.indices.astype(index), m.data
    plain = m.T if transposed else m
    B, C = np.ones((plain.shape[1], *columns), dtype), np.full((plain.shape[0], *columns), 7, dtype)
    assert extension.product(arrays, 60, 40, False, B, C, transposed)
    close(C, plain @ B)


def test_a_product_of_unfit_arrays_is_refused() -> None:
    m = make(60, 40)
    arrays, B, C = (m.indptr, m.indices, m.data), np.ones((40, 2), np.float32), np.full((60, 2), 7, np.float32)
    read_only = C.copy()
    read_only.flags.writeable = False
    outside = np.full_like(m.indices, 40)
    refused = [
        ((m.indptr[:-1], m.indices, m.data), B, C),
        ((m.indptr.astype(np.int64), m.indices, m.data), B, C),
        ((m.indptr, m.indices, m.data.astype(np.float64)), B, C),
        ((m.indptr, m.indices, m.data.astype(np.int64)), B.astype(np.int64), C.astype(np.int64)),
        ((m.indptr, m.indices[:-1], m.data), B, C),
        ((m.indptr, outside, m.data), B, C),
        (arrays[:2], B, C),
        (arrays, B[:-1], C),
        (arrays, np.asfortranarray(B), C),
        (arrays, B[:, 0], C),
        (arrays, B.tolist(), C),
        (arrays, B, C[:-1]),
        (arrays, B, C[:, :1].copy()),
        (arrays, B, read_only),
        (arrays, B, None),
    ]
    assert [extension.product(one[0], 60, 40, False, *one[1:], False) for one in refused] == [False] * len(refused)
    assert (C == 7).all()


def test_a_file_that_is_no_runtime_of_the_same_sources_is_refused() -> None:
    for path in ("/no/such/file.so", extension.__file__):
        with pytest.raises(ImportError, match="no C runtime that was built from the same sources"):
            extension.connect_to(path, 0)

"""Helpers that ask for products by fast calls, which run without the Python dispatch code."""

from __future__ import annotations

import autosparse as asp


def opened(A, B, out):
    """Return `A` after opening a fast call for products like this one."""
    for _ in range(3):
        asp.matmul(A, B, out=out)
    assert A._cell.fast_path is not None
    return A


def on_the_short_way(A, B, out, long_way):
    """Return the product of a fast call.

    Tuning may send some products through Python, so the call is repeated up to 100 times.
    """
    for _ in range(100):
        long_way.clear()
        out.fill(7)
        assert asp.matmul(A, B, out=out) is out
        if not long_way:
            return out
    raise AssertionError("every product went the long way")

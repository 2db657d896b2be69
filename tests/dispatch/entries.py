"""Two ways of asking for a product by a fast call."""

from __future__ import annotations

import autosparse as asp


def opened(A, B, out):
    """`A` with an entry for products like this one."""
    for _ in range(3):
        asp.matmul(A, B, out=out)
    assert A._cell.fast_path is not None
    return A


def on_the_short_way(A, B, out, long_way):
    """The product, which must not have gone the long way; tuning may want to look at one now and then."""
    for _ in range(100):
        long_way.clear()
        out.fill(7)
        assert asp.matmul(A, B, out=out) is out
        if not long_way:
            return out
    raise AssertionError("every product went the long way")

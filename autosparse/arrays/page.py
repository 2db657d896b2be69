"""HTML representation of a matrix for notebooks: a table of facts and a picture of where its entries are."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import numpy as np

from autosparse.core.dtypes import WideIndex

N_CELLS: Final = 40
"""Number of cells of the picture along the longer axis."""
MAX_ENTRIES: Final = 200_000
"""Number of entries that are counted. In larger matrices rows are skipped evenly, so that the page appears at once."""


def as_html(A: Any) -> str:  # Any: an autosparse csr or csc object
    """Return HTML for a matrix: a table (shape, dtype, entries, density, memory) and a picture of the pattern."""
    n_rows, n_cols = A.shape if A.ndim == 2 else (1, *A.shape)
    n_bytes = sum(A._cell.peek(field).nbytes for field in range(3))
    density = A.nnz / max(1, n_rows * n_cols)
    facts = (
        ("class", f"autosparse.{type(A).__name__}"), ("shape", " x ".join(f"{extent:,}" for extent in A.shape)),
        ("dtype", f"{A.dtype}, indices {A._cell.peek(1).dtype}"), ("stored entries", f"{A.nnz:,}"),
        ("density", f"{density:.3g}"), ("entries per row", f"{A.nnz / max(1, n_rows):.3g}"),
        ("memory", f"{n_bytes / 1e6:,.3g} MB"),
    )  # fmt: skip
    rows = "".join(f"<tr><th style='text-align:left'>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts)
    return f"<table style='display:inline-table;vertical-align:top'>{rows}</table>{_picture(A, n_rows, n_cols)}"


def _picture(A: Any, n_rows: int, n_cols: int) -> str:
    """Return an SVG picture of the pattern of A (n_rows, n_cols); "" for a matrix without entries.

    The opacity of a cell grows with the logarithm of the number of its entries.
    """
    if not A.nnz:
        return ""
    step = max(n_rows, n_cols) / N_CELLS
    height, width = (max(1, round(extent / step)) for extent in (n_rows, n_cols))
    counts = _counts(A, height, width)
    shades = np.log1p(counts) / np.log1p(counts.max())
    cells = "".join(
        f"<rect x='{x}' y='{y}' width='1' height='1' opacity='{max(0.15, shades[y, x]):.2f}'/>"
        for y, x in zip(*np.nonzero(counts), strict=True)
    )
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{5 * width}' height='{5 * height}' role='img' "
        f"style='margin-left:1em;border:1px solid currentColor' aria-label='where the entries are'>"
        f"<g fill='currentColor' shape-rendering='crispEdges'>{cells}</g></svg>"
    )


def _counts(A: Any, height: int, width: int) -> Any:
    """Return the number of entries in each cell of a grid (height, width) over A, counted in a sample of the rows."""
    indptr, indices = (A._cell.peek(field) for field in range(2))
    n_major, n_minor = len(indptr) - 1, A._cell.n_minor
    step = max(1, -(-A.nnz // MAX_ENTRIES))
    rows = np.arange(0, n_major, step)
    lengths = np.diff(indptr)[rows]
    held = np.repeat(rows, lengths)
    at = np.repeat(indptr[rows] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths) + np.arange(held.size)
    of_major, of_minor = (width, height) if A._transposed else (height, width)
    cells = held * of_major // max(1, n_major) * of_minor + indices[at].astype(WideIndex) * of_minor // max(1, n_minor)
    grid = np.bincount(cells, minlength=of_major * of_minor).reshape(of_major, of_minor)
    return grid.T if A._transposed else grid

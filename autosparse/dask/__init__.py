"""Dask arrays whose chunks are autosparse matrices.

>>> import autosparse as asp
>>> A = asp.dask.from_csr(m, chunks="balanced")  # rows cut so that each block holds as many stored entries
>>> y = (A @ x).compute()  # x: a NumPy or Dask array; A.T @ x, A @ B, slices, sums and map_blocks work alike
>>> asp.dask.share_plans(client)  # plans tuned on one worker are used by the others

Importing this module registers the chunks in Dask's dispatch tables.
"""

from __future__ import annotations

from autosparse.errors import MissingExtraError

try:
    import dask.array as _array  # noqa: F401
except ImportError as error:
    raise MissingExtraError.needed("dask", extra="dask", purpose="autosparse.dask") from error

from autosparse.dask import dispatch as _dispatch  # noqa: F401  # registers the chunks
from autosparse.dask.blocks import block as block
from autosparse.dask.blocks import csc_block as csc_block
from autosparse.dask.blocks import csr_block as csr_block
from autosparse.dask.collection import balanced_chunks as balanced_chunks
from autosparse.dask.collection import from_blocks as from_blocks
from autosparse.dask.collection import from_csr as from_csr
from autosparse.dask.files import read as read
from autosparse.dask.products import einsum as einsum
from autosparse.dask.products import sddmm as sddmm
from autosparse.dask.sharing import fetch_plans as fetch_plans
from autosparse.dask.sharing import share_plans as share_plans

"""Sparse products for PyTorch: faster kernels behind ``torch.sparse``, and differentiable products of sparse matrices.

>>> import autosparse as asp
>>> with asp.torch.override():  # or .install() once
...     loss = model(adjacency @ features)  # adjacency: torch.sparse_csr; existing code, unchanged
>>> A = asp.torch.csr(adjacency)
>>> asp.torch.spmm(A, X, reduce="mean")
>>> asp.torch.gat(A, target, source, X)  # scores, softmax and weighted sum in one pass
"""

from __future__ import annotations

from autosparse.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError.needed("torch", extra="torch", purpose="autosparse.torch") from error

from autosparse.torch.dispatcher.switch import disable as disable
from autosparse.torch.dispatcher.switch import enable as enable
from autosparse.torch.dispatcher.switch import install as install
from autosparse.torch.dispatcher.switch import installed as installed
from autosparse.torch.dispatcher.switch import override as override
from autosparse.torch.dispatcher.switch import uninstall as uninstall
from autosparse.torch.functional import attention as attention
from autosparse.torch.functional import edge_softmax as edge_softmax
from autosparse.torch.functional import gat as gat
from autosparse.torch.functional import sddmm as sddmm
from autosparse.torch.functional import spmm as spmm
from autosparse.torch.matrix import Csr as Csr
from autosparse.torch.matrix import csr as csr
from autosparse.torch.structure import forget_structures as forget_structures

"""Static imports of the names in `autosparse._HOMES` for type checkers. Nothing imports this module at run time."""

from __future__ import annotations

from autosparse.arrays.family import csc_array as csc_array
from autosparse.arrays.family import csc_matrix as csc_matrix
from autosparse.arrays.family import csr_array as csr_array
from autosparse.arrays.family import csr_matrix as csr_matrix
from autosparse.arrays.sampled import sddmm as sddmm
from autosparse.arrays.sparse_tensor import mttkrp as mttkrp
from autosparse.arrays.sparse_tensor import tensor as tensor
from autosparse.cache import wisdom_export as wisdom_export
from autosparse.cache import wisdom_forget as wisdom_forget
from autosparse.cache import wisdom_import as wisdom_import
from autosparse.config import Effort as Effort
from autosparse.config import Options as Options
from autosparse.config import get_options as get_options
from autosparse.config import options as options
from autosparse.config import set_options as set_options
from autosparse.contraction.surface import einsum_path as einsum_path
from autosparse.errors import AutosparseError as AutosparseError
from autosparse.interop.installing import install as install
from autosparse.interop.installing import uninstall as uninstall
from autosparse.light.construct import csc as csc
from autosparse.light.construct import csr as csr
from autosparse.light.expressions import einsum as einsum
from autosparse.light.into import matmul as matmul
from autosparse.notices import CacheWarning as CacheWarning
from autosparse.notices import FallbackWarning as FallbackWarning
from autosparse.notices import SnapshotWarning as SnapshotWarning
from autosparse.ops.registry import register_solver as register_solver
from autosparse.ops.registry import unregister_solver as unregister_solver

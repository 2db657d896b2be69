"""The surface of SciPy's sparse arrays: classes, constructors and `matmul`."""

from autosparse.arrays.construct import csc as csc
from autosparse.arrays.construct import csr as csr
from autosparse.arrays.family import AutoSparseMatrix as AutoSparseMatrix
from autosparse.arrays.family import csc_array as csc_array
from autosparse.arrays.family import csc_matrix as csc_matrix
from autosparse.arrays.family import csr_array as csr_array
from autosparse.arrays.family import csr_matrix as csr_matrix
from autosparse.arrays.functions import matmul as matmul
from autosparse.arrays.sampled import sddmm as sddmm
from autosparse.arrays.sparse_tensor import mttkrp as mttkrp
from autosparse.arrays.sparse_tensor import tensor as tensor

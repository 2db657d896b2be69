"""Products of sparse tensors on a GPU: by autosparse's Triton kernels, or by torch's own path where that is faster."""

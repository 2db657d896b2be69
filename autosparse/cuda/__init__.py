"""Products of sparse tensors on a GPU: by Triton kernels of ours, or by torch's own path where that is faster."""

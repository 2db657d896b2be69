"""The override: the kernels that PyTorch's dispatcher calls for its sparse operators, and what registers them."""

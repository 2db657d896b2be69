"""Override of PyTorch's sparse operators: kernels for PyTorch's dispatcher, and their registration."""

"""Whole programs on torch's sparse tensors, and what runs them with PyTorch's own products and with ours."""

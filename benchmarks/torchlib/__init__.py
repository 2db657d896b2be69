"""Whole programs on torch's sparse tensors, and their runs with PyTorch's own products and with autosparse's."""

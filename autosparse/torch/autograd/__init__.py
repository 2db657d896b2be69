"""Differentiable products: each class is a `torch.autograd.Function`."""

"""Products that autograd differentiates: each class is a `torch.autograd.Function`."""

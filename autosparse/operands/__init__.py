"""Sparse operands: matrices and tensors in the user's arrays, detection of writes to them, and packed copies."""

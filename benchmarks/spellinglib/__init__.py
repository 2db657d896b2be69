"""Ways of writing products and related operations, raced against SciPy's classes."""

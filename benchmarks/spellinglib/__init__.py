"""Ways in which people write products and what is around them, raced against SciPy's classes."""

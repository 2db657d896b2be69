"""Programs of `short_programs.py`: what people write first, 1 to 60 ms beside the imports of NumPy and SciPy."""

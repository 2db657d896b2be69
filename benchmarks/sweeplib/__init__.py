"""Parts of `sweep.py`: cases and their order, the worker that measures them, and the comparison."""

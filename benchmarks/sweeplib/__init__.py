"""What `sweep.py` is made of: which cases, in which order; a worker that measures them; when a ratio is known."""

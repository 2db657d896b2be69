"""Cache: plans and kernels that outlive the process. Imported as `autosparse.cache` only."""

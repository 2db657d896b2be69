"""Parts of `benchmarks/gpu.py`: inputs, contenders, measurement and training."""

"""Value types for GPUs: schedules from which kernels are generated, and descriptions of devices."""

"""Engine: what the executor keeps per matrix: trials with real kernels, packed copies, accounts, experience."""

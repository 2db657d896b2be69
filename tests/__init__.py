"""Tests of autosparse, in processes whose threads of OpenBLAS and OpenMP sleep when they have nothing to do."""

import os

# Without these variables a thread of OpenBLAS stays busy for 25 ms after each larger product of dense matrices, and a
# thread of libgomp for 15 ms: more time than most tests take, on cores that other tests need. Both libraries read them
# when they are loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

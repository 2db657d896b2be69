"""Tests of autosparse. Threads of OpenBLAS and OpenMP that have nothing to do sleep, in this process and its children."""

import os

# Without these variables a thread of OpenBLAS stays busy for 25 ms after each product of dense matrices, and a thread of
# libgomp for 15 ms: more time than most tests take, on cores that other tests need. The libraries read them when loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

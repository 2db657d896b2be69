"""Small accelerators and patterns for the transfer tests."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from autosparse.tuner.research.targets.accelerator import Configuration, Machine
from hypothesis import strategies as st

from autosparse import accelerators
from autosparse.core.pattern import Pattern

MACHINE = Machine(
    n_pes=3, lanes=4, l1_bytes=512, llc_bytes=4096, port_bytes_per_cycle=8, llc_bytes_per_cycle=24,
    dram_bytes_per_cycle=10, barrier_cycles=50, tile_cycles=7, clock_ghz=1.0,
)  # fmt: skip


def pattern(n_rows: int, n_cols: int, nnz: int, seed: int) -> Pattern:
    """Return a random pattern with some empty rows and some columns with many entries."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, n_rows, nnz)
    columns = (n_cols * rng.random(nnz) ** 2).astype(np.int64)
    made = scipy.sparse.csr_array((np.ones(nnz), (rows, columns)), shape=(n_rows, n_cols))
    made.sum_duplicates()
    return accelerators.pattern_of(made)


patterns = st.builds(pattern, st.integers(1, 60), st.integers(1, 60), st.integers(0, 300), st.integers(0, 1000))
large_patterns = st.builds(
    pattern, st.integers(1, 2000), st.integers(1, 2000), st.integers(0, 6000), st.integers(0, 1000)
)
bits = st.integers(0, 1)
configurations = st.builds(
    Configuration,
    st.sampled_from([1, 4, 16, 1 << 20]), st.sampled_from([1, 8, 32, 1 << 20]), st.sampled_from([3, 8, 16, 64]),
    bits, bits, bits,
)  # fmt: skip
machines = st.builds(
    Machine,
    n_pes=st.sampled_from([1, 3, 32]), lanes=st.sampled_from([1, 16]), l1_bytes=st.sampled_from([0, 64, 1024]),
    llc_bytes=st.sampled_from([0, 512, 16384]), port_bytes_per_cycle=st.sampled_from([1.5, 16]),
    llc_bytes_per_cycle=st.sampled_from([3.0, 256]), dram_bytes_per_cycle=st.sampled_from([1.0, 7.0, 200]),
    barrier_cycles=st.sampled_from([0, 500]), tile_cycles=st.sampled_from([0, 64]), clock_ghz=st.just(1.0),
)  # fmt: skip
operations = st.sampled_from(["spmm", "sddmm"])

"""Program that the process tests start: `python tuners.py FOLDER` tunes one matrix with the cache in FOLDER.

It prints a line when tuning begins. At its end it prints a line of JSON about the plan and its product.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import scipy.sparse as sps

import autosparse as asp

N_COLUMNS = 32


def problem() -> tuple[sps.csr_array, np.ndarray]:
    """Return a band of 4 x 4 blocks, which suits candidates of several formats, and a dense operand."""
    rng = np.random.default_rng(3)
    blocks = sps.diags_array(np.ones((5, 700)), offsets=(-40, -1, 0, 1, 40), shape=(700, 700))
    A = sps.csr_array(sps.kron(blocks, np.ones((4, 4))), dtype=np.float32)
    A.data[:] = rng.standard_normal(A.nnz)
    return A, rng.standard_normal((A.shape[1], N_COLUMNS)).astype(np.float32)


def main(folder: str) -> None:
    """Tune, multiply, and print the result."""
    reference, B = problem()
    A = asp.csr_array(reference)
    with asp.options(cache_dir=folder, extra_memory=20.0):
        sys.stdout.write("tuning\n")
        sys.stdout.flush()
        plan = A.tune(columns=N_COLUMNS, effort="measure", budget_s=600.0)  # no search ends by its time
        C = A @ B
    wanted = reference.astype(np.float64) @ B
    bound = 1e-5 * (abs(reference) @ abs(B)) + 1e-30
    is_right = bool((abs(C - wanted) <= bound).all())
    schedule = plan.schedule.to_json() if plan.schedule else None
    found = {"is_right": is_right, "schedule": schedule, "why": plan.why, "not_remembered": plan.not_remembered}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

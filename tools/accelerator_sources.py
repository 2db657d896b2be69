"""Fit the source models of simulated accelerators that ship in `tuner/research/transfer/sources/` (needs scikit-learn).

    python tools/accelerator_sources.py [FOLDER OF MATRICES]

Each operation gets two models. One model reads statistics of the pattern and sizes of the program; the other one
(``-counts``) also reads what the program does on the pattern. Both are fitted to the simulated times in
`benchmarks/data/simulated.tar.xz` of the matrices that `benchmarks/transfer.py` trains on; its test matrices are not
used.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "benchmarks"))

import numpy as np  # noqa: E402
from autosparse.tuner.research.training.boosting import BoostSettings  # noqa: E402
from autosparse.tuner.research.transfer.counts import COUNTED  # noqa: E402
from autosparse.tuner.research.transfer.source import (  # noqa: E402
    Samples,
    described,
    fit_source,
)
from peerlib.archives import extracted  # noqa: E402
from peerlib.environment import matrices_folder  # noqa: E402
from transferlib.patterns import chosen  # noqa: E402
from transferlib.stored import load, path_of  # noqa: E402

from autosparse import accelerators  # noqa: E402

SOURCES = {"spmm": ("small", "spade"), "sddmm": ("small", "spade")}
SHIPPED = BoostSettings(n_trees=200, rate=0.1, leaves=31, fewest=20, focus=0.5)


def main() -> int:
    """Fit and write one model per operation."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else matrices_folder()
    if folder is None:
        sys.exit("no folder of matrices: name one or set AUTOSPARSE_MATRICES")
    for operation, names in SOURCES.items():
        rows, y = [], []
        for name in names:
            target = accelerators.read(name)
            times = load(path_of(extracted("simulated"), target, operation), target)
            for matrix in (one for one in chosen(folder) if one.is_pool):
                pattern = matrix.pattern(folder)
                numbers = np.array(sorted(set(target.distinct(*pattern.shape))))
                rows.append(described(pattern, target)[numbers])
                y.append(Samples(matrix.name, numbers, times[matrix.name][numbers]).y)
        for suffix, n_left_out in (("", len(COUNTED)), ("-counts", 0)):
            seen = [one[:, : one.shape[1] - n_left_out] for one in rows]
            model = fit_source(seen, y, name="+".join(names), settings=SHIPPED)
            path = HERE / "tuner" / "transfer" / "sources" / f"{operation}{suffix}.safetensors"
            model.write(path)
            print(f"{path.name}: {len(rows)} patterns, {path.stat().st_size:,} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Count the kernels that sampled schedules need, and time the compilation of a kernel.

    python benchmarks/compile_time.py [--ops spmv,spmm256,...] [--patterns 50] [--schedules 100] [--kernels 24]

For every generated pattern, schedules are drawn as in data collection: favourites of the statistics model, uniform
draws from the library's space, draws from a pool of WACO's template, and neighbours of the best predicted. Schedules
that differ only in run-time arguments share a kernel. A random sample of the kernels is compiled into an empty cache:
one half sequentially, the other half on all cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.research.collect.operations import OPS, Op
from autosparse.tuner.research.collect.sampling import KernelPool, Shares, first_draw, neighbourhood
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.space.own import own_space
from peerlib.table import aligned, seconds

from autosparse import _native, cache, config
from autosparse.calibration.collection import context_for
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import BuildError

SIZES: Final = (500, 2_000, 8_000)
"""Numbers of entries of the patterns, used in rotation; useful formats and tiles depend on the shape only."""
TEMPLATE_KERNELS: Final = 100
"""Number of kernels in the pool of WACO's template; small, because there are few patterns."""
N_BEST: Final = 3
"""Number of best predicted schedules whose neighbours are drawn."""


def drawn(op: Op, *, n_patterns: int, n_schedules: int, seed: int = 0) -> Iterator[_native.KernelSpec]:
    """Yield the kernels that `n_schedules` schedules of each of `n_patterns` generated patterns need.

    Kernels repeat. There are slightly fewer schedules if a space has too few neighbours.
    """
    pool = KernelPool(waco_space(op.algorithm), TEMPLATE_KERNELS, seed=seed, supports=_native.supports)
    families = [name for name, row in FAMILIES.items() if row.n_dims == op.n_dims]
    shares, own = Shares.of(n_schedules), own_space(op.algorithm)
    for at in range(n_patterns):
        pattern = generate(families[at % len(families)], nnz=SIZES[at % len(SIZES)], seed=seed + at)
        rng = np.random.default_rng([seed, at])
        with context_for(pattern, op) as context:
            problem, model = context.problem, statistics_model(context.problem)
            chosen = first_draw(problem, context.supports, model, rng=rng, shares=shares, template=pool.sample)
            ours = [one for one in chosen if own.contains(one)]
            order = np.argsort(model.rank(problem, ours))[:N_BEST]
            best = [ours[place] for place in order.tolist()]
            homes = [own, pool.space]
            chosen += neighbourhood(problem, context.supports, best, chosen, n=shares.neighbours, rng=rng, homes=homes)
            yield from (_spec(op, one, problem.target.isa) for one in chosen)


def _spec(op: Op, schedule: SuperSchedule, isa: str) -> _native.KernelSpec:
    return _native.KernelSpec(op.operation, schedule, "float32", "int32", isa)


def compile_times(specs: Sequence[_native.KernelSpec], folder: Path) -> tuple[list[float], float]:
    """Compile `specs` into an empty cache in `folder`; a compilation is lowering, emitting, compiling and loading.

    Return the seconds of each kernel with an even index, compiled one by one, and the seconds per kernel of the others,
    compiled on all cores.
    """
    with config.options(cache_dir=folder):
        store, compiler = cache.open_store(), config.get_options().compiler
        alone_s = []
        for spec in specs[::2]:
            start_s = time.perf_counter()
            _native.build(spec, store=store, compiler=compiler)
            alone_s.append(time.perf_counter() - start_s)
        start_s = time.perf_counter()
        kernels = _native.build_many(specs[1::2], store=store, compiler=compiler)
        together_s = (time.perf_counter() - start_s) / len(kernels)
    failures = [kernel for kernel in kernels if isinstance(kernel, BuildError)]
    if failures:
        raise failures[0]
    return alone_s, together_s


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--ops", default=",".join(OPS), help=f"operations, comma-separated: {', '.join(OPS)}")
    add("--patterns", type=int, default=50)
    add("--schedules", type=int, default=100, help="per pattern")
    add("--kernels", type=int, default=24, help="number of kernels compiled per operation (0: none)")
    add("--seed", type=int, default=0)
    return parser.parse_args(given)


def main() -> int:
    """Count and compile kernels, and print the table."""
    args = arguments()
    rows = [["", "pairs", "kernels", "pairs per kernel", "median", "95 %", "longest", "per kernel, all cores"]]
    all_s: list[float] = []
    for name in args.ops.split(","):
        op = OPS[name]
        asked = list(drawn(op, n_patterns=args.patterns, n_schedules=args.schedules, seed=args.seed))
        distinct = list({spec.key(): spec for spec in asked}.values())
        row = [name, str(len(asked)), str(len(distinct)), f"{len(asked) / len(distinct):.1f}"]
        chosen = np.random.default_rng(args.seed).permutation(len(distinct))[: max(0, args.kernels)].tolist()
        if len(chosen) > 1:
            with tempfile.TemporaryDirectory(prefix="autosparse-compile-") as folder:
                alone_s, together_s = compile_times([distinct[at] for at in chosen], Path(folder))
            all_s += alone_s
            high_s = float(np.percentile(alone_s, 95))
            row += [seconds(one) for one in (statistics.median(alone_s), high_s, max(alone_s), together_s)]
        rows.append(row + ["-"] * (len(rows[0]) - len(row)))
        print(f"{name} done", file=sys.stderr, flush=True)
    print(aligned(rows))
    if all_s:
        print(f"a compile takes {seconds(statistics.median(all_s))} in the median of {len(all_s)}, one at a time")
    return 0


if __name__ == "__main__":
    sys.exit(main())

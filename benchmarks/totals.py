"""Measure the total time of N = 1 ... 1,000,000 products, including tuning and conversion (WACO §5.6, Table 8).

    python benchmarks/totals.py --matrices DIR --ops spmv,spmm32,spmm256 --json out.jsonl
    python benchmarks/totals.py --report --json out.jsonl --table out.md --plot out.png      # from the data alone

Each contender is timed once for each matrix and operation, interleaved in one process. The contenders are:

- SciPy, MKL, and MKL with a hint, whose one-time cost is the inspection;
- BestFormat (peerlib/best_format.py), whose one-time cost is selection and packing;
- the default kernel;
- the result of `tune(effort=...)` for each tier, with the statistics model alone and with learned models.

The totals are computed from these times (peerlib/total_time.py). The cost of a tuning is measured with kernels that are
already compiled; the record also has the time of the first tuning. Only real groups that no training sees are
measured, unless --groups all.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from peerlib.archives import extracted
from peerlib.case import Case, Operation, Prepared
from peerlib.environment import matrices_folder, start_again
from peerlib.matrices import MatrixFile, find_matrices, held_out, load
from peerlib.records import ResultFile, given_arguments
from peerlib.registry import contenders
from peerlib.timing import Protocol, take_turns

PEERS: Final = ("scipy", "mkl", "mkl-hint")
NO_MODELS: Final = Path("no models")
EFFORTS: Final = ("estimate", "measure")
REPEATS: Final = 5
WARM_S: Final = 0.03
"""Seconds of warm-up before each sample. MKL's workers spin this long after its products, on the cores of others."""
LONG_S: Final = 0.5
"""Seconds of a tuning beyond which it is repeated only once."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier of tuning, with or without learned models."""

    name: str
    effort: str
    models: Path


def tiers(models: Path | None, efforts: Sequence[str] = EFFORTS) -> list[Tier]:
    """Return the efforts with the statistics model alone, and with learned models if there are any."""
    found = [Tier(effort, effort, NO_MODELS) for effort in efforts]
    return found + ([Tier(f"learned-{effort}", effort, models) for effort in efforts] if models else [])


def shipped_models() -> Path | None:
    """Return the folder of models that ship with the library for this machine, or None."""
    from autosparse.core.target import Target
    from autosparse.tuning.learned import shipped_folder

    folder = shipped_folder(Target.host())
    return folder if folder.is_dir() else None


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices, or one file")
    add("--min-nnz", type=int, default=100_000)
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--limit", type=int, help="the first LIMIT matrices only")
    add("--groups", choices=("held-out", "all"), default="held-out", help="groups of the folder's index.csv")
    add("--ops", default="spmv,spmm32,spmm256")
    add("--threads", type=int, default=2)
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--efforts", default=",".join(EFFORTS), help="tiers to measure")
    add("--budget", type=float, default=20.0, help="maximum seconds of one tuning")
    add("--models", type=Path, metavar="DIR", help="learned models (`calibrate --out DIR`; default: the shipped ones)")
    add("--data", type=Path, help="measured schedules for training BestFormat (default: those of benchmarks/data)")
    add("--vectors", type=Path, help="persistent statistics of their patterns (default: DATA/vectors.npz)")
    add("--cache", type=Path, help="persistent folder of kernels (default: an empty one)")
    add("--rounds", type=int, default=11)
    add("--seconds", type=float, default=10.0, help="maximum measuring time per matrix and operation, in seconds")
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="JSON lines: results are appended; cases that it holds are not measured again")
    add("--report", action="store_true", help="only write table and plot of --json")
    add("--table", type=Path, help="write the table as Markdown")
    add("--plot", type=Path, help="write the plot (needs matplotlib)")
    parsed = parser.parse_args(given)
    if parsed.matrices is None and not parsed.report:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


# -- ways ------------------------------------------------------------------------------------------------------------


def tuned(case: Case, tier: Tier) -> tuple[Prepared, dict[str, Any]]:
    """Return the result of `tune`, ready to run, with its price and provenance.

    The price is the median over repetitions in which all kernels are compiled. Each follows one product, which
    validates the structure, as a product does whether a matrix is tuned or not.
    """
    import autosparse
    from autosparse import cache
    from autosparse.config import get_options, options

    facts: dict[str, Any] = {}
    store = cache.open_store(get_options())
    prices_s: list[float] = []
    for _ in range(1 + REPEATS):
        A, n_built = autosparse.csr(case.A, copy=True), store.stats().n_kernels_built
        store.forget(("plan", "features"))
        _filling(A, case).run()
        start = time.perf_counter()
        with options(models=tier.models):
            plan = A.tune("matmul", columns=case.operation.n_dense_cols, effort=tier.effort, budget_s=case.budget_s)
        prices_s.append(time.perf_counter() - start)
        facts.setdefault("n_built", store.stats().n_kernels_built - n_built)
        if prices_s[-1] > LONG_S and len(prices_s) > 1:
            break
    facts |= {
        "first_s": prices_s[0],
        "price_s": statistics.median(prices_s[1:]),
        "schedule": plan.schedule.to_json() if plan.schedule is not None else None,
        "why": plan.why,
        "pack_s": plan.pack_s,
    }
    return _filling(A, case), facts


def default(case: Case) -> Prepared:
    """Return the default kernel, with tuning disabled."""
    import autosparse

    A = autosparse.csr(case.A, copy=True)
    A.tune("matmul", columns=case.operation.n_dense_cols, effort="off")
    return _filling(A, case)


def _filling(A: Any, case: Case) -> Prepared:
    import autosparse

    B, C, matmul = case.B, case.out, autosparse.matmul
    return Prepared(lambda: matmul(A, B, out=C))


def best_format(case: Case, selector: Any) -> tuple[Prepared, dict[str, Any]]:
    """Return the choice of BestFormat; its price is statistics, prediction and packing, but not hashing and loading."""
    from autosparse.tuner.features.pattern_vector import matrix_vector
    from peerlib.best_format import install

    import autosparse
    from autosparse import cache
    from autosparse.config import get_options

    A = autosparse.csr(case.A, copy=True)
    start = time.perf_counter()
    chosen = selector.model.choose(matrix_vector(A._cell.pattern))
    choose_s = time.perf_counter() - start
    for one in selector.adapted(chosen, case):
        for _ in range(2):  # the first one compiles and maps memory, as with our tiers
            A = autosparse.csr(case.A, copy=True)
            cache.open_store(get_options()).forget(("plan", "features"))
            plan = install(A, case.operation.n_dense_cols, one)
        if plan.schedule == one:
            break
    facts = {"price_s": choose_s + plan.pack_s, "choose_s": choose_s, "pack_s": plan.pack_s}
    return _filling(A, case), {**facts, "schedule": plan.schedule and plan.schedule.to_json(), "why": plan.why}


@dataclass(frozen=True, slots=True)
class Selector:
    """BestFormat for one operation, and the operation on whose measurements it was trained."""

    model: Any
    trained_on: str

    def adapted(self, chosen: Sequence[Any], case: Case) -> Iterator[Any]:
        """Yield the schedules for the case's width, with narrow indices first."""
        import numpy as np
        from autosparse.tuner.space.families import TILES
        from peerlib.best_format import of_both_widths, widened

        from autosparse.core.target import Target

        lanes = Target.host().vector_bytes // np.dtype(case.A.dtype).itemsize
        fitting = [tile for tile in TILES if lanes <= tile <= case.operation.n_dense_cols]
        for one in chosen:
            is_other = self.trained_on != case.operation.name and bool(one.dense_splits) and bool(fitting)
            yield from of_both_widths(widened(one, tiles=fitting, lanes=lanes) if is_other else one)


def selectors(args: argparse.Namespace, operations: Sequence[Operation]) -> dict[str, Selector]:
    """Return BestFormat by operation; without measurements of a width it is trained on those of another."""
    from autosparse.tuner.research.collect.files import read_folder
    from peerlib.best_format import BestFormat, training_vectors

    folder = args.matrices if args.matrices.is_dir() else args.matrices.parent
    data = args.data or extracted("training")
    kept = args.vectors or data / "vectors.npz"
    found = {}
    for operation in operations:
        for name in dict.fromkeys((operation.name, "spmm32" if operation.kind == "spmm" else "spmv")):
            measured = list(read_folder(data, name))
            if measured:
                vectors = training_vectors(measured, folder, kept)
                found[operation.name] = Selector(BestFormat.train(operation.kind, measured, vectors), name)
                break
    return found


# -- measuring -------------------------------------------------------------------------------------------------------


def measure_case(case: Case, ways: Sequence[Tier], selector: Selector | None, protocol: Protocol) -> dict[str, Any]:
    """Return the record of a case: times and prices of all ways."""
    from peers import prepare_all

    from autosparse.config import get_options
    from autosparse.ops import OPS

    complaint = case.checker()
    able = [peer for peer in contenders(PEERS) if not peer.ours and peer.can_run(case.operation, case.A.dtype.name)]
    ready, left_out = prepare_all(able, case)
    prices = {name: {"price_s": prepared.facts.get("prepare_s", 0.0)} for name, prepared in ready.items()}
    ready["default"], prices["default"] = default(case), {"price_s": 0.0}
    for tier in ways:
        ready[tier.name], prices[tier.name] = tuned(case, tier)
    if selector is not None:
        ready["best-format"], prices["best-format"] = best_format(case, selector)
    for name, prepared in ready.items():
        case.out.fill(float("nan"))
        if wrong := complaint(prepared.run()):
            raise RuntimeError(f"{case.matrix_name}, {case.operation.name}: {name} is {wrong}")
    # A tier that chose the default kernel shares its time, so that noise does not distinguish them.
    runs = {n: one.run for n, one in ready.items() if prices[n].get("schedule", "") is not None}
    timings = {name: asdict(timing) for name, timing in take_turns(runs, protocol).items()}
    for name in ready:
        timings.setdefault(name, timings["default"])
    for prepared in ready.values():
        prepared.close()
    return {
        **case.facts(),
        "times": timings,
        "prices": prices,
        "gain": OPS["matmul"].prior_gain(case.operation.n_dense_cols),
        "overhead": get_options().overhead,
        "trained_on": selector.trained_on if selector else None,
        "left_out": left_out,
    }


def chosen_files(args: argparse.Namespace) -> list[MatrixFile]:
    """Return the matrices of the selected groups."""
    files = find_matrices(args.matrices, min_nnz=args.min_nnz, only=tuple(args.only))
    if args.groups == "held-out":
        files = held_out(files, args.matrices)
    return files[: args.limit]


def run(args: argparse.Namespace, results: ResultFile) -> None:
    """Measure the cases that `results` lacks."""
    from peerlib.machine import machine_facts
    from peerlib.totals_report import line

    from autosparse.config import set_options

    operations = [Operation.parse(text) for text in args.ops.split(",")]
    protocol = Protocol(rounds=args.rounds, warm_s=WARM_S, most_s=args.seconds, seed=args.seed)
    efforts = args.efforts.split(",")
    if unknown := set(efforts) - set(EFFORTS):
        raise SystemExit(f"unknown tiers {', '.join(sorted(unknown))}: choose from {', '.join(EFFORTS)}")
    ways, best = tiers(args.models or shipped_models(), efforts), selectors(args, operations)
    done = {record["key"] for record in results.cases()}
    with tempfile.TemporaryDirectory(prefix="autosparse-totals-cache-") as empty:
        set_options(threads=args.threads, effort="measure", cache_dir=args.cache or empty, models=NO_MODELS)
        results.append({"kind": "run", "protocol": asdict(protocol), "arguments": given_arguments(), **machine_facts()})
        for file in chosen_files(args):
            keys = {op: "|".join((file.name, op.name, args.dtype, str(args.threads))) for op in operations}
            waiting = [op for op in operations if keys[op] not in done]
            A = load(file.path, dtype=args.dtype) if waiting else None
            for op in waiting:
                case = Case.of(
                    file.name, A, op, threads=args.threads, effort="off", budget_s=args.budget, seed=args.seed
                )
                record = measure_case(case, ways, best.get(op.name), protocol)
                results.append({"kind": "case", "key": keys[op], **record})
                print(line(record), flush=True)


def main() -> int:
    """Measure and report."""
    args = arguments()
    results = ResultFile(args.json)
    if not args.report:
        start_again(args.threads)
        run(args, results)
    from peerlib.totals_report import draw, markdown

    records = results.cases(dtype=args.dtype, threads=args.threads)
    text = markdown(records)
    print(text)
    if args.table is not None:
        args.table.write_text(text, encoding="utf-8")
    if args.plot is not None:
        draw(args.plot, records)
    return 0


if __name__ == "__main__":
    sys.exit(main())

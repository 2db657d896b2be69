"""Compare autosparse with its peers, interleaved in one process, on a folder of matrices.

    python benchmarks/peers.py --matrices DIR --ops spmv,spmm32,spmm256 --threads 2 --effort off --json out.jsonl
    python benchmarks/peers.py --matrices DIR --ops sddmm32,sddmm256,mttkrp16,spgemm --json out.jsonl

Peers that fill an existing array are compared with ``autosparse.matmul(A, B, out=C)``, peers that return a new one with
``A @ B``. The same holds for the other operations (sddmm: A ∘ (X @ Y), mttkrp: of tensors, spgemm: A @ A). Every
contender's answer is checked once. Caches are not flushed between calls (see peerlib/timing.py for the protocol).

The limits of the machine are measured at the start of a run, and each time is compared with its roofline
(peerlib/roofline.py). An interrupted run continues where it stopped when given the same --json. --report prints the
tables of a file for every effort; --paper prints those of the WACO paper, with the published figures beside ours.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from peerlib.case import Case, Operation, Prepared
from peerlib.environment import matrices_folder, openmp_runtimes, start_again
from peerlib.matrices import MatrixFile, find_matrices, find_tensors, load, load_tensor
from peerlib.paper import paper_table
from peerlib.records import ResultFile, given_arguments
from peerlib.registry import Peer, contenders
from peerlib.roofline import Limits, limits_or_none, roofline_of
from peerlib.summary import Distribution, Versus, best_peer, ratios
from peerlib.table import aligned, distribution_rows, seconds, worst
from peerlib.timing import SETTLE_S, Protocol, take_turns

OURS: Final = {False: "autosparse", True: "autosparse-out"}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices, or one file")
    add("--min-nnz", type=int, default=100_000)
    add("--only", action="append", default=[], metavar="NAME", help="only this matrix (repeatable)")
    add("--limit", type=int, help="the first LIMIT matrices only")
    add("--ops", default="spmv,spmm32,spmm256", help="also sddmm<K>, mttkrp<R>[@mode], spgemm")
    add("--threads", type=int, default=2)
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--effort", choices=("off", "estimate", "measure", "full"), default="off", help="how autosparse is tuned")
    add("--budget", type=float, default=20.0, help="maximum seconds of one tuning")
    add("--peers", default="", help="names of peers, comma-separated; default: all that are installed")
    add("--adapter", action="append", default=[], metavar="NAME=PATH", help="a peer built elsewhere (peer_abi.h)")
    add("--rounds", type=int, default=11)
    add("--seconds", type=float, default=10.0, help="maximum measuring time per matrix and operation, in seconds")
    add("--footprint", type=int, metavar="BYTES", help="largest footprint of the roofline's measurement")
    add("--seed", type=int, default=0)
    add("--json", type=Path, help="JSON lines: results are appended; cases that it holds are not measured again")
    add("--report", action="store_true", help="only print the tables of --json")
    add("--paper", action="store_true", help="only print --json as WACO's Tables 4 and 5, in Markdown")
    parsed = parser.parse_args(given)
    if parsed.matrices is None and not (parsed.report or parsed.paper):
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


def prepare_all(peers: Sequence[Peer], case: Case) -> tuple[dict[str, Prepared], dict[str, str]]:
    """Return the contenders that are ready and correct, and the reasons why others are left out."""
    complaint = case.checker()
    ready: dict[str, Prepared] = {}
    left_out: dict[str, str] = {}
    for peer in peers:
        try:
            prepared = peer.prepared(case)
            case.out.fill(float("nan"))  # otherwise the answer of another peer could pass the check
            wrong = complaint(prepared.run())
        except (RuntimeError, OSError, ImportError, TypeError, ValueError, AttributeError) as err:
            wrong = f"{type(err).__name__}: {err}"
            if peer.ours:
                raise
        if wrong is None:
            ready[peer.name] = prepared
        else:
            left_out[peer.name] = wrong
    return ready, left_out


def measure_case(case: Case, peers: Sequence[Peer], protocol: Protocol, limits: Limits | None = None) -> dict[str, Any]:
    """Return the record of a case: times of all contenders that can run it, and the roofline if there are `limits`."""
    reason = case.reason_left_out()
    able = [peer for peer in peers if reason is None and peer.can_run(case.operation, case.A.dtype.name)]
    ready, left_out = prepare_all(able, case) if reason is None else ({}, {"everybody": reason})
    try:
        runs = {name: prepared.run for name, prepared in ready.items()}
        timings = take_turns(runs, protocol) if runs else {}
    finally:
        for prepared in ready.values():
            prepared.close()
    return {
        **case.facts(),
        "effort": case.effort,
        "times": {name: asdict(timing) for name, timing in timings.items()},
        "fills": {peer.name: peer.fills for peer in able},
        "facts": {name: prepared.facts for name, prepared in ready.items() if prepared.facts},
        "left_out": left_out,
        "roofline": roofline_of(case, limits) if limits is not None and timings else None,
        "openmp_runtimes": openmp_runtimes(),
    }


def key_of(matrix: str, operation: str, args: argparse.Namespace) -> str:
    """Return the identifier of one cell of the experiment."""
    return "|".join((matrix, operation, args.dtype, str(args.threads), args.effort))


def versus_peers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return each peer's time over ours, for one record."""
    times_s = {name: timing["median_s"] for name, timing in record["times"].items()}
    return ratios(times_s, record["fills"], OURS)


def fraction_of_roofline(record: Mapping[str, Any]) -> float | None:
    """Return the roofline's time over ours for one record, or None if it was not measured."""
    ours_s = [record["times"][name]["median_s"] for name in OURS.values() if name in record["times"]]
    return record["roofline"]["least_s"] / min(ours_s) if record.get("roofline") and ours_s else None


def print_record(record: Mapping[str, Any]) -> None:
    """Print one line per finished cell."""
    against = versus_peers(record)
    if not against:
        print(f"{record['matrix']:32s} {record['operation']:8s} no peer could run it: {record['left_out']}", flush=True)
        return
    best = best_peer(record["matrix"], against)
    own = "  ".join(
        f"{name} {seconds(record['times'][name]['median_s'])}" for name in OURS.values() if name in record["times"]
    )
    others = "  ".join(f"{name} {ratio:.2f}" for name, ratio in sorted(against.items(), key=lambda item: item[1]))
    fraction = fraction_of_roofline(record)
    roof = "" if fraction is None else f"  |  {fraction:.0%} of the roofline ({record['roofline']['bound']})"
    print(f"{record['matrix']:32s} {record['operation']:8s} {best.ratio:6.2f}  {own}  |  {others}{roof}", flush=True)
    for name, reason in record["left_out"].items():
        print(f"    {name} left out: {reason}", flush=True)


def print_summary(records: Sequence[Mapping[str, Any]]) -> None:
    """Print distributions over matrices: the best peer per matrix, then each peer."""
    for operation in dict.fromkeys(record["operation"] for record in records):
        chosen = [record for record in records if record["operation"] == operation]
        per_matrix = {record["matrix"]: against for record in chosen if (against := versus_peers(record))}
        if not per_matrix:
            continue
        found: list[Versus] = [best_peer(matrix, against) for matrix, against in per_matrix.items()]
        names = dict.fromkeys(name for against in per_matrix.values() for name in against)
        rows = [("best peer per matrix", Distribution.of([versus.ratio for versus in found]))]
        rows += [(name, Distribution.of([a[name] for a in per_matrix.values() if name in a])) for name in names]
        print(f"\n{operation}: time of the peer / our time (effort={chosen[0]['effort']}, {chosen[0]['dtype']})")
        print(aligned(distribution_rows(rows)))
        print(worst(found))
        print_rooflines(chosen)


def print_rooflines(records: Sequence[Mapping[str, Any]]) -> None:
    """Print the distribution of the roofline's time over ours, and the matrices farthest from it."""
    found = [(fraction, record) for record in records if (fraction := fraction_of_roofline(record)) is not None]
    if found:
        print(
            aligned(distribution_rows([("roofline / our time", Distribution.of([fraction for fraction, _ in found]))]))
        )
        least = sorted(found, key=lambda pair: pair[0])[:5]
        texts = [f"{record['matrix']} {fraction:.3f} ({record['roofline']['bound']})" for fraction, record in least]
        print(f"farthest: {', '.join(texts)}")


def run(args: argparse.Namespace, results: ResultFile) -> list[dict[str, Any]]:
    """Measure the cases that `results` lacks; return all records of this experiment."""
    from peerlib.machine import machine_facts

    from autosparse.config import set_options

    operations = [Operation.parse(text) for text in args.ops.split(",")]
    peers = contenders(filter(None, args.peers.split(",")), args.adapter)
    chosen: dict[str, Any] = {"min_nnz": args.min_nnz, "only": tuple(args.only), "limit": args.limit}
    files = [find(args.matrices, **chosen) if wanted else [] for find, wanted in _finders(operations)]
    protocol = Protocol(rounds=args.rounds, most_s=args.seconds, seed=args.seed, settle_s=SETTLE_S)
    done = {record["key"]: record for record in results.cases()}
    run_id = f"{time.strftime('%Y-%m-%dT%H:%M:%S')}-{args.seed}"
    with tempfile.TemporaryDirectory(prefix="autosparse-peers-cache-") as cache:
        set_options(threads=args.threads, effort=args.effort, cache_dir=cache)
        facts = {
            "protocol": asdict(protocol),
            "cache_flushed": False,
            "arguments": given_arguments(),
            **machine_facts(),
        }
        limits = limits_or_none(args.dtype, args.threads, largest_bytes=args.footprint)
        results.append({"kind": "run", "run": run_id, "limits": limits and asdict(limits), **facts})
        for file in itertools.chain(*files):
            fitting = [op for op in operations if op.is_of_tensors == file.is_tensor]
            wanted = [op for op in fitting if key_of(file.name, op.name, args) not in done]
            for record in measure_matrix(file, wanted, peers, (args, protocol, limits)):
                record |= {"kind": "case", "run": run_id, "key": key_of(file.name, record["operation"], args)}
                results.append(record)
                print_record(record)
                done[record["key"]] = record
    keys = [key_of(file.name, op.name, args) for op in operations for file in itertools.chain(*files)]
    return [done[key] for key in keys if key in done]


def _finders(operations: Sequence[Operation]) -> tuple[tuple[Any, bool], tuple[Any, bool]]:
    """Return the finders of matrices and of tensors, each with whether an operation needs it."""
    kinds = {op.is_of_tensors for op in operations}
    return (find_matrices, False in kinds), (find_tensors, True in kinds)


def measure_matrix(
    file: MatrixFile,
    operations: Sequence[Operation],
    peers: Sequence[Peer],
    how: tuple[argparse.Namespace, Protocol, Limits | None],
) -> Any:
    """Yield the records of one matrix, one per operation."""
    args, protocol, limits = how
    read = load_tensor if file.is_tensor else load
    A = read(file.path, dtype=args.dtype) if operations else None
    for operation in operations:
        case = Case.of(
            file.name, A, operation, threads=args.threads, effort=args.effort, budget_s=args.budget, seed=args.seed
        )
        yield measure_case(case, peers, protocol, limits)


def main() -> int:
    """Measure and print."""
    args = arguments()
    results = ResultFile(args.json)
    if args.paper:
        print(paper_table(results.cases(dtype=args.dtype, threads=args.threads, effort=args.effort), OURS))
        return 0
    if args.report:
        held = results.cases(dtype=args.dtype, threads=args.threads)
        for effort in dict.fromkeys(record["effort"] for record in held):
            print_summary([record for record in held if record["effort"] == effort])
        return 0
    start_again(args.threads)
    print_summary(run(args, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

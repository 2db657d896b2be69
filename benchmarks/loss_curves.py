"""Compare loss curves of graph networks with autosparse and torch.sparse, and repeated runs of torch.sparse.

    python benchmarks/loss_curves.py --matrices DIR --json benchmarks/results/loss_curves.jsonl

Rounding errors grow in training: Adam divides gradients of the errors' size by each other, and parallel sums have no
fixed order. Each float32 curve is therefore compared with two references: torch.sparse trained again (same seed and
threads, and on one thread), and torch.sparse in float64. A gap is the largest difference of two losses at the same
epoch.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gnn import GRAPHS, Run
from peerlib.environment import matrices_folder, start_again
from peerlib.graph_networks import MODELS, Task, contenders, make_task
from peerlib.machine import machine_facts
from peerlib.records import ResultFile
from peerlib.table import aligned

OURS: Final = ("autosparse override", "autosparse")
AGAIN: Final = ("torch.sparse again", "torch.sparse, 1 thread")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices")
    add("--graphs", default=f"{GRAPHS},soc-brightkite")
    add("--models", default=",".join(MODELS))
    add("--epochs", type=int, default=100)
    add("--hidden", type=int, default=64)
    add("--threads", type=int, default=2)
    add("--json", type=Path)
    parsed = parser.parse_args(given)
    if parsed.matrices is None:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


def gap(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the maximum over epochs of |a - b|."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def curve(task: Task, name: str, who: str, start: Any, *, epochs: int, threads: int) -> list[float]:
    """Return the losses of the contender `who` over `epochs` epochs, from a copy of the network `start`."""
    import torch

    torch.set_num_threads(threads)
    make, override = {
        entry: (make, override) for entry, make, override in contenders(MODELS[name], with_compile=False)
    }[who]
    run = Run(copy.deepcopy(start), make(task), task.labels, override=override)
    for _ in range(epochs):
        run.epoch()
    return run.losses


def compare(task: Task, name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return the record of one network on one graph: gaps to torch.sparse in float32 and in float64."""
    import torch

    torch.manual_seed(0)
    start = MODELS[name].make(task.X.shape[1], args.hidden)
    plan = {"torch.sparse": ("torch.sparse", args.threads), AGAIN[0]: ("torch.sparse", args.threads)}
    plan |= {AGAIN[1]: ("torch.sparse", 1)} | {who: (who, args.threads) for who in OURS}
    losses = {
        entry: curve(task, name, who, start, epochs=args.epochs, threads=threads)
        for entry, (who, threads) in plan.items()
    }
    double = task.to(torch.float64)
    exact = curve(double, name, "torch.sparse", copy.deepcopy(start).double(), epochs=args.epochs, threads=args.threads)
    ours = curve(double, name, "autosparse", copy.deepcopy(start).double(), epochs=args.epochs, threads=args.threads)
    return {
        "kind": "case", "key": f"{task.name}|{name}", "model": name, "graph": task.name, "threads": args.threads,
        "epochs": args.epochs, "last_loss": losses["torch.sparse"][-1],
        "to_torch": {who: gap(found, losses["torch.sparse"]) for who, found in losses.items()},
        "to_float64": {who: gap(found, exact) for who, found in losses.items()},
        "float64": gap(ours, exact),
    }  # fmt: skip


def table(found: Sequence[dict[str, Any]]) -> str:
    """Format a row per case: gaps to torch.sparse, gaps to float64, and the gap of both in float64."""
    rows = [["", "ours", "override", "torch again", "torch, 1 thread", "ours to 64", "torch to 64", "both in 64"]]
    for record in found:
        near, exact = record["to_torch"], record["to_float64"]
        gaps = [near[OURS[1]], near[OURS[0]], near[AGAIN[0]], near[AGAIN[1]]]
        gaps += [exact[OURS[1]], max(exact[who] for who in ("torch.sparse", *AGAIN)), record["float64"]]
        rows.append([f"{record['model']} {record['graph']}", *(f"{value:.0e}" for value in gaps)])
    return aligned(rows)


def main() -> int:
    """Train, record and print."""
    args = arguments()
    start_again(args.threads)
    warnings.filterwarnings("ignore", message="Sparse|index_reduce")
    results, found = ResultFile(args.json), []
    if not any(line["kind"] == "run" for line in results.lines()):
        results.append({"kind": "run", "run": time.strftime("%Y-%m-%dT%H:%M:%S"), **machine_facts()})
    known = {record["key"]: record for record in results.cases(threads=args.threads, epochs=args.epochs)}
    for graph in args.graphs.split(","):
        task = make_task(args.matrices, graph)
        for name in args.models.split(","):
            key = f"{graph}|{name}"
            if key not in known:
                known[key] = compare(task, name, args)
                results.append(known[key])
                print(table([known[key]]), flush=True)
            found.append(known[key])
    print(table(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

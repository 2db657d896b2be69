"""Time training of GCN, GraphSAGE and GAT and inference with pruned layers, end to end.

    python benchmarks/gnn.py --matrices DIR --json benchmarks/results/gnn.jsonl --plot benchmarks/results/gnn.png

Contenders alternate epoch by epoch, each with its own copy of the model. The first epochs (compilation, tuning) are not
part of the median. Graphs are files of the folder. Features are real if the folder contains them (`FEATURES` in
peerlib/graph_networks.py) and random otherwise. Labels are computed from the features, so that the loss can decrease.
PyTorch Geometric and DGL take part if they are installed. `--large` names an additional, larger graph.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from peerlib.environment import matrices_folder, start_again
from peerlib.graph_networks import MODELS, Forward, Task, contenders, make_task
from peerlib.machine import machine_facts
from peerlib.pictures import save
from peerlib.records import ResultFile
from peerlib.table import aligned, seconds
from peerlib.timing import Protocol, take_turns

GRAPHS: Final = "cora_shchur,citeseer_shchur,pubmed"
WARM_EPOCHS: Final = 5  # excluded from the median
ORDER: Final = (
    "dense",
    "torch.sparse",
    "torch.compile",
    "PyG",
    "DGL",
    "autosparse override",
    "autosparse",
)  # order of the bars


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--matrices", type=Path, default=matrices_folder(), help="folder of matrices")
    add("--graphs", default=GRAPHS)
    add("--large", default="soc-brightkite", help="an additional, larger graph; empty: none")
    add("--models", default=",".join(MODELS))
    add("--epochs", type=int, default=100)
    add("--hidden", type=int, default=64)
    add("--threads", type=int, default=2)
    add("--dtype", choices=("float32", "float64"), default="float32", help="float64 shows whether loss curves agree")
    add("--no-compile", action="store_true", help="leave out torch.compile, which takes minutes")
    add("--no-mlp", action="store_true", help="leave out the pruned layers")
    add("--mlp-width", type=int, default=2048)
    add("--json", type=Path)
    add("--plot", type=Path, help="bars per model and graph (needs matplotlib)")
    parsed = parser.parse_args(given)
    if parsed.matrices is None:
        parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
    return parsed


class Run:
    """Training of one contender, with its own model and optimiser."""

    def __init__(self, module: Any, forward: Forward, labels: Any, *, override: bool) -> None:
        import torch

        self.module, self.forward, self.labels, self.override = module, forward, labels, override
        self.optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        self.losses: list[float] = []
        self.epochs_s: list[float] = []

    def epoch(self) -> None:
        import torch

        import autosparse

        with autosparse.torch.override() if self.override else contextlib.nullcontext():
            start_s = time.perf_counter()
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.forward(self.module), self.labels)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            self.epochs_s.append(time.perf_counter() - start_s)


def key_of(graph: str, model: str, args: argparse.Namespace) -> str:
    """Return the name of a case in the results."""
    return f"{graph}|{model}" + ("" if args.dtype == "float32" else f"|{args.dtype}")


def train(task: Task, name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Train all contenders in alternation, epoch by epoch; return the record of the case."""
    import torch

    torch.manual_seed(0)
    start = MODELS[name].make(task.X.shape[1], args.hidden).to(getattr(torch, args.dtype))
    runs = {}
    for who, make, override in contenders(MODELS[name], with_compile=not args.no_compile):
        runs[who] = Run(copy.deepcopy(start), make(task), task.labels, override=override)
    for _ in range(args.epochs):
        for run in runs.values():
            run.epoch()
    reference = runs["torch.sparse"].losses
    return {
        "kind": "case", "key": key_of(task.name, name, args), "model": name, "graph": task.name,
        "threads": args.threads, "dtype": args.dtype,
        "n_nodes": task.A.shape[0], "nnz": task.A._nnz(), "n_features": task.X.shape[1], "epochs": args.epochs,
        "epoch_s": {who: statistics.median(run.epochs_s[WARM_EPOCHS:] or run.epochs_s) for who, run in runs.items()},
        "total_s": {who: sum(run.epochs_s) for who, run in runs.items()},
        "loss": {who: run.losses[-1] for who, run in runs.items()},
        "loss_gap": {
            who: max(abs(a - b) for a, b in zip(run.losses, reference, strict=True)) for who, run in runs.items()
        },
    }  # fmt: skip


def pruned_layers(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time inference of a three-layer network for three kinds of pruning: dense, torch.sparse, and autosparse."""
    import torch
    from pruned_mlp import inference, pruned

    width = args.mlp_width
    torch.manual_seed(0)
    dense = [torch.randn(n, m) / m**0.5 for n, m in ((width, width // 2), (width, width), (width // 8, width))]
    for batch in (1, 64):
        X = torch.randn(batch, width // 2)
        for what, keep, block in (("90 %", 0.1, 1), ("95 %", 0.05, 1), ("90 %, 32 x 32", 0.1, 32)):
            sparse = [pruned(weight, keep, block) for weight in dense]
            masked = [weight.to_dense() for weight in sparse]
            times = layer_times(partial(inference, masked, X), partial(inference, sparse, X))
            yield {
                "kind": "case", "key": f"mlp|{what}|{batch}", "model": "pruned mlp", "graph": f"{what}, batch {batch}",
                "threads": args.threads, "epoch_s": times, "loss_gap": {},
            }  # fmt: skip


def layer_times(dense: partial[Any], sparse: partial[Any]) -> dict[str, float]:
    """Return the median seconds of one inference by contender."""
    import torch

    import autosparse

    with torch.no_grad():
        found = take_turns({"dense": dense, "torch.sparse": sparse}, Protocol())
        with autosparse.torch.override():
            found |= take_turns({"autosparse override": sparse}, Protocol())
    return {who: timing.median_s for who, timing in found.items()}


def table(found: Sequence[dict[str, Any]]) -> str:
    """Format the time per epoch (or run) of every contender, and the speedup over torch.sparse."""
    names = list(dict.fromkeys(who for record in found for who in record["epoch_s"]))
    rows = [["", *names, "best of ours", "loss gap"]]
    for record in found:
        times = record["epoch_s"]
        best = min(time_s for who, time_s in times.items() if who.startswith("autosparse"))
        gap = max((gap for who, gap in record["loss_gap"].items() if who.startswith("autosparse")), default=0.0)
        cells = [seconds(times.get(who)) for who in names]
        rows.append(
            [f"{record['model']} {record['graph']}", *cells, f"{times['torch.sparse'] / best:.2f}x", f"{gap:.0e}"]
        )
    return aligned(rows)


def draw(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw bars of time relative to torch.sparse: one panel for networks, one for pruned layers."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    layers = [record for record in found if record["model"] == "pruned mlp"]
    panels = [panel for panel in ([record for record in found if record not in layers], layers) if panel]
    figure, rows = plt.subplots(len(panels), figsize=(11, 3.2 * len(panels)), squeeze=False)
    for axes, panel in zip(rows[:, 0], panels, strict=True):
        names = sorted({who for record in panel for who in record["epoch_s"]}, key=ORDER.index)
        for place, who in enumerate(names):
            heights = [r["epoch_s"].get(who, float("nan")) / r["epoch_s"]["torch.sparse"] for r in panel]
            at = [i + 0.8 * ((place + 0.5) / len(names) - 0.5) for i in range(len(panel))]
            axes.bar(at, heights, 0.8 / len(names), label=who, color=f"C{ORDER.index(who)}")
        axes.set_xticks(range(len(panel)), [f"{r['model']}\n{r['graph'].replace('_', ' ')}" for r in panel], fontsize=6)
        axes.set_ylabel("time / torch.sparse")
        axes.axhline(1.0, color="black", linewidth=0.5)
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    save(figure, path, dpi=110)


def main() -> int:
    """Measure, record, print and draw."""
    args = arguments()
    start_again(args.threads)
    warnings.filterwarnings("ignore", message="Sparse|index_reduce")
    import torch

    torch.set_num_threads(args.threads)
    results, found = ResultFile(args.json), []
    if not any(line["kind"] == "run" for line in results.lines()):
        results.append({"kind": "run", "run": time.strftime("%Y-%m-%dT%H:%M:%S"), **machine_facts()})
    known = {record["key"]: record for record in results.cases(threads=args.threads, epochs=args.epochs)}
    for graph in filter(None, (*args.graphs.split(","), args.large)):
        task = make_task(args.matrices, graph).to(getattr(torch, args.dtype))
        for name in args.models.split(","):
            key = key_of(graph, name, args)
            if key not in known:
                known[key] = train(task, name, args)
                results.append(known[key])
                print(table([known[key]]), flush=True)
            found.append(known[key])
    if not args.no_mlp:
        for record in pruned_layers(args):
            results.append(record)
            found.append(record)
    print(table(found))
    if args.plot:
        draw(found, args.plot)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Compare WACO's networks and graphs with boosted trees and the statistics model on unseen patterns (WACO section 5).

    python benchmarks/archives.py extract training DATA
    python benchmarks/waco_network.py --data DATA --matrices FOLDER --out FILE       # resumable
    python benchmarks/waco_network.py --report --out FILE
    python benchmarks/waco_network.py --quick                                        # generated patterns, seconds
    python benchmarks/waco_network.py --published FOLDER          # best programs by the weights of WACO's authors

Each model orders the schedules that were measured on a pattern of a group that no model was trained on. Its share of
the oracle is the least measured time over the time of its first schedule (top-1), or over the least time of its first
ten (top-10). Schedules outside a model's space are left out for all models. For WACO's network the page also has the
time of features over the whole pattern, and the cost evaluations and time of the search on the graph.

FOLDER holds the real matrices that the recipes name; --splits sealed opens the sealed groups.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from autosparse._native import runtime_api
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.learned.predict import LearnedModel
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.research.inference.embeddings import dequantised, pooled_layers
from autosparse.tuner.research.training.data import TrainingCase, read_data
from autosparse.tuner.research.training.ranking import Ranking
from peerlib.archives import output
from peerlib.table import markdown

from autosparse import _native
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.tuning.learned import shipped_folder

OPERATIONS = ("spmv", "spmm32", "spmm256", "sddmm32", "sddmm256", "mttkrp16")
MODELS = {"statistics": "statistics model", "boosted": "boosted trees", "waco": "WACO's network and graph"}
"""Names of the compared models in records and on the page."""
SIZES = (100_000, 1_000_000, 10_000_000)
"""Numbers of entries at which the features are timed."""
TIMED = {"mesh": 2, "power_law": 2, "tensor_uniform": 3}
"""Generated families whose features are timed, with their numbers of dimensions."""
ONCE = 5_000_000
"""Number of entries from which on a time is taken once instead of three times."""


def problem_of(case: TrainingCase, pattern: Any) -> Problem:
    """Return the problem that the schedules of a case were measured on."""
    one = case.setting
    return Problem(
        operation=case.operation, pattern=pattern, transposed=False, n_dense_cols=one.n_dense_cols, dtype=one.dtype,
        threads=one.threads, deterministic=False, target=one.target,
    )  # fmt: skip


def compared(case: TrainingCase, models: Mapping[str, LearnedModel], matrices: Path | None) -> dict[str, Any] | None:
    """Return costs of the schedules that all models can order, times, and the costs of features and search."""
    pattern = case.recipe.make(matrices).to_structure()
    problem = problem_of(case, pattern)
    spaces = [model.weights.space for model in models.values()]
    kept = [at for at, one in enumerate(case.schedules) if all(space.contains(one) for space in spaces)]
    if len(kept) < 2:
        return None
    schedules = [case.schedules[at] for at in kept]
    costs = {"statistics": list(predicted_ratios(problem, schedules))}
    spent: dict[str, Any] = {}
    for name, model in models.items():
        start_s = time.perf_counter()
        features = model.features(pattern)
        middle_s = time.perf_counter()
        scored: list[int] = []
        model.propose(problem, features, _native.supports, note=scored.append)
        spent[name] = {
            "features_s": middle_s - start_s, "search_s": time.perf_counter() - middle_s, "n_scored": sum(scored),
        }  # fmt: skip
        costs[name] = model.ratios(problem, features, schedules)
    return {
        "group": case.recipe.group, "kind": case.recipe.kind, "nnz": int(pattern.nnz), "costs": costs, "spent": spent,
        "ratios": [float(case.ratios[at]) for at in kept], "censored": [bool(case.censored[at]) for at in kept],
    }  # fmt: skip


def cases_of(args: argparse.Namespace, op: str) -> Iterator[tuple[str, TrainingCase]]:
    """Yield (split, case) of the wanted splits, smallest patterns first, each pattern and machine once."""
    folders = [args.data, *sorted(one for one in args.data.iterdir() if one.is_dir() and op_is_in(one, op))]
    data = read_data(folders, op)
    for split in args.splits.split(","):
        for case in sorted(data.of(split), key=lambda one: one.nnz):
            if case.nnz <= args.most:
                yield split, case


def op_is_in(folder: Path, op: str) -> bool:
    """Return whether `folder` holds measurements of `op` in float32."""
    return (folder / f"{op}.npz").exists() and "float64" not in folder.name


def read_models(folder: Path, op: str) -> dict[str, LearnedModel]:
    """Return the learned models that are compared, by their names in MODELS."""
    return {"boosted": LearnedModel.read(folder, op), "waco": LearnedModel.read(folder, f"{op}.waco")}


def run(args: argparse.Namespace, known: list[dict[str, Any]]) -> None:
    """Compare on the cases that `known` lacks, and append records to the file."""
    done = {(one["op"], one["key"]) for one in known}
    for op in args.ops.split(","):
        models = read_models(args.models, op)
        for split, case in cases_of(args, op):
            key = f"{case.recipe.digest()}|{case.setting.target.key()}|{len(case.schedules)}"
            if (op, key) in done:
                continue
            try:
                found = compared(case, models, args.matrices)
            except FileNotFoundError as error:
                print(f"{op}: left out, {error}", flush=True)
                continue
            if found is not None:
                keep(args.out, known, {"op": op, "split": split, "key": key, **found})


def keep(path: Path, known: list[dict[str, Any]], record: dict[str, Any]) -> None:
    """Append `record` to the file and to `known`."""
    known.append(record)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def timed(args: argparse.Namespace, sizes: Sequence[int], known: list[dict[str, Any]]) -> None:
    """Time the features of generated patterns, the median of three up to ONCE entries."""
    for family, dimension in TIMED.items():
        op = "mttkrp16" if dimension == 3 else "spmm32"
        path = args.models / f"{op}.waco.safetensors"
        if not path.exists():
            continue
        weights = dequantised(LearnedModel.read(args.models, f"{op}.waco").weights.tensors)
        for size in sizes:
            if any(one.get("family") == family and one["size"] == size for one in known):
                continue
            pattern = generate(family, nnz=size, seed=1).to_structure()
            found = []
            for _ in range(1 if pattern.nnz >= ONCE else 3):
                start_s = time.perf_counter()
                pooled_layers(pattern, weights, WHOLE)
                found.append(time.perf_counter() - start_s)
            seconds = statistics.median(found)
            record = {"family": family, "size": size, "nnz": int(pattern.nnz), "seconds": seconds, "op": "times"}
            keep(args.out, known, record | {"key": f"{family}|{size}", "threads": runtime_api.max_threads()})


def text(records: Iterable[Mapping[str, Any]]) -> str:
    """Return the page."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    times = []
    for one in records:
        if one["op"] == "times":
            times.append(one)
        else:
            groups[one["split"], one["op"]].append(one)
    rows = [["groups", "operation", "patterns", "model", "pairs", "top-1", "5 %", "top-10", "5 %"]]
    spent = [["groups", "operation", "model", "features, median s", "most", "cost evaluations", "search, median s"]]
    for (split, op), found in sorted(groups.items()):
        for name, title in MODELS.items():
            ranking = Ranking.of([_scored(one, name) for one in found])
            numbers = (ranking.top[1], ranking.top_low[1], ranking.top[10], ranking.top_low[10])
            where = [split.replace("_", " "), op, str(ranking.n_patterns), title]
            rows.append([*where, f"{ranking.ordered_pairs:.3f}", *(f"{one:.3f}" for one in numbers)])
        for name in ("boosted", "waco"):
            mine = [one["spent"][name] for one in found]
            features = [one["features_s"] for one in mine]
            n_scored, search_s = (statistics.median(one[key] for one in mine) for key in ("n_scored", "search_s"))
            cells = [f"{statistics.median(features):.2g}", f"{max(features):.2g}", f"{n_scored:.0f}", f"{search_s:.2g}"]
            spent.append([split.replace("_", " "), op, MODELS[name], *cells])
    clock = [["family", "entries", "threads", "seconds", "ns per entry"]]
    for one in times:
        ns = 1e9 * one["seconds"] / one["nnz"]
        clock.append([one["family"], f"{one['nnz']:,}", str(one["threads"]), f"{one['seconds']:.3g}", f"{ns:.0f}"])
    parts = [
        "# WACO's networks and graphs on unseen patterns",
        "Written by `python benchmarks/waco_network.py`, whose docstring defines the columns.",
        "## Shares of the oracle", markdown(rows), "## Time of features and search", markdown(spent),
        "## Features of whole patterns by size", markdown(clock),
    ]  # fmt: skip
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _scored(one: Mapping[str, Any], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.array(one["costs"][name]), np.array(one["ratios"]), np.array(one["censored"])


def quick(args: argparse.Namespace, known: list[dict[str, Any]]) -> None:
    """Propose on one small generated pattern per operation, and time small patterns, to try the script out."""
    for op in args.ops.split(","):
        try:
            models = read_models(args.models, op)
        except FileNotFoundError:
            continue
        family = "tensor_uniform" if op.startswith("mttkrp") else "mesh"
        recipe = Recipe(
            kind="generated", source=family, group="quick", n_dims=3 if "tensor" in family else 2, nnz=3_000
        )
        programs = [models["boosted"].schedule(at) for at in range(12)]
        schedules = [one for one in programs if one is not None]
        case = TrainingCase(
            recipe, np.zeros((len(schedules), 1), np.int16), np.linspace(0.5, 1.5, len(schedules), dtype=np.float32),
            np.zeros(len(schedules), np.bool_), 1e-3, 3_000, setting_of(op), OPERATION_OF[op.rstrip("0123456789")],
            schedules,
        )  # fmt: skip
        found = compared(case, models, None)
        if found is not None:
            keep(args.out, known, {"op": op, "split": "quick", "key": op, **found})
    timed(args, (2_000,), known)


OPERATION_OF = {"spmv": "matmul", "spmm": "matmul", "sddmm": "sddmm", "mttkrp": "mttkrp"}
"""Algorithm -> operation."""


def setting_of(op: str) -> Any:
    """Return the run setting of `op` in float32 on this machine."""
    from autosparse.tuner.features.setting import RunSetting

    columns = int(op[len(op.rstrip("0123456789")) :] or 1)
    return RunSetting(target=Target.host(), dtype="float32", n_dense_cols=columns, threads=Target.host().n_cores)


def by_published(folder: Path, *, n_programs: int = 2000) -> list[list[str]]:
    """Return the best of random programs by the weights of WACO's authors, on generated patterns, with their costs."""
    import torch
    from autosparse.tuner.research.networks.cost_model import flat_codes
    from autosparse.tuner.research.networks.published import PUBLISHED, read_published

    rows = [["weights", "pattern", "entries", "cost, best and median", "best program"]]
    rng = np.random.default_rng(0)
    for name, parameters in PUBLISHED.items():
        if not (folder / f"{name}.npz").exists():
            continue
        model = read_published(folder / f"{name}.npz")
        codes = [tuple(one.code(one.draw(rng)) for one in parameters) for _ in range(n_programs)]
        for family in ("mesh", "power_law"):
            pattern = generate(family, nnz=20_000, seed=1)
            with torch.no_grad():
                costs = model(model.extractor.prepare(pattern), torch.from_numpy(flat_codes(codes, parameters))).numpy()
            best = zip(parameters, codes[int(costs.argmin())], strict=True)
            program = ", ".join(f"{one.name}={one.value(code)}" for one, code in best)
            rows.append([name, family, f"{pattern.nnz:,}", f"{costs.min():.2f}, {np.median(costs):.2f}", program])
    return rows


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, help="extracted archive `training`")
    add("--matrices", type=Path, help="folder of the real matrices")
    add("--models", type=Path, default=shipped_folder(Target.host()), help="folder of the models (shipped)")
    add("--ops", default=",".join(OPERATIONS))
    add("--splits", default="held_out", help="of train, validation, held_out and sealed (held_out)")
    add("--most", type=int, default=10_000_000, help="maximum number of entries of a pattern")
    add("--times", action="store_true", help="also time the features of patterns of 1e5, 1e6 and 1e7 entries")
    add("--quick", action="store_true", help="small generated patterns, to try the script out")
    add("--out", type=Path, default=output("waco_network.jsonl", record=False), help="JSON lines; the page lies beside")
    add("--report", action="store_true", help="only write the page of --out")
    add("--published", type=Path, metavar="FOLDER", help="only print programs that the authors' weights prefer")
    parsed = parser.parse_args(given)
    if parsed.data is None and not (parsed.published or parsed.quick or parsed.report or parsed.times):
        parser.error("--data DIR is needed, the extracted archive `training`")
    return parsed


def main(given: Sequence[str] | None = None) -> None:
    """Compare, and write the page."""
    args = arguments(given)
    if args.published is not None:
        print(markdown(by_published(args.published)))
        return
    args.out.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in args.out.read_text("utf-8").splitlines()] if args.out.exists() else []
    if args.quick:
        quick(args, known)
    elif not args.report:
        if args.data is not None:
            run(args, known)
        if args.times:
            timed(args, SIZES, known)
    page = text(known)
    args.out.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()

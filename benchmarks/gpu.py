"""Compare autosparse on one GPU with torch.sparse, torch BSR, CuPy, DGL, PyG and dense products, in at most nine
minutes.

    python benchmarks/gpu.py

Each case is one JSON line in `--out`; cases that the file holds are not run again, unless `--fresh` is given. Each
result is compared with float64 before it is timed; wrong results are reported and not timed.

`--dry` runs all parts on tiny inputs in Triton's interpreter, without a GPU and without a time limit. Its times have no
meaning. There the first candidate is used although torch is faster, so that autosparse's kernels compute every product
and every gradient. The exit status is 1 if a result of autosparse was wrong or if cases remain.

`--hybrid` compares composites (matrices in parts, `docs/gpu.md`) with the best single layout and with torch, and writes
a file of its own.

`--collect` appends samples (pattern, schedule, seconds) to a file for learned cost models, which
`benchmarks/transfer.py --gpu --samples FILE` reads.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from peerlib.environment import matrices_folder

PARTS = ("spmv", "spmm", "spmm_half", "sddmm", "networks")
NETWORKS = ("GCN", "GraphSAGE", "GAT")
LIMIT_S = 540.0
"""Default time limit of one run, in seconds; `--seconds` overrides it."""
RESERVE_S = 25.0
"""Seconds before the limit from which no case is started, so that the running case can finish."""
Record = dict[str, Any]


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None, help="default: gpu.jsonl, with --dry gpu-dry.jsonl")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of NAME.npz and index.csv")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--hybrid", action="store_true")
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument(
        "--seconds", type=float, default=LIMIT_S, help=f"time limit of this run (default {LIMIT_S:.0f})"
    )
    options = parser.parse_args(given)
    name = "gpu-samples" if options.collect else "gpu-hybrid" if options.hybrid else "gpu"
    options.out = options.out or Path(f"{name}-dry.jsonl" if options.dry else f"{name}.jsonl")
    return options


def cases(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[Any], Record]]]:
    """Yield (name, function that measures the case on a clock).

    Parts alternate, so that each part is covered if time runs out.
    """
    from gpulib import collect, hybrid, inputs, measure, networks, samples

    if options.collect:
        yield from collect.cases(options.matrices, samples.SampleFile(options.out), dry=options.dry)
        return
    if options.hybrid:
        for one, make in hybrid.cases(options.matrices, dry=options.dry):
            yield one.name, lambda clock, one=one, make=make: hybrid.measure(one, make(), clock)
        return
    widths = (16,) if options.dry else (128, 32, 64, 256, 512)
    given = list(inputs.matrices(options.matrices, dry=options.dry))
    for width in widths:
        for name, A in given:
            for part in options.parts:
                if part == "networks" and width == widths[0] and A.shape[0] == A.shape[1]:
                    for model in NETWORKS:
                        yield (
                            f"networks {model} {name}",
                            lambda clock, model=model, name=name, A=A: networks.train(model, name, A, clock),
                        )
                elif part != "networks" and (part != "spmv" or width == widths[0]):
                    dtype = "float16" if part == "spmm_half" else "float32"
                    case = measure.Case(part, name, 1 if part == "spmv" else width, dtype)
                    yield case.name, lambda clock, case=case, A=A: measure.measure(case, A, clock)


def run(options: argparse.Namespace) -> tuple[list[Record], bool]:
    """Run cases within the time limit; return all records, including those of the file, and whether no case is left."""
    from gpulib.measure import Clock

    if options.fresh:
        options.out.unlink(missing_ok=True)
    has_records = options.out.exists() and not options.collect  # samples are no records
    lines = [json.loads(line) for line in options.out.read_text().splitlines()] if has_records else []
    done, start_s = {line["case"] for line in lines}, time.perf_counter()
    clock = Clock("cpu" if options.dry else "cuda")
    for name, measured in cases(options):
        if name in done:
            continue
        if not options.dry and time.perf_counter() - start_s > options.seconds - RESERVE_S:
            print("the time is over: run it again to go on", file=sys.stderr)
            return lines, False
        lines.append(measured(clock))
        if not options.collect:
            with options.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    return lines, True


def table(lines: Sequence[Record]) -> str:
    """Format geometric mean and minimum of each contender's time over autosparse's by part, followed by faults."""
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in lines:
        seconds = line["seconds"]
        for rival in seconds.keys() - {"autosparse"} if "autosparse" in seconds else ():
            ratios[line["part"], rival].append(seconds[rival] / seconds["autosparse"])
    rows = [f"{'part':<10} {'rival':<10} {'cases':>5} {'geomean':>8} {'worst':>8}"]
    for (part, rival), found in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, found)) / len(found))
        rows.append(f"{part:<10} {rival:<10} {len(found):>5} {mean:>8.2f} {min(found):>8.2f}")
    ours, kinds = (sum(line["served"][n] for line in lines) for n in (0, 1))
    rows.append(
        f"kernels of ours served {ours} of {kinds} kinds of product in {len(lines)} cases, torch's path the rest"
    )
    return "\n".join([*rows, *faults(lines)])


def faults(lines: Sequence[Record]) -> list[str]:
    """Return lines about results that were wrong, rejected, failed, or not computed by autosparse."""
    rows = [f"NOT OURS {line['case']}: {line.get('why', '')}" for line in lines if is_unserved(line)]
    rows += [f"WRONG {line['case']}: {', '.join(line['wrong'])}" for line in lines if line["wrong"]]
    rows += [f"REJECTED {line['case']}: {', '.join(line['rejected'])}" for line in lines if line["rejected"]]
    rows += [f"FAILED {line['case']}: {name}: {why}" for line in lines for name, why in line["failed"].items()]
    if any(line["is_dry"] for line in lines):
        rows.append("dry: Triton's interpreter on tiny inputs; no time above means anything")
    return rows


def hybrid_table(lines: list[Record]) -> str:
    """Return the table of composites."""
    from gpulib import hybrid

    return hybrid.table(lines)


def is_unserved(line: Record) -> bool:
    """Return whether torch computed a product of a dry run, in which autosparse's kernels must compute all."""
    return bool(line["is_dry"]) and line["served"][0] < line["served"][1]


def is_bad(line: Record) -> bool:
    """Return whether a result of autosparse was wrong, or whether autosparse failed where torch did not."""
    ours = {"autosparse", "kernel"}
    if "n_composites" in line:  # --hybrid: every contender but torch is autosparse's
        return bool({*line["wrong"], *line["failed"]} - {"torch"}) or is_unserved(line)
    failed = "kernel" in line["failed"] or ("autosparse" in line["failed"] and "torch" not in line["failed"])
    return failed or bool(ours.intersection(line["wrong"])) or bool(line["rejected"]) or is_unserved(line)


def _stand_in() -> None:
    """Use Triton's interpreter as the GPU and accept the first candidate.

    Otherwise torch's path would win every race there.
    """
    from autosparse.tuner.search.race import RaceRule

    import autosparse as asp
    from autosparse.cuda import choice, device

    device.DEVICES["cpu"] = device.HostDevice()
    choice.RULE = RaceRule(margin=-math.inf, majority=0.0, min_rounds=1, max_rounds=1, first_cut=2)
    asp.set_options(effort="estimate")


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    if options.dry:
        os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported
    os.environ["AUTOSPARSE_CACHE_DIR"] = tempfile.mkdtemp(prefix="autosparse-gpu-")  # no stored plans
    import torch

    if not options.dry and not torch.cuda.is_available():
        print("no GPU: torch.cuda.is_available() is False. Hint: a machine with one, or --dry", file=sys.stderr)
        return 1
    if options.dry:
        _stand_in()
    lines, is_whole = run(options)
    print("\n".join([hybrid_table(lines), *faults(lines)]) if options.hybrid else table(lines))
    return 0 if is_whole and not any(map(is_bad, lines)) else 1


if __name__ == "__main__":
    sys.exit(main())

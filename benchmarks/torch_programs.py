"""Time whole programs on torch's sparse tensors with PyTorch's own products and with autosparse's.

    python benchmarks/torch_programs.py --out benchmarks/results/torch_programs.jsonl
    python benchmarks/torch_programs.py --only gcn,cg --dtypes float32 --threads 2 --rounds 9
    python benchmarks/torch_programs.py --seconds 80 --out torch_programs.jsonl   # repeat to run the next programs
    python benchmarks/torch_programs.py --quick

Each run is a process of its own with default settings and an empty plan cache, forked from one that has imported
PyTorch and made the inputs. Imports and inputs are not timed; every step is, from the first one on. Four variants
alternate: PyTorch alone ("stock"), `asp.torch.install()` once ("global"), `asp.torch.override()` entered at each step
("step"), and products outside every block while autosparse's kernels are registered ("outside"). The ratio is stock's
time over the variant's, from medians over rounds, with a 90 % interval (bootstrap over rounds). While the interval
contains 0.97, rounds are added, up to `--most-rounds`. Answers are compared; a wrong answer fails the script.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peerlib.records import ResultFile
from peerlib.summary import Distribution
from peerlib.table import aligned, markdown, seconds
from programlib.race import ENOUGH, ProgramFailedError, WrongAnswerError, compile_bytecode
from torchlib.race import STOCK, WAYS, Setting, race

DTYPES = ("float32", "float64")
HEADER = ["program", "stock", *(f"{way}{what}" for way in WAYS for what in ("", " 90 %")), "peak memory (largest)"]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    from torchlib.catalogue import PROGRAMS

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--only", default="", help="names of programs, comma-separated; default: all")
    add("--dtypes", default=",".join(DTYPES), help="comma-separated")
    add("--threads", default="1,2", help="numbers of threads, comma-separated")
    add("--rounds", type=int, default=5, help="runs of each variant")
    add("--most-rounds", type=int, default=15, help="maximum of rounds, used while an interval contains 0.97")
    add("--seconds", type=float, default=0, help="begin no program after this time; skip cases that --out holds")
    add("--quick", action="store_true", help="toy inputs, three steps and one round, to check that everything runs")
    add("--out", type=Path, help="JSON lines, appended to; Markdown tables of the newest results are written beside it")
    add("--list", action="store_true", help="only print the programs")
    parsed = parser.parse_args(given)
    parsed.only = list(filter(None, parsed.only.split(","))) or list(PROGRAMS)
    if unknown := set(parsed.only) - set(PROGRAMS):
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    parsed.dtypes = parsed.dtypes.split(",")
    if unknown := set(parsed.dtypes) - set(DTYPES):
        parser.error(f"no such dtype: {', '.join(sorted(unknown))}; there are {', '.join(DTYPES)}")
    parsed.threads = [int(number) for number in parsed.threads.split(",")]
    if parsed.quick:
        parsed.rounds = parsed.most_rounds = 1
    return parsed


def row(record: Mapping[str, Any]) -> list[str]:
    """Return one row of a table."""
    if "failure" in record:
        return [record["key"], "failed", *["-"] * (2 * len(WAYS) + 1)]
    ways = record["ways"]
    cells = [record["key"], seconds(ways[WAYS[0]]["median_s"][STOCK])]
    for way in WAYS:
        cells += [f"{ways[way]['ratio']:.2f}", "{:.2f} to {:.2f}".format(*ways[way]["interval"])]
    return [*cells, f"{peak(record):.2f}"]


def peak(record: Mapping[str, Any]) -> float:
    """Return the largest peak memory of a variant over that of PyTorch alone."""
    return max(record["ways"][way]["peak_mb"][way] / record["ways"][way]["peak_mb"][STOCK] for way in WAYS)


def measure(args: argparse.Namespace, results: ResultFile, setting: Setting, until_s: float) -> list[dict[str, Any]]:
    """Run the chosen programs in one setting; return their records, including those of an earlier call."""
    from torchlib.catalogue import PROGRAMS

    circumstances = {"dtype": setting.dtype, "threads": setting.threads}
    kept = {one["key"]: one for one in results.cases(**circumstances)} if args.seconds else {}
    for name in args.only:
        if name in kept or time.perf_counter() > until_s:
            continue
        program = PROGRAMS[name]
        record: dict[str, Any] = {"kind": "case", "key": name, "what": program.what, **circumstances}
        try:
            record["ways"] = race(name, program.rtol, setting, rounds=args.rounds, most=args.most_rounds)
        except (ProgramFailedError, WrongAnswerError) as error:
            record["failure"] = str(error)
            print(error, file=sys.stderr)
        results.append(record)
        kept[name] = record
        print("  ".join(row(record)), flush=True)
    return [kept[name] for name in args.only if name in kept]


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """Format for each variant the geometric mean and the programs below the limit, and the largest peak memory."""
    right = [record for record in records if "ways" in record]
    if not right:
        return "nothing measured"
    lines = []
    for way in WAYS:
        dist = Distribution.of([record["ways"][way]["ratio"] for record in right])
        slower = [record["key"] for record in right if record["ways"][way]["interval"][1] < ENOUGH]
        lines.append(
            f"{way}: geomean {dist.geomean:.2f}, least {dist.least:.2f}; below 0.97: {', '.join(slower) or 'none'}"
        )
    return "\n".join([*lines, f"largest peak memory: {max(map(peak, right)):.2f} x"])


def main() -> int:
    """Measure and print."""
    args = arguments()
    if args.list:
        from torchlib.catalogue import PROGRAMS

        print(aligned([[name, program.what] for name, program in PROGRAMS.items()]))
        return 0
    from peerlib.machine import machine_facts

    results, sections, failed = ResultFile(args.out), [], False
    until_s = time.perf_counter() + (args.seconds or math.inf)
    run = {"kind": "run", "run": time.strftime("%Y-%m-%dT%H:%M:%S"), "rounds": args.rounds}
    results.append({**run, "most_rounds": args.most_rounds, **machine_facts()})
    compile_bytecode()
    for dtype in args.dtypes:
        for threads in args.threads:
            print(f"\n{dtype}, {threads} threads")
            records = measure(args, results, Setting(dtype=dtype, threads=threads, toy=args.quick), until_s)
            failed |= any("failure" in record for record in records)
            table = [HEADER, *map(row, records)]
            print(f"\n{aligned(table)}\n\n{summary(records)}")
            sections.append(f"## {dtype}, {threads} threads\n\n{markdown(table)}\n\n{summary(records)}\n")
    if args.out is not None:
        args.out.with_suffix(".md").write_text("\n".join(sections), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Time whole user programs with `scipy.sparse` and with `autosparse`; the runs differ in nothing else.

    python benchmarks/programs.py --out benchmarks/results/programs.jsonl
    python benchmarks/programs.py --only gmres,eigsh --rounds 9 --environment OPENBLAS_NUM_THREADS=1

Each run is a fresh process with default settings and an empty plan cache. The time includes the import of autosparse,
asp.csr and everything that follows. It excludes making or reading the input, and the imports that both runs share. The
libraries alternate. The ratio is SciPy's time over ours, from medians over rounds, with a 90 % interval (bootstrap over
rounds). While the interval contains 0.97, rounds are added, up to `--most-rounds`. Answers are compared; a wrong answer
fails the program and the script.

`--environment NAME=VALUE` (repeatable) sets a variable for both; `threads=1` means AUTOSPARSE_THREADS=1. `--against
PYTHON` names the interpreter of an environment with another version of autosparse, which replaces SciPy; its times are
then in SciPy's columns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peerlib.records import ResultFile
from peerlib.summary import Distribution
from peerlib.table import aligned, markdown, seconds
from programlib.catalogue import GROUPS, PROGRAMS, names
from programlib.race import ENOUGH, LIBRARIES, ProgramFailedError, WrongAnswerError, compile_bytecode, race


def arguments(given: Sequence[str] | None = None, *, group: str = "programs") -> argparse.Namespace:
    """Parse the command line; without `--only` the programs of `group` are selected."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--group", default=group, choices=list(GROUPS), help="programs that run without --only; `written`: small ones")
    add("--only", default="", help="names of programs, comma-separated; default: all")
    add("--rounds", type=int, default=5, help="runs with each library")
    add("--most-rounds", type=int, default=15, help="maximum of rounds, used while the interval contains 0.97")
    add("--environment", action="append", default=[], metavar="NAME=VALUE", help="a variable for both, repeatable")
    add("--against", metavar="PYTHON", help="interpreter with another version of autosparse, which replaces SciPy")
    add("--out", type=Path, help="JSON lines, appended to; a Markdown table of the newest results is written beside it")
    add("--list", action="store_true", help="only print the programs")
    parsed = parser.parse_args(given)
    parsed.only = list(filter(None, parsed.only.split(","))) or names(parsed.group)
    if unknown := set(parsed.only) - set(PROGRAMS):
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    if wrong := [text for text in parsed.environment if "=" not in text]:
        parser.error(f"--environment takes NAME=VALUE: got {wrong[0]}")
    return parsed


def environment_of(given: Sequence[str]) -> dict[str, str]:
    """Return variables by name; a lower-case name is a setting of autosparse."""
    pairs = (text.split("=", 1) for text in given)
    return {f"AUTOSPARSE_{name.upper()}" if name.islower() else name: value for name, value in pairs}


def row(record: Mapping[str, Any]) -> list[str]:
    """Return one row of the table."""
    if "failure" in record:
        return [record["key"], record["what"], "-", "-", "failed", "-", "-"]
    theirs, ours = LIBRARIES
    times = (seconds(record["median_s"][theirs]), seconds(record["median_s"][ours]))
    cpu = "/".join(f"{record['cpu_s'][name] / record['median_s'][name]:.1f}" for name in LIBRARIES)
    spread = "{:.2f} to {:.2f}".format(*record["interval"]) if "interval" in record else ""
    return [record["key"], record["what"], *times, f"{record['ratio']:.2f}", spread, cpu]


HEADER = ["program", "what", "SciPy", "ours", "times as fast", "90 %", "cores busy (SciPy/ours)"]


def measure(args: argparse.Namespace, results: ResultFile) -> list[dict[str, Any]]:
    """Run every chosen program; return the records."""
    from peerlib.machine import machine_facts

    environment = environment_of(args.environment)
    run_id = time.strftime("%Y-%m-%dT%H:%M:%S")
    facts = {"environment": environment, "rounds": args.rounds, "only": args.only, **machine_facts()}
    results.append({"kind": "run", "run": run_id, **facts})
    compile_bytecode()
    records = []
    for name in args.only:
        program = PROGRAMS[name]
        record: dict[str, Any] = {"kind": "case", "run": run_id, "key": name, "what": program.what}
        try:
            how = {"rounds": args.rounds, "most": args.most_rounds, "against": args.against}
            record |= race(program, environment=environment, **how).record()
        except (ProgramFailedError, WrongAnswerError) as error:
            record["failure"] = str(error)
            print(error, file=sys.stderr)
        record["environment"] = environment
        results.append(record)
        records.append(record)
        print("  ".join(row(record)), flush=True)
    return records


def summary(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the geometric mean and the programs below SciPy's speed."""
    found = {record["key"]: record["ratio"] for record in records if "ratio" in record}
    if not found:
        return "nothing measured"
    dist = Distribution.of(list(found.values()))
    slower = sorted((ratio, name) for name, ratio in found.items() if ratio < ENOUGH)
    listed = ", ".join(f"{name} {ratio:.2f}" for ratio, name in slower) or "none"
    return f"{dist.n} programs: geomean {dist.geomean:.2f}, least {dist.least:.2f}; below 0.97: {listed}"


def machine_line(facts: Mapping[str, Any]) -> str:
    """Format machine, versions and environment variables as a sentence."""
    versions, target = facts["versions"], facts["target"]
    packages = ", ".join(f"{name} {versions[name]}" for name in ("numpy", "scipy", "autosparse") if name in versions)
    variables = " ".join(f"{name}={value}" for name, value in facts["environment"].items()) or "no variables set"
    machine = f"{target['cpu']}, {target['n_cores']} cores, {target['isa']}"
    return (
        f"{machine}; Python {facts['python']}, {packages}; commit {facts['commit']}; {variables}; "
        f"medians of {facts['rounds']} rounds."
    )


def write_table(out: Path, environment: Mapping[str, str]) -> None:
    """Write the newest results of every program in `out` for `environment` as a Markdown table beside it."""
    results = ResultFile(out)
    records = results.cases(environment=environment)
    runs = [line for line in results.lines() if line["kind"] == "run" and line["environment"] == environment]
    text = "\n\n".join((markdown([HEADER, *map(row, records)]), summary(records), machine_line(runs[-1])))
    tail = "".join(f"-{name}-{value}".lower() for name, value in environment.items())
    out.with_name(f"{out.stem}{tail}.md").write_text(f"{text}\n", encoding="utf-8")


def main(*, group: str = "programs") -> int:
    """Measure and print."""
    args = arguments(group=group)
    if args.list:
        print(aligned([[name, PROGRAMS[name].what] for name in args.only]))
        return 0
    records = measure(args, ResultFile(args.out))
    print(f"\n{aligned([HEADER, *map(row, records)])}\n\n{summary(records)}")
    if args.out is not None:
        write_table(args.out, environment_of(args.environment))
    return 1 if any("failure" in record for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())

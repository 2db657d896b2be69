"""Time whole solves with `scipy.sparse.linalg` and with `autosparse.linalg`, as a user writes them.

    python benchmarks/solvers.py --out benchmarks/results/solvers.jsonl
    python benchmarks/solvers.py --quick --only cg,gmres --systems grids
    python benchmarks/solvers.py --environment OPENBLAS_NUM_THREADS=1
    python benchmarks/solvers.py --part small           # n = 10 to 1,000, in every form (solverlib/small.py)

Each run is a fresh process with default settings and an empty plan cache: ``A = asp.csr(m)`` with `m` alive, a first
solve, and the same solve repeated for `--seconds`. The contenders alternate. Reported are medians over rounds of each
process's median solve after the first. `autosparse` tunes inside its clock. The matrix of the prototype is tuned before
its clock starts, and so is that of its peer `tuned`, which is autosparse's solver. The ratio is SciPy's time over the
contender's, with a 90 % interval (bootstrap over rounds). While the interval contains 0.97, rounds are added, up to
`--most-rounds`. `first` is the time beyond SciPy's of preparing the matrix and of the first solve.

A solution fails its row if its true residual exceeds 1.05 times the largest of: SciPy's residual, the tolerance, and
SciPy's residuals of the same system in 6 other orders of its unknowns, or in 40 where 6 do not suffice. The orders
count because residuals of solves that `--most` ends depend on the order of summation. For `lsqr` and `lsmr`
|A^T (b - A x)| is checked as well. `*` marks systems on which SciPy has not converged. `--environment
NAME=VALUE` (repeatable) sets a variable for all contenders.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from peerlib.environment import child_environment
from peerlib.records import ResultFile
from peerlib.summary import Distribution
from peerlib.table import aligned, markdown, seconds
from programlib.race import ENOUGH, MAX_DISTURBED, Samples, Spent, compile_bytecode
from programs import environment_of, machine_line
from solverlib import contenders, small, systems

BENCHMARKS: Final = Path(__file__).resolve().parent
RTOL: Final = {"float64": 1e-8, "float32": 1e-5}
ALLOWED: Final = 1.05
"""Maximum of the true residual over the larger of SciPy's and the tolerance."""
ORDERS: Final = (6, 40)
"""Numbers of other orders of summation in which SciPy solves a system; the second where the first are too few."""
QUICK: Final = {"rounds": 1, "most_rounds": 1, "seconds": 0.3, "most": 60}


class Case(NamedTuple):
    """One solve: solver, system, dtype."""

    solver: str
    family: str
    system: str
    dtype: str

    @property
    def key(self) -> str:
        """Name of the case in the records."""
        return f"{self.solver}, {self.system}, {self.dtype}"


class FailedError(RuntimeError):
    """Error raised if a child process fails or a solution is wrong."""


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--only", default="", help=f"solvers, comma-separated, of: {'; '.join(contenders.SOLVERS)}")
    add("--systems", default="", help="families (grids, others, small) or names of systems, comma-separated")
    add("--dtypes", default="float64", help="float64, float32, or both")
    add("--contenders", default=",".join(contenders.CONTENDERS[1:]), help="contenders besides SciPy, comma-separated")
    add("--rounds", type=int, default=3)
    add("--most-rounds", type=int, default=9)
    add("--seconds", type=float, default=1.0, help="seconds of solves after the first, in each process")
    add("--most", type=int, default=500, help="maximum iterations of one solve")
    add("--environment", action="append", default=[], metavar="NAME=VALUE")
    add("--prepared", type=Path, help="folder that keeps the systems for later runs; preparing real ones takes minutes")
    add("--part", choices=("whole", "small"), default="whole", help="small: every form of solves with few unknowns")
    add("--quick", action="store_true", help="one round of short solves, to check that it works")
    add("--out", type=Path, help="JSON lines, appended to; a Markdown table of the newest results is written beside it")
    parsed = parser.parse_args(given)
    parsed.only = list(filter(None, parsed.only.replace("cg, 8", "cg; 8").split(","))) or list(contenders.SOLVERS)
    parsed.only = [name.replace("cg; 8", "cg, 8") for name in parsed.only]
    if unknown := set(parsed.only) - set(contenders.SOLVERS) - set(small.SOLVERS):
        parser.error(f"no such solver: {', '.join(sorted(unknown))}")
    parsed.contenders = list(filter(None, parsed.contenders.split(",")))
    if unknown := set(parsed.contenders) - set(contenders.CONTENDERS):
        parser.error(f"no such contender: {', '.join(sorted(unknown))}")
    if parsed.quick:
        vars(parsed).update(QUICK)
    return parsed


def cases(args: argparse.Namespace) -> Iterator[Case]:
    """Yield every selected solve."""
    wanted = set(filter(None, args.systems.split(",")))
    for family, names in systems.families().items():
        for name, solver, dtype in itertools.product(names, args.only, args.dtypes.split(",")):
            if not wanted or wanted & {family, name}:
                yield Case(solver, family, name, dtype)


def call(given: Sequence[object], environment: Mapping[str, str]) -> dict[str, Any]:
    """Run `solverlib.child` and return the JSON object that it prints."""
    found: dict[str, Any] = json.loads(child(("-m", "solverlib.child", *given), environment))
    return found


def child(given: Sequence[object], environment: Mapping[str, str]) -> str:
    """Run a child process and return what it prints."""
    command = [sys.executable, "-W", "ignore", *map(str, given)]
    variables = child_environment(PYTHONPATH=str(BENCHMARKS), **environment)
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed library has compiled modules
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables, cwd=BENCHMARKS)
    if done.returncode:
        raise FailedError(f"{' '.join(command[5:])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def race(case: Case, args: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the times of every contender over rounds, or None if the matrix is not of the solver's kind."""
    taking = [contenders.REFERENCE]
    taking += [one for one in args.contenders if contenders.takes_part(one, case.solver, case.dtype)]
    samples = {one: Samples(libraries=(contenders.REFERENCE, one)) for one in taking[1:]}
    first_s: dict[str, list[float]] = {one: [] for one in taking}
    with tempfile.TemporaryDirectory(prefix="autosparse-solvers-") as folder:
        given, facts = _prepared(case, Path(folder) if args.prepared is None else args.prepared)
        if not facts["is_there"]:
            return None
        n_repeated = 0
        while (n := len(first_s[taking[0]])) < args.rounds or (n < args.most_rounds and _is_open(samples)):
            before, found = Spent.now(), {}
            for at, one in enumerate(taking if n % 2 else taking[::-1]):
                fresh = {"AUTOSPARSE_CACHE_DIR": f"{folder}/cache-{n}-{n_repeated}-{at}", **environment}
                how = (one, case.solver, given, RTOL[case.dtype], args.most, args.seconds)
                found[one] = call(("solve", *how), fresh)
            _check(case, found, given, args.most)
            disturbed = Spent.now().others_since(before)
            if disturbed > MAX_DISTURBED and n_repeated < args.rounds:
                n_repeated += 1
                continue
            for one in taking:
                first_s[one].append(found[one]["first_s"])
            for one, kept in samples.items():
                kept.add({name: found[name] for name in (taking[0], one)}, disturbed)
    made = {one: kept.record() for one, kept in samples.items()}
    return {"facts": facts, "first_s": first_s, "contenders": made, "last": found}


def _prepared(case: Case, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the file of a system and facts about it; the system is made unless `folder` has it."""
    kind = contenders.SOLVERS[case.solver].kind
    given = folder / f"{case.system.replace(' ', '')}-{kind}-{case.dtype}.pickle"
    told = given.with_suffix(".json")
    if not told.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        told.write_text(json.dumps(call(("prepare", case.system, kind, case.dtype, given), {})), encoding="utf-8")
    facts: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
    return given, facts


def _is_open(samples: Mapping[str, Samples]) -> bool:
    return "autosparse" in samples and samples["autosparse"].is_open()


def _check(case: Case, found: Mapping[str, Mapping[str, Any]], given: Path, most: int) -> None:
    """Raise FailedError if a residual exceeds SciPy's in every order of summation."""
    orders: dict[str, list[float]] = {}
    for one, name in itertools.product(found, contenders.SOLVERS[case.solver].residuals):
        value, allowed = found[one][name], [found[contenders.REFERENCE][name], RTOL[case.dtype]]
        for n_orders in ORDERS:
            if value <= ALLOWED * max(*allowed, *orders.get(name, ())):
                break
            if len(orders.get(name, ())) < n_orders:
                orders = call(("orders", case.solver, given, RTOL[case.dtype], most, n_orders), {})
        if not value <= ALLOWED * max(*allowed, *orders.get(name, ())):
            theirs = ", ".join(f"{each:.3g}" for each in (allowed[0], *sorted(orders[name])))
            raise FailedError(f"{case.key}: {name} {value:.3g} of {one}, SciPy's in several orders {theirs}")


def _converged(residual: float, dtype: str) -> bool:
    """Return whether a true residual is that of a converged solve: at most twice the tolerance."""
    return residual <= 2.0 * RTOL[dtype]


def shown(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the contenders besides SciPy that have a column: the prototype's peer only if it took part."""
    has_peer = any("tuned" in one.get("contenders", ()) for one in records)
    return [one for one in contenders.CONTENDERS[1:] if one != "tuned" or has_peer]


def rows(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the table of the records, with its header."""
    names = shown(records)
    header = ["solver", "system", "rows", "entries", "SciPy", *names, "90 %", "first"]
    return [header, *(row(record, names) for record in records)]


def row(record: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return one row of the table: SciPy's time, then ratios."""
    if "failure" in record:
        return [record["solver"], record["system"], *["-"] * (len(names) + 4), record["failure"].split("\n")[0][:60]]
    made, facts = record["contenders"], record["facts"]
    some = next(iter(made.values()))
    ratios = [f"{made[one]['ratio']:.2f}" if one in made else "" for one in names]
    ours = made.get("autosparse")
    spread = "{:.2f} to {:.2f}".format(*ours["interval"]) if ours else ""
    first = f"{first_excess_s(record) * 1e3:+.1f} ms" if ours else ""
    residual = record["last"][contenders.REFERENCE].get("residual", 0.0)
    theirs = seconds(some["median_s"][contenders.REFERENCE]) + ("" if _converged(residual, record["dtype"]) else " *")
    name = record["solver"] + ("" if record["dtype"] == "float64" else f", {record['dtype']}")
    return [name, record["system"], f"{facts['rows']:,}", f"{facts['entries']:,}", theirs, *ratios, spread, first]


def first_excess_s(record: Mapping[str, Any]) -> float:
    """Return the seconds by which the first solve exceeds SciPy's, from medians over rounds."""
    middle = {one: sorted(each)[len(each) // 2] for one, each in record["first_s"].items()}
    return middle["autosparse"] - middle[contenders.REFERENCE]


def summary(records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return geometric means over SciPy by solver and family, the least ratio, and the slowest first solve."""
    peers = shown(records)[1:]
    found = [["solver", "systems", "n", "geomean", "least", *peers, "slowest first solve"]]
    kept = [one for one in records if "failure" not in one and "autosparse" in one["contenders"]]
    groups = dict.fromkeys((one["solver"], one["dtype"], one["family"]) for one in kept)
    for solver, dtype, family in groups:
        own = [one for one in kept if (one["solver"], one["dtype"], one["family"]) == (solver, dtype, family)]
        ours = Distribution.of([one["contenders"]["autosparse"]["ratio"] for one in own])
        others = []
        for peer in peers:
            ratios = [one["contenders"][peer]["ratio"] for one in own if peer in one["contenders"]]
            others.append(f"{Distribution.of(ratios).geomean:.2f}" if ratios else "")
        name = solver + ("" if dtype == "float64" else f", {dtype}")
        slowest = f"{max(map(first_excess_s, own)) * 1e3:+.1f} ms"
        found.append([name, family, str(ours.n), f"{ours.geomean:.2f}", f"{ours.least:.2f}", *others, slowest])
    return found


def losses(records: Sequence[Mapping[str, Any]]) -> str:
    """Format the rows whose interval reaches below SciPy's speed, or that failed."""
    lost = [one["key"] for one in records if "failure" in one]
    for one in records:
        ours = one.get("contenders", {}).get("autosparse")
        if ours and ours["interval"][0] < ENOUGH:
            lost.append(f"{one['key']} {ours['ratio']:.2f}")
    return "Interval reaches below 0.97, or failed: " + ("; ".join(lost) or "none") + "."


def measure(args: argparse.Namespace, results: ResultFile) -> list[dict[str, Any]]:
    """Run every case; return the records."""
    from peerlib.machine import machine_facts

    environment, run_id = environment_of(args.environment), time.strftime("%Y-%m-%dT%H:%M:%S")
    how = {"rounds": args.rounds, "most": args.most, "seconds": args.seconds}
    results.append({"kind": "run", "run": run_id, "environment": environment, **how, **machine_facts()})
    compile_bytecode()
    records = []
    for case in cases(args):
        record: dict[str, Any] = {"kind": "case", "run": run_id, "key": case.key, **case._asdict()}
        try:
            found = race(case, args, environment)
        except FailedError as error:
            found = {"failure": str(error)}
            print(error, file=sys.stderr)
        if found is None:
            continue
        record |= {"environment": environment, **found}
        results.append(record)
        records.append(record)
        print("  ".join(rows([record])[1]), flush=True)
    return records


def write_table(out: Path, environment: Mapping[str, str]) -> None:
    """Write the newest results of every case in `out` for `environment` as Markdown tables beside it."""
    results = ResultFile(out)
    records = results.cases(environment=environment)
    runs = [line for line in results.lines() if line["kind"] == "run" and line["environment"] == environment]
    tables = markdown(summary(records)), losses(records), markdown(rows(records))
    tail = "".join(f"-{name}-{value}".lower() for name, value in environment.items())
    text = "\n\n".join((*tables, machine_line(runs[-1])))
    out.with_name(f"{out.stem}{tail}.md").write_text(f"{text}\n", encoding="utf-8")


def small_part(args: argparse.Namespace) -> int:
    """Measure solves of small systems in every form; print the table and what misses its bound."""
    environment, records = environment_of(args.environment), []
    compile_bytecode()
    chosen = small.SOLVERS if args.only == list(contenders.SOLVERS) else args.only
    dtypes = small.DTYPES if args.dtypes == "float64" else args.dtypes.split(",")
    counts = (3, 1) if args.quick else small.COUNTS
    for solver, dtype in itertools.product(chosen, dtypes):
        with tempfile.TemporaryDirectory(prefix="autosparse-solvers-") as folder:
            found = child(
                ("-m", "solverlib.small", solver, dtype, *counts), {"AUTOSPARSE_CACHE_DIR": folder, **environment}
            )
        records += [json.loads(line) for line in found.splitlines()]
    print(aligned(small.table(records)), *small.misses(records), sep="\n")
    return 0


def main() -> int:
    """Measure and print."""
    args = arguments()
    if args.part == "small":
        return small_part(args)
    records = measure(args, ResultFile(args.out))
    if records:
        print(f"\n{aligned(rows(records))}\n\n{aligned(summary(records))}\n\n{losses(records)}")
    if args.out is not None:
        write_table(args.out, environment_of(args.environment))
    return 1 if any("failure" in record for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Time short programs, .1 to 60 ms after imports, with `scipy.sparse`, with `autosparse` and with other versions of it.

    python benchmarks/short_programs.py --out build/benchmarks/short_programs.jsonl
    python benchmarks/short_programs.py --against ../older-checkout --only one_product,pagerank --rounds 15

This process imports NumPy and SciPy and makes the inputs. It then forks a child for each program and contender.
Measured is the time until the answer, with the import of autosparse inside and an empty plan cache, after the child has
copied the pages that it shares with this process.
Contenders alternate, each round begins with another one, and a round before the first is not counted. The ratio is
SciPy's time over ours, from medians over rounds, with a 90 % interval (bootstrap over rounds). Rounds are added, up to
`--most-rounds`, while the interval contains 0.97. Answers are compared with SciPy's; a wrong answer fails the
program and the script.

`--against PATH` (repeatable) names another checkout whose compiled parts are built. `old/new` is its time over ours.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import importlib.util
import itertools
import os
import pickle
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from peerlib.records import ResultFile
from peerlib.summary import Distribution
from peerlib.table import aligned, seconds
from programlib.child import as_arrays
from programlib.program import Program
from programlib.race import ENOUGH, ProgramFailedError, Samples, WrongAnswerError, compare
from shortlib.catalogue import PROGRAMS
from shortlib.pages import copy_shared_pages

IMPORTED: Final = ("scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.integrate")
"""Modules that are imported before children are forked, each of which would import them again."""
THEIRS: Final = "scipy.sparse"
OURS: Final = "autosparse"
FLOORS: Final = (ENOUGH, 0.95, 0.8)
"""Ratios below which programs are counted in the summary."""
N_WORST: Final = 20
CHECKOUT: Final = Path(__file__).resolve().parents[1]
"""Checkout whose library is measured as ours: the one of this script, whose compiled parts are built."""
MAPPED: Final = ("tuner", "cache", "_native")  # folders of a checkout that are subpackages of autosparse


@dataclass(frozen=True)
class Contender:
    """A library by its module's name, from the checkout `root` if there is one."""

    name: str
    module: str
    root: Path | None = None

    def library(self) -> Any:
        """Import the library."""
        if self.root is not None:
            sys.meta_path.insert(0, self)  # type: ignore[arg-type]  # it has the only method that Python calls
        return importlib.import_module(self.module)

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return the spec of a package that lies at the top of the checkout; None for all other modules."""
        first, _, rest = name.partition(".")
        if first != OURS or self.root is None or (rest and rest not in MAPPED):
            return None
        folder = self.root / (rest or OURS)
        at = folder / "__init__.py"
        return importlib.util.spec_from_file_location(name, at, submodule_search_locations=[str(folder)])


def forked(
    program: Program, inputs: Mapping[str, Any], contender: Contender, cache: str
) -> tuple[Any, dict[str, float]]:
    """Run the program in a child of this process; return its answer and its times."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(read)
        _child(program, inputs, contender, (cache, write))
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        found = stream.read()
    _, _, used = os.wait4(pid, 0)
    answer, wall_s = pickle.loads(found) if found else ("the child died", 0.0)  # noqa: S301 (written by the child)
    if isinstance(answer, str):
        raise ProgramFailedError(f"{program.name} with {contender.name}:\n{answer}")
    return answer, {"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}


def _child(
    program: Program, inputs: Mapping[str, Any], contender: Contender, place: tuple[str, int]
) -> None:  # NoReturn
    """Run the program, write its answer to a pipe, and end this process without what Python does at exit."""
    cache, write = place
    os.environ["AUTOSPARSE_CACHE_DIR"] = cache
    found: Any
    try:
        copy_shared_pages()
        start_s = time.perf_counter()
        answer = program.run(contender.library(), **inputs)
        wall_s = time.perf_counter() - start_s
        found = [part.astype(float) if part.dtype == bool else part for part in as_arrays(answer)], wall_s
    except BaseException:  # noqa: BLE001 (the parent raises an error with its text)
        found = traceback.format_exc(), 0.0
    with os.fdopen(write, "wb") as stream:
        stream.write(pickle.dumps(found))
    os._exit(0)


def measure(program: Program, contenders: Sequence[Contender], rounds: int, most: int) -> dict[str, Any]:
    """Run the program with all contenders in alternation; return the record."""
    inputs, first = dict(program.prepare(False)), contenders[0].name
    pairs = {one.name: Samples((first, one.name)) for one in contenders[1:]}
    with tempfile.TemporaryDirectory(prefix="autosparse-short-") as folder:
        at = -1  # this round is not counted
        while at < rounds or (at < most and any(samples.is_open() for samples in pairs.values())):
            turn = at % len(contenders)
            found = {
                one.name: forked(program, inputs, one, f"{folder}/{one.name}{at}")
                for one in (*contenders[turn:], *contenders[:turn])
            }
            for name, samples in pairs.items():
                difference = compare(program.name, found[first][0], found[name][0], program.rtol)
                samples.difference = max(samples.difference, difference)
                if at >= 0:
                    samples.add({key: found[key][1] for key in (first, name)}, 0.0)
            at += 1
    records = {name: samples.record() for name, samples in pairs.items()}
    kept = ("ratio", "interval", "median_s", "cpu_s", "samples_s", "difference")
    return {name: {key: record[key] for key in kept} for name, record in records.items()}


def row(record: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return one row of the table: times, SciPy's time over each version's, and other versions' over ours."""
    found = [record["found"][name] for name in names]
    times = [
        seconds(found[0]["median_s"][THEIRS]),
        *(seconds(one["median_s"][name]) for name, one in zip(names, found, strict=True)),
    ]
    ratios = ["{:.2f} ({:.2f} to {:.2f})".format(one["ratio"], *one["interval"]) for one in found]
    return [
        record["key"],
        record["what"],
        *times,
        *ratios,
        *(f"{one['ratio'] ** -1 * found[0]['ratio']:.2f}" for one in found[1:]),
    ]


def header(names: Sequence[str]) -> list[str]:
    """Return the first row of the table."""
    ratios = (f"{THEIRS}/{name} (90 %)" for name in names)
    return ["program", "what", THEIRS, *names, *ratios, *(f"{name}/{OURS}" for name in names[1:])]


def summary(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Format geometric means, numbers of programs below `FLOORS`, and the slowest programs of ours."""
    done = [record for record in records if "found" in record]
    if not done:
        return "nothing measured"
    lines = []
    for name in names:
        ratios = {record["key"]: record["found"][name]["ratio"] for record in done}
        below = ", ".join(f"{sum(ratio < floor for ratio in ratios.values())} below {floor:g}" for floor in FLOORS)
        proven = sum(record["found"][name]["interval"][1] < ENOUGH for record in done)
        dist = Distribution.of(list(ratios.values()))
        lines.append(
            f"{name}: {dist.n} programs, geomean {dist.geomean:.3f}, {below}; {proven} intervals below {ENOUGH:g}"
        )
        medians = [record["found"][name]["median_s"] for record in done]
        later = np.quantile([one[name] - one[THEIRS] for one in medians], (0.5, 0.95))
        lines.append(
            "  later than {}: {:.2f} ms in the median, {:.2f} at the 95th percentile".format(THEIRS, *later * 1e3)
        )
        if name == OURS:
            worst = sorted((ratio, key) for key, ratio in ratios.items())[:N_WORST]
            lines.append("  slowest: " + ", ".join(f"{key} {ratio:.2f}" for ratio, key in worst))
    for name in names[1:]:
        gains = {one["key"]: one["found"][OURS]["ratio"] / one["found"][name]["ratio"] for one in done}
        dist = Distribution.of(list(gains.values()))
        ordered = sorted((gain, key) for key, gain in gains.items())
        least, most = (
            ", ".join(f"{key} {gain:.2f}" for gain, key in part) for part in (ordered[:10], ordered[:-11:-1])
        )
        lines.append(f"{name}/{OURS}: geomean {dist.geomean:.3f}; least: {least}; most: {most}")
    return "\n".join(lines)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--only", default="", help="names of programs, comma-separated; default: all")
    add("--rounds", type=int, default=7, help="counted runs with each contender")
    add("--most-rounds", type=int, default=21, help="maximum of rounds, used while the interval contains 0.97")
    add("--against", type=Path, action="append", default=[], metavar="PATH", help="another checkout, repeatable")
    add("--out", type=Path, help="JSON lines, appended to")
    add("--list", action="store_true", help="only print the programs")
    parsed = parser.parse_args(given)
    parsed.only = list(filter(None, parsed.only.split(","))) or list(PROGRAMS)
    if unknown := set(parsed.only) - set(PROGRAMS):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    return parsed


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print."""
    args = arguments(given)
    if args.list:
        print(aligned([[name, PROGRAMS[name].what] for name in args.only]))
        return 0
    assert OURS not in sys.modules, "the import of the library must be timed"
    others = [Contender(root.resolve().name, OURS, root.resolve()) for root in args.against]
    contenders = [Contender(THEIRS, THEIRS), Contender(OURS, OURS, CHECKOUT), *others]
    names, results, records = [one.name for one in contenders[1:]], ResultFile(args.out), []
    for root, folder in itertools.product((CHECKOUT, *(one.root for one in others)), (OURS, *MAPPED)):
        compileall.compile_dir(root / folder, quiet=2)  # as an installation does
    for module in IMPORTED:
        importlib.import_module(module)
    warnings.simplefilter("ignore")
    for name in args.only:
        program = PROGRAMS[name]
        record: dict[str, Any] = {"kind": "case", "key": name, "what": program.what}
        try:
            record["found"] = measure(program, contenders, args.rounds, args.most_rounds)
        except (ProgramFailedError, WrongAnswerError) as error:
            record["failure"] = str(error)
            print(error, file=sys.stderr)
        results.append(record)
        records.append(record)
    table = [header(names), *(row(record, names) for record in records if "found" in record)]
    print(f"{aligned(table)}\n\n{summary(records, names)}")
    return int(any("failure" in record for record in records))


if __name__ == "__main__":
    sys.exit(main())

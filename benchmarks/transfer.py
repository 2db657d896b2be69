"""Transfer cost models to simulated accelerators, and write the tables and figures of DASH beside ours.

    python benchmarks/transfer.py --matrices DIR           # or: make transfer
    python benchmarks/transfer.py --gpu [--quick]          # measured kernels of two GPUs; no matrices, no GPU
    python benchmarks/transfer.py --add FILE               # add the lines of a run to the recorded ones
    python benchmarks/transfer.py --quick --json FILE --kept FOLDER   # a few of the matrices, to try the script out

The script simulates times that `data/transfer` lacks, trains models that `build/transfer` lacks, and appends a line per
method, k and draw to `results/transfer.jsonl`. An interrupted run continues where it stopped. `results/transfer.md` is
written from these lines at the end (and by --report alone). Simulated times depend on the code only; no clock is read.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from peerlib.archives import extracted, output
from peerlib.environment import matrices_folder
from peerlib.records import ResultFile
from transferlib.methods import METHODS, make_bench
from transferlib.patterns import Named, chosen
from transferlib.report import SOURCE_PATTERNS, report
from transferlib.stored import collect, path_of
from transferlib.validation import table, validated
from transferlib.world import N_DRAWS, Draw, World, draws, make_world, score

from autosparse import accelerators

HERE: Final = Path(__file__).resolve().parent
OF_GPUS: Final = "transfer-gpu.jsonl"
"""File of the lines of `--gpu`."""
SAMPLED: Final = (5, 1, 20, 2, 10)
"""Numbers of sampled target matrices, the paper's first."""


@dataclass(frozen=True)
class Question:
    """A target, a source and an operation, which are a section of the report."""

    target: str
    source: str
    operation: str
    sampled: tuple[int, ...] = SAMPLED
    networks: bool = False


QUESTIONS: Final = (
    Question("spade", "small", "spmm", networks=True),
    Question("wide", "small", "spmm", (5,)),
    Question("spade", "small", "sddmm", (5,), networks=True),
)
QUICK: Final = (Question("spade", "small", "spmm", (1,), networks=True),)
QUICK_MATRICES: Final = 16
"""Number of matrices with --quick, of the pool and of the test set together."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--matrices", type=Path, default=matrices_folder(), help="folder of real matrices")
    parser.add_argument("--json", type=Path, help="default: transfer.jsonl in build, or results with --record")
    parser.add_argument("--record", action="store_true", help="keep the outputs in benchmarks/results")
    parser.add_argument(
        "--kept", type=Path, default=HERE.parent / "build" / "transfer", help="folder of trained models and features"
    )
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    parser.add_argument("--only", metavar="TARGET-OPERATION", help="only this target and operation (--gpu: operation)")
    parser.add_argument("--rows", type=lambda text: text.split(";"), metavar="NAME;NAME", help="only these methods")
    parser.add_argument("--patterns", type=int, default=SOURCE_PATTERNS, help="source patterns of the networks")
    parser.add_argument("--add", type=Path, metavar="FILE", help="only add the lines of FILE to the recorded ones")
    parser.add_argument("--gpu", action="store_true", help="the measured kernels of two GPUs, not the simulator")
    parser.add_argument("--samples", type=Path, help="with --gpu: a file of gpu.py --collect instead of the archive's")
    parser.add_argument("--ship", action="store_true", help="with --gpu: only fit the correction that products use")
    parser.add_argument("--quick", action="store_true", help="one draw, a source of few patterns, few matrices")
    parser.add_argument("--report", action="store_true", help="only write the tables of existing results")
    parser.add_argument(
        "--validate", action="store_true", help="only compare the candidates for shipping, on the pool alone"
    )
    arguments = parser.parse_args()
    if arguments.gpu:
        return _of_gpus(arguments)
    if arguments.add is not None:
        add_lines(arguments.add)
        return 0
    arguments.json = arguments.json or output("transfer.jsonl", record=arguments.record or arguments.report)
    if not arguments.report:
        if arguments.matrices is None:
            parser.error("no folder of matrices: give --matrices DIR or set AUTOSPARSE_MATRICES")
        if arguments.validate:
            return _validate(arguments)
        for question in QUICK if arguments.quick else QUESTIONS:
            if arguments.only in (None, f"{question.target}-{question.operation}"):
                _answer(question, arguments)
    _write_page(arguments.json, arguments.json.with_name(OF_GPUS))
    return 0


def page(simulated: Sequence[Any], measured: Sequence[Any]) -> str:
    """Return the page of the lines of simulated accelerators, followed by those of measured GPUs."""
    text = report(simulated)
    if not measured:
        return text
    from gpulib import samples
    from transferlib import gpu_runs, gpu_world

    return text + "\n" + gpu_runs.report(measured, gpu_world.worlds(samples.archived()))


def add_lines(path: Path) -> None:
    """Add the lines of the file that the recorded results lack to their archive, and write the page."""
    from archives import add

    simulated, measured = (output(name, record=True) for name in ("transfer.jsonl", OF_GPUS))
    known = {json.dumps(line, sort_keys=True) for file in (simulated, measured) for line in ResultFile(file).lines()}
    for line in ResultFile(path).lines():
        if json.dumps(line, sort_keys=True) not in known:
            ResultFile(measured if "device" in line else simulated).append(line)
    _write_page(simulated, measured)
    for kind, recorded in (("tiers", simulated), ("gpu", measured)):
        if recorded.exists():
            add(kind, [recorded])


def _write_page(simulated: Path, measured: Path) -> None:
    """Write `transfer.md` beside the lines of simulated accelerators."""
    simulated.parent.mkdir(parents=True, exist_ok=True)
    lines = [list(ResultFile(path).lines()) for path in (simulated, measured)]
    simulated.with_suffix(".md").write_text(page(*lines), encoding="utf-8")


def _of_gpus(arguments: argparse.Namespace) -> int:
    from transferlib import gpu_runs

    if arguments.ship:
        gpu_runs.ship(_say)
        return 0
    record = arguments.record or arguments.report
    arguments.json = arguments.json or output("quick-gpu.jsonl" if arguments.quick else OF_GPUS, record=record)
    if not arguments.report:
        gpu_runs.run(arguments, _say)
    simulated = "quick.jsonl" if arguments.quick else "transfer.jsonl"
    _write_page(arguments.json.with_name(simulated), arguments.json)
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    matrices, found = chosen(arguments.matrices), {}
    for one in QUESTIONS:
        if arguments.only not in (None, f"{one.target}-{one.operation}"):
            continue
        name = f"{one.operation} on `{one.target}`, source `{one.source}`"
        worlds = (_world(target, one.operation, matrices, arguments) for target in (one.target, one.source))
        found[name] = validated(*worlds, _say)
        print(table(found), flush=True)
    page = output("transfer-validation.md", record=arguments.record)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(table(found), encoding="utf-8")
    return 0


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _answer(question: Question, arguments: argparse.Namespace) -> None:
    matrices = chosen(arguments.matrices)[: QUICK_MATRICES if arguments.quick else None]
    arguments.draws = 1 if arguments.quick else arguments.draws
    world = _world(question.target, question.operation, matrices, arguments)
    source = _world(question.source, question.operation, matrices, arguments)
    lines = Lines(arguments.json, dataclasses.asdict(question))
    wanted = [
        one
        for one in _wanted(question, world, draws(world, arguments.draws), lines)
        if arguments.rows is None or one[0] in arguments.rows
    ]
    if wanted:
        bench = make_bench(world, source)
        for at, (name, k, draw) in enumerate(wanted, start=1):
            lines.add(name, k, draw, score(world, METHODS[name].run(bench, draw, k)))
            if at % 20 == 0:
                _say(f"{question.target} {question.operation}: {at} of {len(wanted)} fits")
    if question.networks:
        from transferlib.dash_runs import run_networks

        networks = Lines(arguments.json, dataclasses.asdict(question), patterns=arguments.patterns)
        run_networks(world, matrices, arguments, networks, _say, sampled=question.sampled)


def _wanted(question: Question, world: World, every: Sequence[Draw], lines: Lines) -> Iterator[tuple[str, int, Draw]]:
    for k in question.sampled:
        for name, method in METHODS.items():
            if method.same_grid and question.target == "wide":
                continue
            for draw in every:
                if (method.samples_target or k == question.sampled[0]) and not lines.has(name, k, draw.seed):
                    yield name, k, draw


def _world(name: str, operation: str, matrices: Sequence[Named], arguments: argparse.Namespace) -> World:
    target = accelerators.read(name)
    path = path_of(extracted("simulated"), target, operation)
    times = collect(path, target, operation, matrices=matrices, folder=arguments.matrices, progress=_say)
    return make_world(
        target, operation, times, matrices=matrices, folder=arguments.matrices, kept=arguments.kept, progress=_say
    )


class Lines:
    """The file of results, with a line per method, k and draw of one question."""

    def __init__(self, path: Path, question: dict[str, Any], **more: Any) -> None:
        self._path, self._more = path, more
        self._facts = {name: question[name] for name in ("target", "source", "operation")}
        self._known: set[tuple[str, int, int]] = set()
        for one in ResultFile(path).lines():
            facts = {**self._facts, **more}
            if all(one.get(name) == value for name, value in facts.items()):
                self._known.add((one["method"], one["k"], one["draw"]))

    def has(self, method: str, k: int, draw: int) -> bool:
        """Return whether the file has this line."""
        return (method, k, draw) in self._known

    def add(self, method: str, k: int, draw: Draw, found: Any) -> None:
        """Append one line."""
        values = {name: round(value, 5) for name, value in dataclasses.asdict(found).items()}
        line = {**self._facts, **self._more, "method": method, "k": k, "draw": draw.seed, **values}
        ResultFile(self._path).append(line)
        self._known.add((method, k, draw.seed))


if __name__ == "__main__":
    sys.exit(main())

"""Regenerate the pages and plots of benchmarks/results from the summary files beside them.

    python benchmarks/figures.py                          # every page and plot
    python benchmarks/figures.py --check                  # nothing is written; names what differs
    python benchmarks/figures.py programs totals          # some of them
    python benchmarks/figures.py --summarise programs     # the summary anew, from the raw file or its archive

`NAME.summary.json` holds the fields of the raw file `NAME.jsonl` that the page and the plot read, rounded to as many
digits as leave the page unchanged. Raw files are in the archives of benchmarks/data. A page that shows nearly all of
its raw file is made from that.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import readme_plot
from peerlib.archives import RESULTS, read_bytes
from peerlib.records import ResultFile
from peerlib.slim import packed, slim, unpacked

Page = Callable[[Path], str]


def totals(path: Path) -> str:
    """Return the page of `totals.py`."""
    from peerlib.totals_report import markdown

    return markdown(ResultFile(path).cases(dtype="float32", threads=2))


def small(path: Path) -> str:
    """Return the page of `small.py`."""
    from small import kept_rows, page

    return page(path, kept_rows(path))


def programs(path: Path) -> str:
    """Return the page of `programs.py`."""
    from programs import write_table

    return written(path, lambda out: write_table(out, {}))


def solvers(path: Path) -> str:
    """Return the page of `solvers.py`."""
    from solvers import write_table

    return written(path, lambda out: write_table(out, {}))


def spellings(path: Path) -> str:
    """Return the page of `spellings.py`."""
    from spellings import write_table

    return written(path, write_table)


def holding(path: Path) -> str:
    """Return the page of `holding.py`."""
    from holding import write_table

    return written(path, write_table)


def einsum_first(path: Path) -> str:
    """Return the page of `einsum_first.py`."""
    from einsum_first import write_table

    return written(path, write_table)


def ablation(path: Path) -> str:
    """Return the page of `ablation.py`."""
    from ablation import report

    return report(ResultFile(path)) + "\n"


def transfer(path: Path) -> str:
    """Return the page of `transfer.py`, whose second half has a raw file of its own."""
    from transfer import OF_GPUS, page

    measured = (read_bytes(path.with_name(OF_GPUS)) or b"").decode().splitlines()
    return page(list(ResultFile(path).lines()), [json.loads(line) for line in measured])


def written(path: Path, write_table: Callable[[Path], None]) -> str:
    """Return the page that `write_table` writes beside a result file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        with these(list(ResultFile(path).lines())):
            write_table(out)
        return out.with_suffix(".md").read_text(encoding="utf-8")


@contextmanager
def these(lines: list[dict[str, Any]]) -> Iterator[None]:
    """Let every result file have these lines."""
    original = ResultFile.lines
    ResultFile.lines = lambda _: iter(lines)  # type: ignore[assignment,method-assign,return-value]
    try:
        yield
    finally:
        ResultFile.lines = original  # type: ignore[method-assign]


@dataclass(frozen=True)
class Figure:
    """A page, a plot or both, made from one summary file, or from the archived raw file where that is no larger."""

    page: Page | None = None
    plot: Callable[[Path, Path], None] | None = None
    is_cut: bool = False  # neither shows long texts, such as schedules: the summary leaves them out
    is_raw: bool = False  # the page shows nearly all of the raw file: it is made from that, and there is no summary


FIGURES: Final[Mapping[str, Figure]] = {
    "ablation": Figure(ablation),
    "einsum_first": Figure(einsum_first),
    "holding": Figure(holding),
    "programs": Figure(programs),
    "small_products": Figure(small),
    "solvers": Figure(solvers, is_raw=True),
    "spellings": Figure(spellings, is_raw=True),
    "totals": Figure(totals, is_cut=True),
    "totals_open": Figure(totals, is_cut=True),
    "transfer": Figure(transfer, is_raw=True),
}
"""Name of raw file, summary, page and plot, without suffix, relative to `benchmarks/results` -> how to make them."""


def summary_of(name: str) -> Path:
    """Return the path of a summary."""
    return RESULTS / f"{name}.summary.json"


def made(name: str, folder: Path) -> tuple[str | None, Path | None]:
    """Make the page of one figure, and its plot in `folder`, from its summary."""
    figure, path = FIGURES[name], RESULTS / f"{name}.jsonl"
    lines = list(ResultFile(path).lines()) if figure.is_raw else unpacked(summary_of(name).read_text(encoding="utf-8"))
    with these(lines):
        page = None if figure.page is None else figure.page(path)
        if figure.plot is None:
            return page, None
        plot = folder / f"{Path(name).name}.png"
        figure.plot(path, plot)
        return page, plot


def summarise(name: str) -> int:
    """Write the summary of one figure from its raw file; return its size in bytes."""
    figure, path = FIGURES[name], RESULTS / f"{name}.jsonl"

    def render(lines: list[dict[str, Any]]) -> str:
        with these(lines), tempfile.TemporaryDirectory() as folder:
            if figure.plot is not None:
                figure.plot(path, Path(folder) / "plot.png")
            return figure.page(path) if figure.page is not None else ""

    found = slim(list(ResultFile(path).lines()), render, is_cut=figure.is_cut)
    text = packed(found)
    if unpacked(text) != found:
        raise ValueError(f"the summary of {name} does not read back as it was written")
    summary_of(name).write_text(text, encoding="utf-8")
    return len(text)


def outdated(name: str, folder: Path) -> list[str]:
    """Make page and plot of one figure in `folder`; return the names of those that differ from the kept ones."""
    (page, plot), wrong = made(name, folder), []
    if page is not None and page != (RESULTS / f"{name}.md").read_text(encoding="utf-8"):
        wrong.append(f"{name}.md")
    if plot is not None and not same_picture(plot, RESULTS / f"{name}.png"):
        wrong.append(f"{name}.png")
    return wrong


def same_picture(one: Path, other: Path) -> bool:
    """Return whether two PNG files show the same; versions of Matplotlib may differ in single pixels."""
    import numpy as np
    from PIL import Image

    a, b = (np.asarray(Image.open(path).convert("L"), np.float64) for path in (one, other))
    return one.read_bytes() == other.read_bytes() or (a.shape == b.shape and float(np.abs(a - b).mean()) < 4.0)


def main(given: Sequence[str] | None = None) -> int:
    """Regenerate, check or summarise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="figures (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages and plots that differ")
    parser.add_argument("--summarise", action="store_true", help="write the summaries from the raw files")
    args = parser.parse_args(given)
    wrong: list[str] = []
    for name in args.names or FIGURES:
        figure = FIGURES[name]
        if args.summarise and not figure.is_raw:
            print(f"{name}: {summarise(name):,} bytes", flush=True)
        elif args.summarise:
            continue
        elif args.check:
            with tempfile.TemporaryDirectory() as folder:
                wrong += outdated(name, Path(folder))
        else:
            page, _ = made(name, (RESULTS / name).parent)
            if page is not None:
                (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")
    if not args.names and args.summarise:
        readme_plot.summarise()
    elif not args.names and not args.check:
        readme_plot.draw(readme_plot.OUT)
    print("\n".join(f"differs: {name}" for name in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

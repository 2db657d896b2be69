"""Sphinx extension that makes tables and plots from benchmarks/results and checks the links within the site."""

from __future__ import annotations

import html.parser
import math
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
from sphinx.util import logging

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
RESULTS = REPOSITORY / "benchmarks" / "results"
MADE = HERE / "_generated"
ASV = REPOSITORY / "build" / "asv" / "html"
"""Folder that `make bench` writes; it holds only a folder `asv` of pages."""
DARK, LIGHT, INK = "#30588c", "#8fb1d9", "#555"
SHOWN: Final = {"autosparse, not tuned": "not tuned", "autosparse, lazily": "tuned as products are run"}
"""Map from rows of totals.md to their labels in the plot of the start page."""

TITLES: Final = {"spmv": "A @ x", "spmm256": "A @ B, 256 columns"}
"""Map from operations of totals.md to titles of plots."""

log = logging.getLogger(__name__)


def records(name: str) -> list[dict[str, Any]]:
    """Return the lines of one file of measurements that hold times; the file may be in an archive."""
    from peerlib.records import ResultFile

    return [one for one in ResultFile(RESULTS / name).lines() if "operation" in one]


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def paper_tables() -> str:
    """Return the paper's Tables 4 and 5 beside ours, made by the code of the benchmarks' reports."""
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    from peerlib.paper import paper_table

    names = ("measure_spmv", "measure_spmm256", "full_sddmm256", "full_mttkrp16")
    found = [one for name in names for one in records(f"{name}.jsonl")]
    ours = {False: "autosparse", True: "autosparse"}
    return paper_table(found, ours)


def speedups(path: Path) -> None:
    """Draw the plot of the start page from the totals: time of SciPy over ours against the number of products."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, (title, rows) in zip(axes, total_tables().items(), strict=True):
        for (name, values), colour in zip(rows.items(), (LIGHT, DARK), strict=False):
            ax.semilogx(
                [10**n for n in range(len(values))], [1 / value for value in values], "o-", color=colour, label=name
            )
        ax.axhline(1, color=INK, linewidth=1, linestyle=":")
        ax.set(title=TITLES.get(title, title), xlabel="products", yscale="log")
        ax.set_yticks([0.25, 0.5, 1, 2, 4, 8], ["1/4", "1/2", "1", "2", "4", "8"])
        ax.set_ylim(0.2, 10)
    axes[0].set_ylabel("times as fast as SciPy")
    axes[-1].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=160)


def total_tables() -> dict[str, dict[str, list[float]]]:
    """Read totals.md: operation -> {label: time of 1, 10, ... products over SciPy's}."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in (RESULTS / "totals.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            rows = found.setdefault(line[3:].split(":")[0], {})
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and (name := SHOWN.get(cells[0])):
            rows.setdefault(name, [float(cell) for cell in cells[1:]])
    return found


def pictures_of_tuning() -> None:
    """Tune a matrix with rows of very different lengths and write the three plots of its explanation."""
    import scipy.sparse as sps

    import autosparse as asp
    from autosparse.core.pattern import Pattern
    from autosparse.explain import pictures

    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.zipf(1.7, 4000), 1500)
    rows = np.repeat(np.arange(4000), lengths)
    columns = (4000 * rng.random(rows.size) ** 2).astype(int)
    m = sps.coo_array((np.ones(rows.size, np.float32), (rows, columns)), shape=(4000, 4000)).tocsr()
    A = asp.csr(m, copy=True)
    A.tune("matmul", columns=32, runs=10**7, effort="measure", budget_s=5)
    report = A.explain(32).report
    pattern = report.problem.pattern
    assert isinstance(pattern, Pattern)
    drawn = pictures.pictures(pattern, report.plan, transposed=False, n_calls=0)
    names = ("spy", "candidates", "break_even")
    for name, (_, png) in zip(names, [*drawn, *[drawn[-1]] * (3 - len(drawn))], strict=True):  # no gain: no break-even
        (MADE / f"{name}.png").write_bytes(png)


def make(app: Any) -> None:
    """Write all files that pages include."""
    MADE.mkdir(exist_ok=True)
    (MADE / "paper.md").write_text(paper_tables(), encoding="utf-8")
    (MADE / "programs.md").write_text((RESULTS / "programs.md").read_text(encoding="utf-8"), encoding="utf-8")
    (MADE / "holding.md").write_text(kept_table("holding"), encoding="utf-8")
    for name in ("solvers", "solver_peers"):
        (MADE / f"{name}.md").write_text(kept_table(name), encoding="utf-8")
    (MADE / "totals.md").write_text(shifted((RESULTS / "totals.md").read_text(encoding="utf-8")), encoding="utf-8")
    (MADE / "asv.md").write_text(pages_of_asv(app.config), encoding="utf-8")
    speedups(MADE / "speedups.png")
    if not (MADE / "convergence.png").exists():
        import _convergence

        _convergence.draw(MADE / "convergence.png")
    if not (MADE / "break_even.png").exists():
        pictures_of_tuning()


def kept_table(name: str) -> str:
    """Return the table of the benchmark `name`, or a sentence that there is none."""
    made = RESULTS / f"{name}.md"
    return made.read_text(encoding="utf-8") if made.is_file() else "No results are kept yet.\n"


def pages_of_asv(config: Any) -> str:
    """Add the pages of asv to the site and return a link to them, or a sentence that there are none."""
    if not (ASV / "asv" / "index.html").is_file():
        return "This copy of the site was built where `make bench` had not run.\n"
    config.html_extra_path.append(str(ASV))
    return "<a href='asv/index.html'>The pages of asv</a>: results by commit, of the machine that built this site.\n"


def shifted(text: str) -> str:
    """Return the Markdown text with every heading one level lower."""
    return "".join(f"#{line}" if line.startswith("#") else line for line in text.splitlines(keepends=True))


class Page(html.parser.HTMLParser):
    """Parser that collects the links and the anchor names of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.names.update(filter(None, (found.get("id"), found.get("name"))))
        for attribute in ("href", "src"):
            if found.get(attribute):
                self.links.append(str(found[attribute]))


def check_links(app: Any, exception: Exception | None) -> None:
    """Log a warning for each link within the site whose target does not exist. External links are not checked."""
    if exception is not None or app.builder.name != "html":
        return
    root = Path(app.outdir)
    pages: dict[Path, Page] = defaultdict(Page)
    for path in root.rglob("*.html"):
        pages[path].feed(path.read_text(encoding="utf-8"))
    for path, page in list(pages.items()):
        top = path.relative_to(root).parts[0]
        if path.name in ("search.html", "genindex.html") or top in ("_modules", "_static", "asv"):
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith(("data:", "#!")):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                log.warning("%s links to %s, which is not there", path.relative_to(root), link)
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                log.warning("%s links to %s: no such place on that page", path.relative_to(root), link)


def escape_bars(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Escape the bars of norms such as |r| in docstrings, which reStructuredText reads as substitutions."""
    for at, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[at] = re.sub(r"``.*?``|\\\||\|", lambda found: "\\|" if found[0] == "|" else found[0], line)


def setup(app: Any) -> dict[str, Any]:
    """Register the hooks with Sphinx."""
    app.connect("builder-inited", make)
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("build-finished", check_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Three plots of an explanation, as PNG: a spy plot, the candidates' times, and the break-even curve.

Plots are made by matplotlib's figure objects without pyplot, so that the user's backend is not changed.
"""

from __future__ import annotations

import importlib.util
import io
import textwrap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.pattern import Pattern
from autosparse.core.plan import Candidate, Plan
from autosparse.errors import MissingExtraError
from autosparse.explain.loop_nest import choice_name
from autosparse.explain.units import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_CELLS: Final = 256
"""Maximum number of cells of a spy plot along each axis. A cell's shade shows its number of entries."""
N_SHOWN: Final = 12
"""Maximum number of candidates drawn."""
WIDTH: Final = 5.2
"""Width of a plot in inches, chosen so that its text is legible on a phone."""
LINE_CHARACTERS: Final = 58
"""Maximum line length of a candidate's name in the plot, in characters."""
NAME_LINE, BAR = 0.62, 0.7
"""Height of a line of a name and of a bar, in the units of the plot's vertical axis."""
DARK, LIGHT, STRONG = "#30588c", "#b9c7da", "#c2571a"


def have_matplotlib() -> bool:
    """Return whether matplotlib is installed, without importing it."""
    return importlib.util.find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Raise MissingExtraError if matplotlib is not installed."""
    if not have_matplotlib():
        raise MissingExtraError.needed("matplotlib", extra="plot", purpose="pictures in an explanation")


def pictures(pattern: Pattern | None, plan: Plan, *, transposed: bool, n_calls: int) -> list[tuple[str, bytes]]:
    """Return (caption, PNG) of each plot that has data; `pattern` is None for a tensor."""
    require_matplotlib()
    drawn = [] if pattern is None else [spy(pattern, transposed=transposed)]
    if any(_time_s(candidate) is not None for candidate in plan.candidates):
        drawn.append(times(plan))
    if plan.default_s and plan.measured_s and not plan.is_default:
        drawn.append(break_even(plan, n_calls=n_calls))
    return [(caption, as_png(figure)) for caption, figure in drawn]


def density(pattern: Pattern, *, transposed: bool = False) -> NDArray[WideIndex]:
    """Return the numbers of entries in the cells of a grid of at most N_CELLS x N_CELLS over op(A), in O(nnz) time."""
    n_rows, n_cols = pattern.shape
    height, width = max(1, min(n_rows, N_CELLS)), max(1, min(n_cols, N_CELLS))
    rows = np.arange(n_rows, dtype=WideIndex) * height // max(1, n_rows)
    columns = pattern.indices[: pattern.nnz].astype(WideIndex) * width // max(1, n_cols)
    cells = np.repeat(rows * width, pattern.row_lengths)
    cells += columns
    grid = np.bincount(cells, minlength=height * width).reshape(height, width)
    return grid.T if transposed else grid


def spy(pattern: Pattern, *, transposed: bool) -> tuple[str, Figure]:
    """Return the caption and the spy plot of op(A)."""
    grid = density(pattern, transposed=transposed)
    figure, axes = new_figure(4.5, 4.5)
    n_rows, n_cols = pattern.shape[::-1] if transposed else pattern.shape
    aspect = "equal" if max(n_rows, n_cols) < 4 * max(1, min(n_rows, n_cols)) else "auto"
    extent = (0, max(1, n_cols), max(1, n_rows), 0)
    shades = np.log1p(grid)
    lightest = -0.5 if grid.any() else 0  # distinguishes a single entry from none
    shades[grid == 0] = lightest
    axes.imshow(shades, cmap="Blues", aspect=aspect, interpolation="nearest", extent=extent, vmin=lightest)
    axes.locator_params(nbins=4)
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    return f"Where the {pattern.nnz:,} entries are (darker: more of them)", figure


def times(plan: Plan) -> tuple[str, Figure]:
    """Return (caption, figure): bars of the candidates' measured times and marks of predicted ones, fastest on top."""
    shown = sorted((one for one in plan.candidates if _time_s(one) is not None), key=lambda one: _time_s(one) or 0.0)
    shown = shown[:N_SHOWN]
    names = [textwrap.fill(_plain(choice_name(one.choice)), LINE_CHARACTERS) for one in shown]
    # Per candidate, from the top: the lines of its name, then its bar.
    ends = np.cumsum([NAME_LINE * (name.count("\n") + 1) + BAR for name in names])
    figure, axes = new_figure(WIDTH, 1.3 + 0.3 * float(ends[-1]))
    places = ends - BAR / 2
    measured = [(one.measured_s or 0.0) * 1e3 for one in shown]
    colours = [DARK if one.choice == plan.choice else LIGHT for one in shown]
    axes.barh(places, measured, height=0.8 * BAR, color=colours, label="measured")
    guessed = [(place, one.predicted_s * 1e3) for place, one in zip(places, shown, strict=True) if one.predicted_s]
    if guessed:
        axes.plot([time for _, time in guessed], [place for place, _ in guessed], "D", color=STRONG, label="predicted")
    beside = axes.get_yaxis_transform()  # horizontal axis in fractions of the plot, so that names begin at its edge
    for end, name in zip(ends, names, strict=True):
        axes.text(0.01, end - BAR, name, transform=beside, fontsize=9, va="bottom")
    axes.set_ylim(float(ends[-1]) + 0.2, -0.2)
    axes.set_yticks([])
    axes.set_xlim(0, 1.05 * max([*measured, *(time for _, time in guessed)]) or 1.0)
    axes.set_xlabel("time of one product, ms")
    axes.locator_params(axis="x", nbins=5)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return "Candidates (dark: the one that runs)", figure


def break_even(plan: Plan, *, n_calls: int) -> tuple[str, Figure]:
    """Return (caption, figure): total time by number of products, with and without tuning; marks `n_calls`."""
    assert plan.default_s is not None
    assert plan.measured_s is not None
    price_s, even = plan.tune_s + plan.pack_s, plan.break_even_runs
    most = max(10.0, 10 * (even or 0.0), 2.0 * n_calls)
    runs = np.geomspace(1, most, 200)
    figure, axes = new_figure(WIDTH, 4.2)
    axes.loglog(runs, runs * plan.default_s, color=STRONG, label="default kernel")
    axes.loglog(runs, price_s + runs * plan.measured_s, color=DARK, label="tuning + conversion + tuned kernel")
    if even:
        axes.axvline(even, color="#888", linestyle="--", label=f"break-even: {count(even)} products")
    if n_calls:
        axes.axvline(n_calls, color="#888", linestyle=":", label=f"so far: {count(n_calls)}")
    axes.set_xlabel("products")
    axes.set_ylabel("total time, s")
    figure.legend(loc="outside lower center", frameon=False)
    return "When tuning has paid for itself", figure


def _time_s(candidate: Candidate) -> float | None:
    return candidate.measured_s if candidate.measured_s is not None else candidate.predicted_s


def _plain(text: str) -> str:
    """Escape dollar signs, which matplotlib would read as mathematics."""
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> tuple[Figure, Any]:
    """Create a figure of this size in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def as_png(figure: Figure) -> bytes:
    """Return the figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=130)
    return stream.getvalue()

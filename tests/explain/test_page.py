"""Tests of the HTML page as a reader sees it: no cut labels, no duplicates, narrow screens, no warnings."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

from autosparse.core.formats import Format
from autosparse.core.plan import Candidate, Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.explain import Explanation, pictures
from autosparse.explain.sections import RACED_AGAIN
from autosparse.tuning.amortization import Tier
from tests.explain.samples import CANDIDATES, NARROW, TUNED, UNTUNED, pattern, problem, report

LONG = SuperSchedule(
    format=Format.parse("i1:U,k1:C,i0:U,k0:U | i=4,k=2 | values=bfloat16 | bits=16"),
    loop_order=("i1", "j1", "k1", "i0", "k0", "j0"),
    dense_splits=(("j", 256),),
    partition="dynamic",
    chunk=16384,
    unroll=8,
    threads=128,
    prefetch=1024,
)
TIERS = tuple(Tier(name=name, price_s=price_s, gain=0.1) for name, price_s in (("estimate", 0.05), ("full", 1e4)))


def many(n: int) -> Plan:
    """Return a plan with `n` candidates of long names."""
    shown = [dataclasses.replace(LONG, chunk=16384 + at) for at in range(n)]
    timed = [
        Candidate(choice=choice_of(one), measured_s=1e-3 * (at + 1), predicted_s=2e-3) for at, one in enumerate(shown)
    ]
    return dataclasses.replace(TUNED, choice=choice_of(shown[0]), candidates=(CANDIDATES[0], *timed))


PLANS = {
    "tuned": TUNED,
    "untuned": UNTUNED,
    "long names": many(12),
    "one candidate": many(1),
    "no time at all": dataclasses.replace(
        TUNED, measured_s=1e-9, candidates=(Candidate(choice=choice_of(NARROW), measured_s=0.0),)
    ),
    "huge times": dataclasses.replace(TUNED, default_s=4e5, measured_s=1e5, tune_s=1e7),
    "pays at once": dataclasses.replace(TUNED, tune_s=0.0, pack_s=0.0),
    "only predicted": dataclasses.replace(
        TUNED, measured_s=None, candidates=tuple(dataclasses.replace(one, measured_s=None) for one in CANDIDATES)
    ),
}
PATTERNS = {"tall": pattern(90_000, 3, 1), "wide": pattern(2, 90_000, 4), "none": pattern(0, 0, 0)}


def check(figure: pictures.Figure) -> None:
    """Check that every text lies within the picture, and that the plot takes a good part of it."""
    from matplotlib.text import Text

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    whole = figure.bbox
    for axes in figure.axes:
        off = {
            label
            for n, (axis, ends) in enumerate(((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())))
            for label in axis.get_ticklabels(which="both")
            if not min(ends) <= label.get_position()[n] <= max(ends)
        }  # beyond the axes, so not drawn
        for text in axes.findobj(Text):
            if text in off or not text.get_text().strip() or not text.get_visible():
                continue
            box = text.get_window_extent()
            is_inside = min(box.x0, box.y0) >= -1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1
            assert is_inside, (text.get_text(), box, whole)
        assert axes.get_position().width > 0.2, "labels take the room of the picture"


@pytest.mark.parametrize("name", PLANS)
def test_no_label_of_a_plans_pictures_is_cut_and_nothing_warns(name):
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    plan = PLANS[name]
    if any(one.measured_s is not None or one.predicted_s is not None for one in plan.candidates):
        check(pictures.times(plan)[1])
    if plan.default_s and plan.measured_s:
        check(pictures.break_even(plan, n_calls=12)[1])


@pytest.mark.parametrize("name", PATTERNS)
def test_no_label_of_a_spy_plot_is_cut(name):
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    check(pictures.spy(PATTERNS[name], transposed=False)[1])


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=() if one in {"untuned", "long names"} else pytest.mark.full) for one in PLANS],
)
def test_a_whole_page_is_written_without_a_warning(name: str, tmp_path: Path):
    """Check the page around the pictures, which the tests above check for every plan."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Explanation(report(PLANS[name], tiers=TIERS)).html(tmp_path / "page.html")


def test_no_heading_is_there_twice():
    page = Explanation(report(tiers=TIERS))._repr_html_()
    headings = re.findall(r"<h\d>(.*?)</h\d>", page)
    assert len(headings) == len(set(headings)) > 5


def test_the_page_tells_phones_its_width_and_wide_tables_fold():
    """Every cell must carry the name of its column, because narrow screens show the cells of a row below each other."""
    page = Explanation(report(tiers=TIERS))._repr_html_()
    assert '<meta name="viewport" content="width=device-width' in page
    tables = re.findall(r"<table>.*?</table>", page, re.DOTALL)
    assert len(tables) == 2
    for table in tables:
        labels = [one for one in re.findall(r"<th>(.*?)</th>", table) if one]
        for row in re.findall(r"<tr>(<td.*?)</tr>", table):
            assert [one for one in re.findall(r'data-label="(.*?)"', row) if one] == labels
    assert "@media" in page
    assert "attr(data-label)" in page


@pytest.mark.full
def test_the_page_fits_390_pixels(tmp_path: Path):
    """In a headless browser nothing may be wider than the screen unless it scrolls by itself."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser: chromium or google-chrome")
    facts = Explanation(report(many(12), tiers=TIERS, problem=problem(n_dense_cols=123456)))
    facts.html(tmp_path / "page.html")
    (tmp_path / "frame.html").write_text(FRAME)
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--allow-file-access-from-files",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", "--dump-dom",
        f"file://{tmp_path / 'frame.html'}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = re.search(r"width (\d+) of 390: ?</pre>", done.stdout)
    assert found is not None, done.stdout[-2000:]
    assert int(found[1]) <= 390


FRAME = """<!DOCTYPE html><html><body><iframe id=f src="page.html" style="width:390px;height:3000px;border:0"></iframe>
<pre id=o></pre><script>f.onload = () => { const d = f.contentDocument;
const wide = [...d.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > 391 && !e.closest("pre"));
o.textContent = "width " + d.documentElement.scrollWidth + " of 390: " + wide.map(e => e.outerHTML.slice(0, 60)); };
</script></body></html>
"""


def test_a_plan_slower_than_listed_candidates_says_which_race_its_time_is_from() -> None:
    plan = many(3)
    assert RACED_AGAIN not in str(Explanation(report(dataclasses.replace(plan, measured_s=1e-3))))
    slowest = dataclasses.replace(plan, choice=plan.candidates[-1].choice, measured_s=3e-3)
    assert RACED_AGAIN in str(Explanation(report(slowest)))

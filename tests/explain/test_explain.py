"""Tests of explanations: the text states the required facts for every plan, and no content breaks the HTML page."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from autosparse.tuner.features.statistics import pattern_facts
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse.cli.operands import writable
from autosparse.cli.show import CommandError
from autosparse.core.documents import write_whole
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.plan import Candidate, Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.errors import MissingExtraError
from autosparse.explain import Explanation, pictures
from autosparse.explain.explanation import NO_PICTURES
from autosparse.explain.loop_nest import NAMES, format_lines, format_name, nest_lines, schedule_name
from autosparse.explain.units import count, n_bytes, seconds
from autosparse.tuning.amortization import Tier
from tests.explain.samples import BLOCKS, CANDIDATES, NARROW, TUNED, UNTUNED, pattern, problem, report

needs_matplotlib = pytest.mark.skipif(not pictures.have_matplotlib(), reason="the plot extra is not installed")


class Reader(HTMLParser):
    """Parser that collects text and fails on tags that are not closed."""

    VOID = {"meta", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


def test_text_of_a_tuned_plan_names_kernel_reason_and_cost():
    text = str(Explanation(report()))
    for said in (
        "matmul: A @ B, B 32 columns", "5 x 7, 10 entries, float32, int32 indices", "at most 2 threads",
        "it won the race", "BCSR, dense blocks of 4 x 2; tile 32; prefetch 8", "1 ms", "2.00 times as long",
        "1.1 s on tuning between products, 500 ms by faster products",
        "12, 24 ms in all", "1,000 products", "4 KiB of 8 KiB allowed", "i1:U,k1:C,i0:U,k0:U | i=4,k=2",
        "C[i, j] += A[i, k] * B[k, j]", "default kernel",
    ):  # fmt: skip
        assert said in text, said


def test_text_of_the_default_plan_gives_the_reason_and_no_break_even():
    text = str(Explanation(report(UNTUNED, packed_bytes=0)))
    assert UNTUNED.why in text
    assert "as it is (CSR)" in text
    assert "break-even" not in text  # the time of a product is not known yet
    assert "Candidates" not in text
    assert "conversion" not in text
    assert "None" not in text


def test_before_tuning_the_expected_price_and_gain_are_told():
    text = str(Explanation(report(UNTUNED, default_s=0.01)))
    assert "compile 350 ms, pack 2 ms" in text
    assert "about 352 products, if tuning saves 10% as expected" in text


def test_products_left_to_scipy_have_no_loops_and_no_price():
    text = str(
        Explanation(report(Plan(choice=DEFAULT, why="int8 is not for our kernels", served_by="SciPy"), prices_s={}))
    )
    assert "SciPy's own code" in text
    assert "int8 is not for our kernels" in text
    assert not any(title in text for title in ("Price", "Storage", "Loops"))


def test_text_of_an_unfinished_search_shows_its_cost_so_far():
    text = str(Explanation(report(dataclasses.replace(TUNED, effort="off"))))
    assert "search not finished, found in this process" in text
    assert "996 ms" in text
    assert "would cost" not in text


def test_remembered_plan_says_so():
    text = str(Explanation(report(dataclasses.replace(TUNED, remembered=True))))
    assert "remembered from an earlier run" in text


def test_failures_are_shown():
    text = str(Explanation(report(failures=("cc was not found",))))
    assert "cc was not found" in text
    assert "cc said: <error> & 'more'" in text  # the candidate's failure, on one line


def test_candidates_are_sorted_measured_first_failures_last():
    text = str(Explanation(report()))
    table = text[text.index("Candidates") :].split("\n")
    assert [line.split()[0] for line in table[2:5]] == ["BCSR,", "default", "CSR,"]


@given(st.integers(0, 4), st.integers(0, 4), st.integers(1, 300), st.booleans())
@settings(max_examples=25, deadline=None)
def test_any_shape_can_be_explained(n_rows: int, n_cols: int, columns: int, transposed: bool):
    empty = Pattern(n_rows, n_cols, np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int64))
    found = report(UNTUNED, problem=problem(pattern=empty, n_dense_cols=columns, transposed=transposed))
    assert "int64" in str(Explanation(found))
    read(Explanation(found)._repr_html_())


def test_page_is_well_formed_escaped_and_has_the_facts_of_the_text():
    page = Explanation(report())._repr_html_()
    reader = read(page)
    assert "Some <CPU> & more" in reader.text
    assert "<error> & 'more'" in reader.text
    assert {"script", "error", "cpu", "link"}.isdisjoint(reader.tags)
    for line in str(Explanation(report())).split("\n"):
        for word in line.split():
            assert word in reader.text


@given(st.text(max_size=60))
@settings(max_examples=50, deadline=None)
def test_no_text_can_break_the_page(text: str):
    reader = read(Explanation(report(Plan(choice=DEFAULT, why=text), verdict=text))._repr_html_())
    assert "script" not in reader.tags or "script" not in text


def test_page_without_matplotlib_tells_the_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pictures, "have_matplotlib", lambda: False)
    path = Explanation(report()).html(tmp_path / "page.html")
    assert NO_PICTURES in read(path.read_text(encoding="utf-8")).text
    with pytest.raises(MissingExtraError, match=r"matplotlib[\s\S]*pip install 'autosparse\[plot\]'"):
        Explanation(report()).html(tmp_path / "other.html", pictures=True)
    assert not (tmp_path / "other.html").exists()


@needs_matplotlib
def test_page_has_its_pictures(tmp_path: Path):
    path = Explanation(report()).html(tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 3
    assert NO_PICTURES not in page
    read(page)
    untuned = Explanation(report(UNTUNED)).html(tmp_path / "untuned.html").read_text(encoding="utf-8")
    assert untuned.count("data:image/png;base64,") == 1  # only the spy plot is known
    plain = Explanation(report()).html(tmp_path / "plain.html", pictures=False).read_text(encoding="utf-8")
    assert "data:image/png" not in plain
    assert sorted(one.name for one in tmp_path.iterdir()) == ["page.html", "plain.html", "untuned.html"]


@needs_matplotlib
def test_pictures_of_odd_reports():
    everything = (pattern(1, 3000, 3000), pattern(0, 0, 0), pattern(700, 3, 1))
    for one in everything:
        drawn = pictures.pictures(one, TUNED, transposed=True, n_calls=0)
        assert all(png.startswith(b"\x89PNG") for _, png in drawn)
    predicted = tuple(dataclasses.replace(one, measured_s=None) for one in CANDIDATES)
    estimated = dataclasses.replace(TUNED, candidates=predicted, measured_s=None, default_s=None)
    assert len(pictures.pictures(pattern(), estimated, transposed=False, n_calls=5)) == 2


@given(st.integers(0, 600), st.integers(1, 600), st.integers(0, 3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_density_counts_every_entry_once(n_rows: int, n_cols: int, n_per_row: int, transposed: bool):
    one = pattern(n_rows, n_cols, n_per_row)
    grid = pictures.density(one, transposed=transposed)
    assert grid.sum() == one.nnz
    assert max(grid.shape) <= pictures.N_CELLS
    if max(n_rows, n_cols) <= pictures.N_CELLS and n_rows:
        dense = np.zeros((n_rows, n_cols), int)
        np.add.at(dense, (np.repeat(np.arange(n_rows), n_per_row), one.indices), 1)
        np.testing.assert_array_equal(grid, dense.T if transposed else dense)


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "broken \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "page.html", "x")


def test_writing_a_page_keeps_links_and_pipes(tmp_path: Path):
    """A page written through a link must replace the link's target; a pipe must not be replaced by a file."""
    page, link, pipe = tmp_path / "page.html", tmp_path / "link", tmp_path / "pipe"
    page.write_text("old")
    link.symlink_to(page)
    write_whole(link, "new")
    assert link.is_symlink()
    assert page.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        writable("--html", pipe)
        write_whole(pipe, "through")
        assert os.read(reader, 99) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert sorted(tmp_path.iterdir()) == [link, page, pipe]
    page.chmod(0o600)
    write_whole(page, "again")
    assert page.stat().st_mode & 0o777 == 0o600
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(circle, "nowhere")
    assert circle.is_symlink()
    with pytest.raises(FileNotFoundError) as raised:
        write_whole(tmp_path / "absent" / "page.html", "nowhere")
    assert (raised.value.filename, raised.value.filename2) == (str(tmp_path / "absent" / "page.html"), None)
    for bad in (circle, tmp_path / ("x" * 300), Path("a\0b")):
        with pytest.raises(CommandError):
            writable("--html", bad)


def test_redirected_output_is_written_to_and_not_replaced(tmp_path: Path):
    """Write to /dev/stdout while it is redirected, as by `--html /dev/stdout > out.txt`."""
    program = (
        "from pathlib import Path; from autosparse.core.documents import write_whole; print('before', flush=True); "
        "write_whole(Path('/dev/stdout'), 'page '); print('after')"
    )
    with (tmp_path / "out.txt").open("w") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out.txt").read_text() == "before\npage after\n"


def test_loop_nest_of_blocks():
    assert [" ".join(line.split()) for line in nest_lines(BLOCKS)] == [
        "parallel for i1 in blocks of 4 rows # equal shares of the nonzeros",
        "for j1 in blocks of 32 columns of B",
        "for k1 in stored blocks of 2 columns",
        "for i0 in 0 .. 3",
        "for k0 in 0 .. 1 # rows of B fetched 8 entries ahead",
        "for j0 in 0 .. 31 # vectors, held in registers",
        "C[i, j] += A[i, k] * B[k, j]",
        "where i = 4 * i1 + i0, k = 2 * k1 + k0, j = 32 * j1 + j0",
    ]


def test_loop_nest_of_a_vector_product():
    lines = nest_lines(NARROW)
    assert "handed out 128 at a time" in lines[0]
    assert "stored columns" in lines[1]
    assert "unrolled 4 times" in lines[1]
    assert lines[2].strip() == "C[i] += A[i, k] * B[k]"


def test_every_level_of_every_named_format_has_its_line():
    sizes = {"i": 4, "k": 8}
    for levels in NAMES:
        splits = ",".join(f"{index}={size}" for index, size in sizes.items() if f"{index}0" in levels)
        fmt = Format.parse(f"{levels} | {splits}" if splits else levels)
        assert "{" not in format_name(fmt)
        assert [line.split()[0] for line in format_lines(fmt)] == list(fmt.order)
    odd = Format.parse("k1:C,i1:C,k0:U | k=4 | bits=16")
    assert format_name(odd) == "k1:C,i1:C,k0:U, 16-bit indices"
    narrow = Format.parse("i1:U,k1:C | bits=16")
    assert format_name(narrow) == "CSR, 16-bit indices"
    assert format_name(Format.parse("i1:U,k1:C | values=bfloat16")) == "CSR, values as bfloat16"


@pytest.mark.parametrize(("rows", "words"), [("first", "first column"), ("rcm", "Cuthill"), ("degree", "longest")])
def test_the_runtimes_own_loops_are_named_with_their_order_of_rows(rows, words):
    ready = SuperSchedule(
        operation="matmul", format=Format.parse(f"i1:U,k1:C | rows={rows}"), loop_order=("i1", "k1"),
        parallel="i1", prefetch=16, implementation="runtime",
    )  # fmt: skip
    name, lines = schedule_name(ready), nest_lines(ready)
    assert words in name
    assert "own loops" in name
    assert lines[:-1] == nest_lines(None)
    assert words in lines[-1]
    assert "16 entries ahead" in lines[-1]


def test_names_tell_candidates_apart():
    names = [schedule_name(one) for one in (None, BLOCKS, NARROW, dataclasses.replace(NARROW, unroll=2))]
    assert len(set(names)) == 4


@given(st.floats(1e-9, 1e5))
def test_seconds_keeps_three_digits(value_s: float):
    number, unit = seconds(value_s).split(" ")
    factor = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]
    assert float(number.replace(",", "")) * factor == pytest.approx(value_s, rel=6e-3)


def test_units_at_the_edges():
    assert [seconds(None), seconds(0.0), seconds(float("nan")), n_bytes(None), n_bytes(0)] == [
        "-",
        "0 s",
        "-",
        "-",
        "0 B",
    ]
    assert [n_bytes(1536), n_bytes(5 << 30), count(None), count(1234.2)] == ["1.5 KiB", "5 GiB", "-", "1,235"]


# -- pattern, tiers, predictions ------------------------------------------------------------------------------------


def test_features_of_the_pattern_are_told():
    made = pattern(n_rows=64, n_cols=64, n_per_row=4)
    text = str(Explanation(report(problem=problem(pattern=made), facts=pattern_facts(made))))
    facts = pattern_facts(made)
    for said in (
        "Pattern", "longest 4, deviation 0.00 of the mean, 0% empty", f"2 x 2 {facts.fill(2, 2):.0%}", "8,192: 1.00",
        f"{facts.diagonal_share:.0%} of the entries", f"{1 / facts.columns_per_entry:.3g} entries per column",
    ):  # fmt: skip
        assert said in text, said


def test_an_empty_pattern_and_a_tensor_have_no_features():
    empty = pattern(n_rows=3, n_cols=3, n_per_row=0)
    assert "Pattern" not in str(Explanation(report(problem=problem(pattern=empty), facts=pattern_facts(empty))))
    assert "Pattern" not in str(Explanation(report(facts=None)))


def test_an_estimate_is_told_in_ratios_until_products_have_taken_time():
    estimate = Plan(
        choice=choice_of(BLOCKS), why="the model expects it to be the fastest", effort="estimate", tune_s=0.03,
        pack_s=0.01, predicted_ratio=0.6, candidates=(
            Candidate(choice=DEFAULT, predicted_ratio=1.0), Candidate(choice=choice_of(BLOCKS), predicted_ratio=0.6),
            Candidate(choice=choice_of(NARROW), predicted_ratio=0.75),
        ),
    )  # fmt: skip
    before = str(Explanation(report(estimate)))
    assert "0.60 x default" in before
    assert "0.75 x default" in before
    assert "break-even" not in before
    after = str(Explanation(report(estimate, default_s=1e-3)))
    assert "600 us" in after
    assert "750 us" in after
    assert "30 ms = 30 default products" in after
    assert "10 ms = 10 default products" in after
    assert "100 products if the model is right" in after


def test_the_ten_best_candidates_are_listed_with_predicted_and_measured_times():
    others = [dataclasses.replace(BLOCKS, prefetch=n) for n in range(20, 31)]
    predicted = tuple(Candidate(choice=choice_of(one), predicted_ratio=0.5 + 0.01 * n) for n, one in enumerate(others))
    plan = dataclasses.replace(TUNED, candidates=(*CANDIDATES, *predicted))
    text = str(Explanation(report(plan)))
    assert "Candidates" in text
    for n in range(10):
        assert f"prefetch {20 + n}" in text
    assert seconds((0.5 + 0.0) * 2e-3) in text
    assert "2.1 ms" in text  # the default kernel's predicted time, beside its measured 2 ms


def test_tiers_are_told_in_default_products():
    tiers = (Tier(name="estimate", price_s=0.03, gain=0.2), Tier(name="measure", price_s=1.5, gain=0.3),
             Tier(name="full", price_s=30.0, gain=0.0))  # fmt: skip
    text = str(Explanation(report(UNTUNED, default_s=1e-3, tiers=tiers)))
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert lines["estimate"].split() == ["estimate", "30", "ms", "30", "20%", "150", "products"]
    assert lines["measure"].split()[-2:] == ["5,000", "products"]
    assert lines["full"].endswith("never")
    assert "Tiers" not in str(Explanation(report(UNTUNED, tiers=tiers)))  # the time of a product is not known


def test_a_tuned_plan_tells_its_price_in_default_products():
    assert "996 ms = 498 default products" in str(Explanation(report()))

"""Describe a format and a schedule in words: the storage of A, level by level, and the loops of the kernel.

The text is derived from the levels and the loop order. Only the short names of well-known formats are a table.
"""

from __future__ import annotations

from typing import Final

from autosparse.core.composite import Composite, Schedule
from autosparse.core.formats import DICTIONARY, PRESETS, SLICED_KINDS, Format, LevelKind
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import Choice
from autosparse.ops import MATMUL, OPS
from autosparse.ops.base import Words

WORDS: Final = {"i": "rows", "k": "columns", "j": "columns of B"}
"""Plural name of the coordinates of each index; other indices are named by their letter."""

NAMES: Final = {
    PRESETS[preset].levels: name
    for preset, name in (
        ("CSR", "CSR"),
        ("CSC", "CSC"),
        ("DCSR", "DCSR (rows without entries left out)"),
        ("dense", "dense"),
        ("BCSR", "BCSR, dense blocks of {i} x {k}"),
        ("UCU", "UCU, {i} rows share one list of columns"),
        ("BCSR 1 x c", "row vectors, runs of {k} columns"),
        ("sparse block", "column panels, {k} columns each"),
        ("SELL", "SELL, slices of {i} rows"),
        ("SELL with diagonals", "SELL, slices of {i} rows, diagonals where they are filled"),
    )
}
"""Name of each well-known format, by its levels; split sizes are filled in."""

STORED: Final = {
    "U": "every one has a place (no index stored)",
    "C": "only those with entries, {bits}-bit coordinates",
    "N": "every entry, {bits}-bit coordinates",
    "Q": "one for each entry, {bits}-bit coordinates",
    "S": "a slot per entry of the longest row, {bits}-bit coordinates for every lane",
    "D": "a slot per diagonal where they are filled; elsewhere as in slices, {bits}-bit coordinates",
}
"""Description of what a level stores, by the letter of its kind."""

ORDERS: Final = {"first": "by their first column", "rcm": "by reverse Cuthill-McKee", "degree": "longest first"}
"""Description of each row order, by its name in formats."""


def words_of(operation: str) -> Words:
    """Return the words in which explanations describe an operation: its default storage, loops and dense operands."""
    words = OPS[operation].words
    assert words is not None, f"{operation} has nothing to choose"
    return words


def default_name(operation: str) -> str:
    """Return a description of the storage that the operation's default kernel reads."""
    return words_of(operation).default_storage


def format_name(fmt: Format) -> str:
    """Return a format's short name with unusual properties: row order, index width, value storage."""
    levels = ",".join(map(str, fmt.levels))
    notes = [
        NAMES.get(levels, levels).format(**{index: fmt.split(index) for index in "ikl"}),
        f"sorted by length within {fmt.sigma} rows" if fmt.sigma > 1 else "",
        f"rows {ORDERS[fmt.rows]}" if fmt.rows else "",
        f"{fmt.index_bits}-bit indices" if fmt.index_bits != 32 else "",
        "values by number" if fmt.values == DICTIONARY else f"values as {fmt.values}" if fmt.values else "",
    ]
    return ", ".join(filter(None, notes))


def choice_name(choice: Choice) -> str:
    """Return a one-line description of a choice: its schedule, or its solver with the knobs."""
    if choice.is_default or choice.schedule is not None:
        return schedule_name(choice.schedule)
    return f"solver {choice.solver}" + (f" ({choice.knobs})" if choice.knobs is not None else "")


def schedule_name(schedule: Schedule | None) -> str:
    """Return a one-line description of a schedule, by which candidates differ; None is the default kernel."""
    if schedule is None:
        return "default kernel"
    if isinstance(schedule, Composite):
        return " + ".join(f"{part.select} as {format_name(part.schedule.format)}" for part in schedule.parts)
    tiles = "x".join(str(size) for _, size in schedule.dense_splits)
    notes = [
        "the runtime's own loops" if schedule.is_precompiled else f"tile {tiles}" if tiles else "",
        f"unroll {schedule.unroll}" if schedule.unroll > 1 else "",
        f"prefetch {schedule.prefetch}" if schedule.prefetch else "",
        f"dynamic {schedule.chunk}" if schedule.partition == "dynamic" else "",
        f"threads {schedule.threads}" if schedule.threads else "",
    ]
    return "; ".join([format_name(schedule.format), *filter(None, notes)])


def format_lines(fmt: Format) -> list[str]:
    """Return a line for each level of a sparse format, outermost first, which says how A is stored there."""
    lines = []
    for level in fmt.levels:
        index, inner = level.coordinate[:-1], level.coordinate.endswith("0")
        what = _extent(index, fmt.split(index), inner=inner)
        lines.append(f"{level.coordinate}  {what}: {STORED[level.kind.value].format(bits=fmt.index_bits)}")
    return lines


def _extent(index: str, size: int, *, inner: bool) -> str:
    words = WORDS.get(index, f"coordinates {index}")
    if size == 1:
        return words
    return f"{size} {words} of a block" if inner else f"blocks of {size} {words}"


def nest_lines(schedule: SuperSchedule | None, operation: str = MATMUL.name, *, transposed: bool = False) -> list[str]:
    """Return the schedule's loops as lines, outermost first, with the statement inside; None is the default kernel."""
    if schedule is None:
        words = words_of(operation)
        return list((transposed and words.transposed_nest) or words.default_nest)
    if schedule.is_precompiled:
        order, ahead = schedule.format.rows, schedule.prefetch
        fetched = f"rows of the dense operand fetched {ahead} entries ahead" if ahead else ""
        blocks = schedule.format.has_padding
        size = " x ".join(str(schedule.format.split(index)) for index in "ik")
        notes = [
            f"blocks of {size} added up in registers" if blocks else "",
            f"rows {ORDERS[order]}" if order else "",
            fetched,
        ]
        return [*words_of(operation).default_nest, f"with {', '.join(filter(None, notes))}"]
    lines = [_loop(schedule, name, depth) for depth, name in enumerate(schedule.loop_order)]
    indent = "  " * len(lines)
    statement = words_of(schedule.operation).statement
    if not schedule.dense_splits:
        statement = statement.replace(", j]", "]")
    return [*lines, f"{indent}{statement}", *_definitions(schedule)]


def _loop(schedule: SuperSchedule, name: str, depth: int) -> str:
    index, inner = name[:-1], name.endswith("0")
    head = "parallel for" if name == schedule.parallel else "for"
    kinds = {level.coordinate: level.kind for level in schedule.format.levels}
    size = schedule.dense_split(index) or schedule.format.split(index)
    if kinds.get(name) in SLICED_KINDS:
        what = "slots of the slice"
    elif kinds.get(name) is LevelKind.COMPRESSED:
        what = f"stored {_extent(index, size, inner=inner)}"
    elif inner:
        what = f"0 .. {size - 1}"
    else:
        what = _extent(index, size, inner=False)
    text = f"{'  ' * depth}{head} {name} in {what}"
    remark = _remark(schedule, name)
    return f"{text:<44} # {remark}" if remark else text


def _remark(schedule: SuperSchedule, name: str) -> str:
    """Return a remark on one loop of a schedule: parallelism, vectors, unrolling, prefetching; "" if there is none."""
    is_entries = name == next((one for one in reversed(schedule.loop_order) if one.startswith("k")), None)
    shares = {"nnz": "equal shares of the nonzeros", "dynamic": f"handed out {schedule.chunk} at a time"}
    fetched = "values fetched {} slots" if schedule.format.is_sliced else "rows of B fetched {} entries"
    fetched = fetched.format(schedule.prefetch)
    remarks = [
        shares[schedule.partition] if name == schedule.parallel else "",
        f"at most {schedule.threads} threads" if name == schedule.parallel and schedule.threads else "",
        "vectors, held in registers" if name in {f"{index}0" for index, _ in schedule.dense_splits} else "",
        f"unrolled {schedule.unroll} times" if is_entries and schedule.unroll > 1 else "",
        f"{fetched} ahead" if is_entries and schedule.prefetch else "",
    ]
    return ", ".join(filter(None, remarks))


def _definitions(schedule: SuperSchedule) -> list[str]:
    """Return a line that defines the split coordinates, such as ``where i = 4 * i1 + i0``; [] if there are none."""
    splits = [*schedule.format.splits, *schedule.dense_splits]
    whole = [index for index in "ikl" if f"{index}1" in schedule.loop_order and index not in dict(splits)]
    texts = [f"{index} = {size} * {index}1 + {index}0" for index, size in splits] + [f"{i} = {i}1" for i in whole]
    return [f"where {', '.join(texts)}"] if texts else []

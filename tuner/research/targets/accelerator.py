"""Tiled accelerators for sparse matrices: machine, parameters, default and sample price, read from a JSON file.

The parameters are those of SPADE (Gerogiannis et al., ISCA 2023). `p_row` and `p_col` are the rows and columns of a
tile of A, `split` the dense columns per pass. Three are 0 or 1: `barrier` after every column panel, `bypass` of the
caches by rows of the result, `reorder` of the rows by first column. docs/transfer.md describes the file. Shipped
accelerators have names; users pass files of their own (`python -m autosparse transfer`).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from autosparse.tuner.research.targets.base import Category

from autosparse.core.values import computed_once
from autosparse.errors import RecordError, ScheduleError

PARAMETERS: Final = ("p_row", "p_col", "split", "barrier", "bypass", "reorder")
TILINGS: Final = ("p_row", "p_col", "split")
ALL: Final = "all"
"""Value in a file that means all rows or columns."""
UNBOUNDED: Final = 1 << 20
"""Value that replaces ALL in a configuration; larger than any supported pattern."""
HETEROGENEOUS: Final = ("bypass", "reorder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Parameters of the simulated machine. Bytes per cycle are those of one PE's port, the shared cache, and memory."""

    n_pes: int
    lanes: int  # 4-byte values per vector operation; a PE performs one operation per cycle
    l1_bytes: int  # per PE
    llc_bytes: int  # shared by all PEs
    port_bytes_per_cycle: float
    llc_bytes_per_cycle: float
    dram_bytes_per_cycle: float
    barrier_cycles: int
    tile_cycles: int
    clock_ghz: float

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            value, least = getattr(self, one.name), 1 if one.name in ("n_pes", "lanes") else 0
            is_positive = one.name.endswith(("per_cycle", "ghz"))
            number = int if one.type == "int" else (int, float)
            fits = isinstance(value, number) and not isinstance(value, bool) and value >= least
            if not fits or (is_positive and not value > 0):
                expected = "a number > 0" if is_positive else f"an integer >= {least}"
                raise RecordError.bad_field("accelerator", f"machine.{one.name}", value, expected=expected)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Setting of a tiled accelerator, which is one program: tile sizes, split of columns, and three switches."""

    p_row: int
    p_col: int
    split: int
    barrier: int
    bypass: int
    reorder: int

    def canonical(self, n_rows: int, n_cols: int, n_columns: int) -> Configuration:
        """Return the equivalent program on an n_rows x n_cols pattern: tiles clipped to it, no barrier for one panel.

        Configurations with equal canonical forms are the same program, and a list of the best five must not repeat it.
        """
        p_col = UNBOUNDED if self.p_col >= n_cols else self.p_col
        p_row = UNBOUNDED if self.p_row >= n_rows else self.p_row
        barrier = 0 if p_col == UNBOUNDED else self.barrier
        return Configuration(p_row, p_col, min(self.split, n_columns), barrier, self.bypass, self.reorder)

    @property
    def values(self) -> tuple[int, ...]:
        """Return the values in the order of PARAMETERS."""
        return (self.p_row, self.p_col, self.split, self.barrier, self.bypass, self.reorder)


@dataclass(frozen=True)
class Accelerator:
    """Target platform: all configurations of `grid` (parameter -> values), for `n_columns` dense columns.

    `machine` None: there is no simulation, and samples come from the user's own simulator or chip.
    """

    name: str
    grid: Mapping[str, tuple[int, ...]]
    default: Configuration
    sample_price: float = 1000.0  # DASH, appendix A.3
    n_columns: int = 64
    machine: Machine | None = None
    description: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if sorted(self.grid) != sorted(PARAMETERS):
            known = f"values of {', '.join(PARAMETERS)}"
            raise RecordError.bad_field("accelerator", "parameters", sorted(self.grid), expected=known)
        for name, values in self.grid.items():
            limits = (1, UNBOUNDED) if name in TILINGS else (0, 1)
            if not values or len(set(values)) != len(values) or not all(limits[0] <= v <= limits[1] for v in values):
                expected = f"distinct numbers in {limits[0]}..{limits[1]}" + (f" or {ALL!r}" * (name in TILINGS))
                raise RecordError.bad_field("accelerator", f"parameters.{name}", list(values), expected=expected)
        if self.default not in self.configurations:
            expected = "one of the values of every parameter"
            raise RecordError.bad_field("accelerator", "default", self.default.values, expected=expected)

    @computed_once
    def configurations(self) -> tuple[Configuration, ...]:
        """Return all configurations, the last parameter varying fastest."""
        return tuple(Configuration(*values) for values in itertools.product(*(self.grid[name] for name in PARAMETERS)))

    @property
    def grid_columns(self) -> tuple[tuple[int, ...], ...]:
        """Return the grid's values of each of PARAMETERS, in that order."""
        return tuple(self.grid[name] for name in PARAMETERS)

    def distinct(self, n_rows: int, n_cols: int) -> tuple[int, ...]:
        """Return, for each configuration, the number of the first equivalent one on an `n_rows` x `n_cols` pattern."""
        first: dict[Configuration, int] = {}
        numbered = enumerate(self.configurations)
        return tuple(first.setdefault(one.canonical(n_rows, n_cols, self.n_columns), at) for at, one in numbered)

    # -- as TargetSpace -----------------------------------------------------------------------------------------------

    def loop_order(self, configuration: Configuration) -> Sequence[str]:
        """Return the loops, outermost first; a barrier moves the loop over column panels outside (DASH section 3.3)."""
        outer = ("j2", "i2") if configuration.barrier else ("i2", "j2")
        return ("k2", *outer, "i1", "j1", "k1")

    def sizes(self, configuration: Configuration) -> tuple[int, int, int, int]:
        """Return the tile sizes (p_row, p_col, split limited to the columns, 1), in the order of SIZES."""
        return configuration.p_row, configuration.p_col, min(configuration.split, self.n_columns), 1

    def heterogeneous(self, configuration: Configuration) -> Category:
        """Return the values of the parameters that only this target has: (bypass, reorder)."""
        return tuple(getattr(configuration, name) for name in HETEROGENEOUS)

    def categories(self) -> tuple[Category, ...]:
        """Return all possible results of `heterogeneous`."""
        return tuple(itertools.product(*(self.grid[name] for name in HETEROGENEOUS)))

    def find(self, values: Mapping[str, int | str]) -> int:
        """Return the number of the configuration with these values; raise ScheduleError when there is none."""
        unknown = set(values) ^ set(PARAMETERS)
        if unknown:
            raise ScheduleError.not_in_space("parameters", sorted(values), ", ".join(PARAMETERS))
        wanted = Configuration(*(_size(values[name]) for name in PARAMETERS))
        for name, value in zip(PARAMETERS, wanted.values, strict=True):
            if value not in self.grid[name]:
                raise ScheduleError.not_in_space(name, values[name], self.grid[name])
        return self.configurations.index(wanted)

    def to_text(self, number: int) -> str:
        """Return configuration `number` as ``p_row=32 p_col=all ...``."""
        values = zip(PARAMETERS, self.configurations[number].values, strict=True)
        return " ".join(f"{name}={ALL if value == UNBOUNDED else value}" for name, value in values)


def read_accelerator(path: Path) -> Accelerator:
    """Return the accelerator that a JSON file describes; raise RecordError for invalid contents."""
    try:
        return accelerator_of(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError.broken(str(path), reason=f"no JSON: {error}") from None


def accelerator_of(facts: Any) -> Accelerator:  # Any: the contents of a JSON file
    """Build the accelerator from a file's contents; raise RecordError for missing, unknown or invalid fields."""
    if not isinstance(facts, dict):
        raise RecordError.bad_field("accelerator", "file", facts, expected="an object")
    known = {"name", "description", "machine", "parameters", "default", "sample_price", "n_columns"}
    strange = sorted(set(facts) - known)
    if strange:
        raise RecordError.bad_field("accelerator", strange[0], facts[strange[0]], expected=f"one of {sorted(known)}")
    if not isinstance(facts.get("name"), str) or not facts["name"]:
        raise RecordError.bad_field("accelerator", "name", facts.get("name"), expected="a text")
    for part in ("parameters", "default"):
        if not isinstance(facts.get(part), dict):
            raise RecordError.bad_field("accelerator", part, facts.get(part), expected="an object")
    for part in ("sample_price", "n_columns"):
        value = facts.get(part, 1)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise RecordError.bad_field("accelerator", part, value, expected="a number > 0")
    grid = {name: _sizes(name, values) for name, values in facts["parameters"].items()}
    default = [_of_default(facts["default"], name) for name in PARAMETERS]
    return Accelerator(
        name=facts["name"],
        grid=grid,
        default=Configuration(*default),
        sample_price=float(facts.get("sample_price", 1000)),
        n_columns=int(facts.get("n_columns", 64)),
        machine=None if facts.get("machine") is None else _machine(facts["machine"]),
        description=str(facts.get("description", "")),
    )


def _machine(facts: Any) -> Machine:
    names = {one.name for one in dataclasses.fields(Machine)}
    if not isinstance(facts, dict) or set(facts) != names:
        given = sorted(facts) if isinstance(facts, dict) else facts
        raise RecordError.bad_field(
            "accelerator", "machine", given, expected=f"an object of {', '.join(sorted(names))}"
        )
    return Machine(**facts)


def _sizes(name: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise RecordError.bad_field("accelerator", f"parameters.{name}", values, expected="a list")
    return tuple(_size(value) for value in values)


def _of_default(default: Mapping[str, Any], name: str) -> int:
    if name not in default:
        raise RecordError.bad_field("accelerator", "default", sorted(default), expected=f"values of {PARAMETERS}")
    return _size(default[name])


def _size(value: int | str) -> int:
    if value == ALL:
        return UNBOUNDED
    if isinstance(value, bool) or not isinstance(value, int):
        raise RecordError.bad_field("accelerator", "size", value, expected=f"an integer or {ALL!r}")
    return value


FOLDER: Final = Path(__file__).resolve().parent / "descriptions"

ACCELERATORS: Final[Mapping[str, str]] = {"spade": "spade.json", "small": "small.json", "wide": "wide.json"}
"""Name of a target -> file in FOLDER."""


def find_accelerator(name: str) -> Accelerator:
    """Return the shipped accelerator of that name, or the one that the JSON file with that path describes.

    Raises RecordError for invalid contents, and FileNotFoundError where there is no such name and no such file.
    """
    path = FOLDER / ACCELERATORS[name] if name in ACCELERATORS else Path(name)
    if not path.exists():
        hint = f"pass one of {', '.join(sorted(ACCELERATORS))}, or the path of a description (docs/transfer.md)"
        raise FileNotFoundError(f"there is no accelerator {name!r}\n  Hint: {hint}.")
    return read_accelerator(path)

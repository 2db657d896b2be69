"""Measurement files: one .npz file for each (pattern, operation), and merged files with many of them.

They hold columns and UTF-8 bytes, no pickles; docs/collecting.md specifies both layouts. Files are written atomically,
so that a collection can be killed at any moment and resumed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.collect.recipes import Recipe
from numpy.typing import NDArray

from autosparse.core.dtypes import Byte, Flag, NarrowReal, WideIndex, Word
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.errors import RecordError

FILE_SCHEMA: Final = 1
"""Version to increase when the meaning of a column changes."""

RETIRED: Final = "symmetric=1"
"""Setting of a format that schedules no longer have; its measurements are skipped (docs/design/tuning-policy.md)."""

MEASURED: Final = 0
CENSORED: Final = 1
REFUSED: Final = 2
"""Status of a schedule that could not run.

`MEASURED` raced to the end. `CENSORED` left early: its time, from few rounds, is hardly lower than recorded.
"""

SCHEDULE_COLUMNS: Final[Mapping[str, type[np.generic]]] = {
    "ratio": NarrowReal,  # median over rounds of (its time / the default kernel's); nan without a run
    "seconds": NarrowReal,  # median time of one product
    "fastest_s": NarrowReal,  # shortest time of one product
    "pack_s": NarrowReal,  # time to convert the operand
    "packed_bytes": WideIndex,
    "n_rounds": Byte,
    "status": Byte,
    "heat": Byte,  # row of the batch columns
}
BATCH_COLUMNS: Final[Mapping[str, type[np.generic]]] = {
    "default_s": NarrowReal,  # median time of the default kernel
    "default_fastest_s": NarrowReal,
    "others_load": NarrowReal,  # processors kept busy by other processes; nan when unknown
}


@dataclass(frozen=True, eq=False)
class Measurements:
    """Measurements of one operation on one pattern: facts, a row of SCHEDULE_COLUMNS per schedule, and batches."""

    facts: Mapping[str, Any]  # operation, recipe, shape, nnz, sparsity_hash, machine, ...: docs/collecting.md
    schedules: Sequence[str] = field(repr=False)  # SuperSchedule.to_json()
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    batches: Mapping[str, NDArray[Any]] = field(repr=False)

    @property
    def recipe(self) -> Recipe:
        """Return the recipe that makes the pattern."""
        return Recipe(**self.facts["recipe"])

    @property
    def target(self) -> Target:
        """Return the measured machine; properties missing from the facts are those of this machine."""
        said = self.facts["machine"]
        return dataclasses.replace(
            Target.host(), **{one.name: said[one.name] for one in dataclasses.fields(Target) if one.name in said}
        )

    @property
    def is_held_out(self) -> bool:
        """Return whether training may not use these measurements."""
        return self.recipe.is_held_out

    def super_schedules(self) -> list[SuperSchedule]:
        """Return `schedules` as SuperSchedule objects."""
        return [SuperSchedule.from_json(text) for text in self.schedules]

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.columns[column]


def _bytes(text: str) -> NDArray[Byte]:
    return np.frombuffer(text.encode(), dtype=Byte)


def _text(array: NDArray[Byte]) -> str:
    return array.tobytes().decode()


def write_whole(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an .npz file beside `path`, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with staged.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # one keyword of its own is a bool
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def write(path: Path, found: Measurements) -> None:
    """Write the measurements of one (pattern, operation)."""
    arrays: dict[str, NDArray[Any]] = {
        "facts": _bytes(json.dumps({"schema": FILE_SCHEMA, **found.facts}, sort_keys=True)),
        "schedules": _bytes("\n".join(found.schedules)),
    }
    arrays |= {name: np.asarray(found.columns[name], dtype) for name, dtype in SCHEDULE_COLUMNS.items()}
    arrays |= {name: np.asarray(found.batches[name], dtype) for name, dtype in BATCH_COLUMNS.items()}
    write_whole(path, arrays)


def read(path: Path) -> Measurements:
    """Read the result of `write`; raise RecordError for other contents or another schema."""
    with _opened(path) as file:
        facts = _facts(path, _text(file["facts"]))
        schedules = _lines(_text(file["schedules"]))
        columns = {name: file[name] for name in SCHEDULE_COLUMNS}
        batches = {name: file[name] for name in BATCH_COLUMNS}
    if any(column.shape != (len(schedules),) for column in columns.values()):
        raise RecordError(f"{path.name}: {len(schedules)} schedules, but a column of another length")
    return Measurements(facts, schedules, columns, batches)


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _opened(path: Path) -> Any:  # Any: NpzFile, whose members have no static types
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as err:
        raise RecordError(f"{path.name} holds no measurements: {err}") from err


def _facts(path: Path, text: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(text)
    schema = facts.pop("schema", None)
    if schema != FILE_SCHEMA:
        raise RecordError(f"{path.name} has schema {schema}, this version reads {FILE_SCHEMA}: collect again")
    return facts


# -- merged ---------------------------------------------------------------------------------------------------------


def merge(found: Iterable[Measurements], path: Path) -> int:
    """Write all `found` into one file, each distinct schedule and machine once; return the number of Measurements.

    Pairs are sorted by (operation, group, recipe), so that equal measurements give equal files.
    """
    pairs = sorted(found, key=lambda one: (one.facts["op"], one.recipe.group, one.recipe.to_json()))
    table: dict[str, int] = {}
    machines: dict[str, int] = {}
    lines, ids = [], []
    for one in pairs:
        ids.append([table.setdefault(text, len(table)) for text in one.schedules])
        machine = json.dumps(one.facts["machine"], sort_keys=True)
        facts = {**one.facts, "machine": machines.setdefault(machine, len(machines))}
        lines.append(json.dumps(facts, sort_keys=True, separators=(",", ":")))
    arrays: dict[str, NDArray[Any]] = {
        "facts": _bytes("\n".join([json.dumps({"schema": FILE_SCHEMA}), *lines])),
        "machines": _bytes("\n".join(machines)),
        "schedules": _bytes("\n".join(table)),
        "schedule_id": np.concatenate([np.zeros(0, Word), *(np.asarray(one, Word) for one in ids)]),
        "first": np.cumsum([0, *(len(one.schedules) for one in pairs)]),
        "first_heat": np.cumsum([0, *(one.batches["default_s"].size for one in pairs)]),
    }
    for columns, of in ((SCHEDULE_COLUMNS, "columns"), (BATCH_COLUMNS, "batches")):
        for name, dtype in columns.items():
            parts = [np.zeros(0, dtype), *(np.asarray(getattr(one, of)[name], dtype) for one in pairs)]
            arrays[name] = np.concatenate(parts)
    write_whole(path, arrays)
    return len(pairs)


def read_merged(path: Path) -> list[Measurements]:
    """Read the result of `merge`."""
    with _opened(path) as file:
        head, *lines = _lines(_text(file["facts"]))
        _facts(path, head)
        machines = [json.loads(text) for text in _lines(_text(file["machines"]))]
        table = _lines(_text(file["schedules"]))
        arrays = {
            name: file[name] for name in (*SCHEDULE_COLUMNS, *BATCH_COLUMNS, "schedule_id", "first", "first_heat")
        }
    found, is_known = [], np.array([RETIRED not in text for text in table], Flag)
    for at, line in enumerate(lines):
        facts = json.loads(line)
        mine = np.arange(*arrays["first"][at : at + 2].tolist())
        mine = mine[is_known[arrays["schedule_id"][mine]]]
        batches = slice(*arrays["first_heat"][at : at + 2].tolist())
        found.append(
            Measurements(
                {**facts, "machine": machines[facts["machine"]]},
                [table[number] for number in arrays["schedule_id"][mine].tolist()],
                {name: arrays[name][mine] for name in SCHEDULE_COLUMNS},
                {name: arrays[name][batches] for name in BATCH_COLUMNS},
            )
        )
    return found


def read_folder(folder: Path, op: str) -> Iterator[Measurements]:
    """Yield all measurements of one operation, ``<op>.npz`` (merged) and ``<op>/*.npz``, skipping unreadable files."""
    merged = folder / f"{op}.npz"
    if merged.exists():
        yield from read_merged(merged)
    for path in sorted((folder / op).glob("*.npz")):
        if path.name.startswith("."):
            continue
        try:
            yield read(path)
        except RecordError:
            continue

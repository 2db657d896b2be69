"""Training data from measurements: codes of schedules, their times, and the split into training and test cases."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.codes import code_rows
from autosparse.tuner.learned.training_domain import TrainingDomain
from autosparse.tuner.research.collect.files import CENSORED, REFUSED, Measurements, read_folder
from autosparse.tuner.research.collect.operations import OPS, taught_by
from autosparse.tuner.research.collect.recipes import Recipe, is_sealed
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.research.training.ranking import Ranking
from autosparse.tuner.space.joint import JointSpace
from autosparse.tuner.space.own import own_space
from autosparse.tuner.space.template import TemplateSpace
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowReal, ProgramCode
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target, processor_of
from autosparse.core.values import computed_once
from autosparse.errors import InputError, ScheduleError
from autosparse.scalar import SINGLE

VALIDATION_OF: Final = 5
"""Groups per validation group, which gives an 80:20 split (WACO section 4.1.3)."""
FEWEST_KNOWN: Final = 30
"""Minimum number of training patterns with a value, such as dtype float64, for predictions with it to be accepted."""
FEWEST: Final = 2
"""Minimum number of schedules of a case; a single one has no rank."""
LARGE_NNZ: Final = 100_000
UNSEEN: Final = ("validation", "held_out", "held_out_large")
"""Splits that rankings report; "held_out_large" has the real held-out patterns of at least LARGE_NNZ nonzeros."""


ON_HOST: Final = RunSetting(target=Target.host(), dtype=SINGLE.name, n_dense_cols=1, threads=Target.host().n_cores)


@dataclass(frozen=True, eq=False)
class TrainingCase:
    """Training data of one pattern: codes of schedules, and `ratios`, their times over the default kernel's."""

    recipe: Recipe
    codes: NDArray[ProgramCode] = field(repr=False)
    ratios: NDArray[NarrowReal] = field(repr=False)
    censored: NDArray[Flag] = field(repr=False)  # the ratio is a lower bound
    default_s: float
    nnz: int = 0
    setting: RunSetting = field(default_factory=lambda: ON_HOST, repr=False)
    operation: str = ""  # as in `Problem`
    schedules: Sequence[SuperSchedule] = field(default=(), repr=False)

    @property
    def is_large(self) -> bool:
        """Return whether this is a real pattern of at least LARGE_NNZ nonzeros, for which tuning matters most."""
        return self.recipe.kind == "real" and self.nnz >= LARGE_NNZ

    @property
    def split(self) -> str:
        """Return "train", "validation", "held_out" or "sealed"; training never reads the last two."""
        if self.recipe.is_held_out:
            return "sealed" if is_sealed(self.recipe.group) else "held_out"
        return "validation" if is_validation(self.recipe.group) else "train"


def is_validation(group: str) -> bool:
    """Return whether the patterns of `group` validate; by hash, so that more data never moves a group."""
    digest = hashlib.blake2b(group.encode(), digest_size=4, person=b"validation").digest()
    return int.from_bytes(digest, "little") % VALIDATION_OF == 0


@dataclass(frozen=True, eq=False)
class DataSet:
    """Training data of one operation: all cases, and the space that their codes belong to."""

    op: str
    dimension: int
    space: JointSpace
    cases: Sequence[TrainingCase]
    machines: Sequence[Mapping[str, Any]]
    n_outside: int  # number of schedules outside the space, which are left out
    seen: TrainingDomain = field(default_factory=TrainingDomain)

    @computed_once
    def digest(self) -> str:
        """Return 16 hex digits over patterns, codes and times; a run resumes only with the data it began with."""
        found = hashlib.blake2b(digest_size=8)
        for case in self.cases:
            for part in (case.recipe.to_json().encode(), case.codes, case.ratios, case.censored):
                found.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())
        return found.hexdigest()

    def of(self, split: str) -> list[TrainingCase]:
        """Return the cases of "train", "validation", "held_out" or "held_out_large" (a subset of "held_out")."""
        group = split.removesuffix("_large")
        return [case for case in self.cases if case.split == group and (group == split or case.is_large)]

    def about(self, validation: Ranking | None) -> dict[str, Any]:
        """Return what a model file states of its training data, and of its ranking of the split "validation"."""
        return {
            "machines": list(self.machines), "n_train": len(self.of("train")), "seen": self.seen.to_data(),
            "validation": asdict(validation) if validation else None,
        }  # fmt: skip


def read_data(folders: Path | Sequence[Path], op: str, *, spaces: str = "both") -> DataSet:
    """Return the training data of `op` in `folders`, perhaps of several machines; raise InputError without any.

    `spaces`: "own", "waco" or "both", the spaces in which schedules get codes.
    """
    folders = [folders] if isinstance(folders, Path) else list(folders)
    names = taught_by(op) or (op,)
    measured = itertools.chain.from_iterable(read_folder(folder, name) for folder in folders for name in names)
    found = [one for one in measured if np.count_nonzero(one["status"] != REFUSED) >= FEWEST]
    if not found:
        raise InputError.refused(
            f"there are no measurements of {op!r} to train on",
            given=f"the folder {', '.join(repr(str(folder)) for folder in folders)}",
            hint=f"python -m autosparse collect --out {folders[0]} --ops {op}",
        )
    texts = sorted({text for one in found for text in one.schedules})
    schedules = {text: SuperSchedule.from_json(text) for text in texts}
    joint = joint_space(op, schedules.values(), spaces=spaces)
    codes = _codes(joint, schedules)
    cases = [case for one in found if (case := _case(one, codes, schedules)) is not None]
    machines = list({str(one.facts["machine"]): one.facts["machine"] for one in found}.values())
    seen = measured_domain(one.facts for one in found)
    return DataSet(op, found[0].recipe.n_dims, joint, cases, machines, len(schedules) - len(codes), seen)


def measured_domain(facts: Iterable[Mapping[str, Any]], *, fewest: int = FEWEST_KNOWN) -> TrainingDomain:
    """Return the domain of a model trained on measurements with these facts.

    A value that fewer than `fewest` patterns were measured with is left out.
    """
    rows = [
        (one["dtype"], (m := one["machine"])["isa"], int(one["n_dense_cols"]), int(one["threads"]), processor_of(m))
        for one in facts
        if {"dtype", "machine", "n_dense_cols", "threads"} <= one.keys() and "isa" in one["machine"]
    ]
    names = [one.name for one in fields(TrainingDomain)]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    known = (frozenset(value for value, n in Counter(one).items() if n >= fewest) for one in columns)
    return TrainingDomain(**dict(zip(names, known, strict=True)))


def joint_space(op: str, schedules: Iterable[SuperSchedule], *, spaces: str = "both") -> JointSpace:
    """Return this library's space, WACO's, or both, for the algorithm of `op` and the thread counts of `schedules`."""
    algorithm = re.sub(r"\d+$", "", op)
    threads = tuple(sorted({one.threads for one in schedules} - {0}))
    members: list[TemplateSpace] = []
    if spaces in ("own", "both"):
        members.append(own_space(algorithm, threads=(0, *threads)))
    if spaces in ("waco", "both"):
        members.append(waco_space(algorithm, threads=_two(threads)))
    return JointSpace(tuple(members))


def _two(threads: Sequence[int]) -> tuple[int, int]:
    """Return the two largest of `threads`, ascending, as WACO's space requires exactly two thread counts."""
    *_, less, most = (1, 2, *threads)
    return less, most


def _codes(space: JointSpace, schedules: Mapping[str, SuperSchedule]) -> dict[str, NDArray[ProgramCode]]:
    """Return the row of `code_rows` of each schedule that is in `space`."""
    found = {}
    for text, schedule in schedules.items():
        try:
            found[text] = space.encode(schedule)
        except ScheduleError:
            continue
    rows = code_rows(list(found.values()), space.parameters)
    return dict(zip(found, rows, strict=True))


def _case(
    one: Measurements, codes: Mapping[str, NDArray[ProgramCode]], schedules: Mapping[str, SuperSchedule]
) -> TrainingCase | None:
    status, ratios = one["status"], one["ratio"]
    kept = [
        at
        for at, text in enumerate(one.schedules)
        if text in codes and status[at] != REFUSED and np.isfinite(ratios[at]) and ratios[at] > 0
    ]
    if len(kept) < FEWEST:
        return None
    rows = np.stack([codes[one.schedules[at]] for at in kept])
    default_s = float(np.nanmedian(one.batches["default_s"]))
    is_censored = status[kept] == CENSORED
    row = OPS[one.facts["op"]]
    return TrainingCase(
        one.recipe, rows, ratios[kept], is_censored, default_s, int(one.facts["nnz"]),
        RunSetting.of_measurements(one.facts, one.target, n_dense_cols=row.n_dense_cols), row.operation,
        [schedules[one.schedules[at]] for at in kept],
    )  # fmt: skip

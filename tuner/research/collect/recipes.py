"""Recipes: patterns as values small enough to be stored with every measurement.

A recipe names a real pattern of a folder, a resized or repeated one, or a generator family and seed. Equal recipes make
equal patterns. Patterns of one origin share a `group`: data is split between groups, never within one. Resizing (WACO
section 4.1.3) and repetition preserve the structure of a pattern.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.generators.base import FAMILIES, GENERATOR_VERSION, generate
from autosparse.tuner.research.generators.coordinates import Coordinates


def resized(source: Coordinates, *, nnz: int, rng: np.random.Generator) -> Coordinates:
    """Resize `source` to another grid with at most about `nnz` entries: position c of n becomes ``floor(c * m / n)``.

    WACO trains on matrices "resized arbitrarily" (section 4.1.3), like images. Every extent gets its own factor in 1/4
    .. 2 (log-uniform; half of the time one factor for all). Coinciding entries merge. Shrinking fills rows and brings
    columns together, growing spreads them.
    """
    n_dims = len(source.shape)
    factors = 2.0 ** rng.uniform(-2.0, 1.0, n_dims)
    if rng.random() < 0.5:
        factors[:] = factors[0]
    # If too many entries remain, shrink all extents alike: entries decrease about as fast as extents when rows keep
    # their fill.
    factors *= min(1.0, nnz / max(1, source.nnz))
    shape = [max(1, int(extent * factor)) for extent, factor in zip(source.shape, factors, strict=True)]
    moved = [column * new // old for column, new, old in zip(source.indices, shape, source.shape, strict=True)]
    return Coordinates.of(shape, moved)


def repeated(source: Coordinates, *, nnz: int, rng: np.random.Generator) -> Coordinates:
    """Place about ``nnz / source.nnz`` copies of `source` on the diagonal, with up to a tenth of their entries coupled.

    Most collections consist of small real patterns; repetition makes them large enough for tuning to pay, without
    changing their rows. A coupled entry keeps its column within a copy and moves to a neighbouring copy. Each copy
    loses up to 2 % of its entries, at random.
    """
    n_copies = max(1, round(nnz / max(1, source.nnz)))
    coupled, lost = float(rng.choice([0.0, 0.01, 0.1])), float(rng.choice([0.0, 0.02]))
    copy = np.repeat(np.arange(n_copies), source.nnz)
    column_copy = copy + (rng.random(copy.size) < coupled) * rng.choice([-1, 1], copy.size)
    moved = [np.tile(column, n_copies) for column in source.indices]
    places = [copy, *[np.clip(column_copy, 0, n_copies - 1)] * (len(moved) - 1)]
    kept = rng.random(copy.size) >= lost
    indices = [(at * extent + one)[kept] for at, extent, one in zip(places, source.shape, moved, strict=True)]
    return Coordinates.of([extent * n_copies for extent in source.shape], indices)


KINDS: Final = ("real", "resized", "repeated", "generated")
INDEX_NAME: Final = "index.csv"
MIN_REAL_NNZ: Final = 5_000
"""Minimum nonzeros of real patterns; smaller ones run in microseconds and are measured only resized or repeated."""
NNZ_RANGE: Final = (20_000, 3_000_000)
"""Range of the nonzeros of synthetic and augmented patterns, drawn log-uniformly."""
MAX_NNZ: Final = 10_000_000
"""Maximum nonzeros of a training matrix, as in WACO (section 4.1.3)."""
HELD_OUT_OF: Final = 3
SEALED_OF: Final = 2
"""Held-out groups per sealed group."""


def is_held_out(group: str) -> bool:
    """Return whether training may not use the patterns of `group`; true for about a third of all groups, by a hash."""
    return hashlib.blake2b(group.encode(), digest_size=4).digest()[0] % HELD_OUT_OF == 0


def is_sealed(group: str) -> bool:
    """Return whether `group` is held out and sealed: no choice may depend on it (benchmarks/sealed.py opens it)."""
    digest = hashlib.blake2b(group.encode(), digest_size=4, person=b"sealed").digest()
    return is_held_out(group) and digest[0] % SEALED_OF == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Instructions that make one pattern."""

    kind: str  # one of KINDS
    source: str  # file name in the folder of matrices, or name of a generator family
    group: str
    n_dims: int = 2
    nnz: int = 0  # target number of nonzeros of synthetic and augmented patterns
    seed: int = 0

    def digest(self) -> str:
        """Return 12 hex digits that identify this recipe in file names."""
        version = GENERATOR_VERSION if self.kind == "generated" else 0
        text = json.dumps([version, dataclasses.asdict(self)], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    def to_json(self) -> str:
        """Return canonical text; `from_json` inverts it."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Read the result of `to_json`."""
        values: dict[str, Any] = json.loads(text)
        return cls(**values)

    @property
    def is_held_out(self) -> bool:
        """Return whether training may not use this pattern; applies to real groups and patterns derived from them."""
        return self.kind != "generated" and is_held_out(self.group)

    def make(self, folder: Path | None) -> Coordinates:
        """Return the pattern; raise FileNotFoundError when its file is not in `folder`."""
        if self.kind == "generated":
            return generate(self.source, nnz=self.nnz, seed=self.seed)
        if folder is None:
            raise FileNotFoundError(f"{self.source} is needed: name the folder of matrices that holds it")
        found = read_coordinates(folder / self.source)
        if self.kind == "real":
            return found
        rng = np.random.default_rng(self.seed)
        change = resized if self.kind == "resized" else repeated
        return change(found, nnz=self.nnz, rng=rng)


def read_coordinates(path: Path) -> Coordinates:
    """Read a pattern from an .npz file: SciPy's (`save_npz`), or a tensor's ``coords`` (n_dims, nnz) with ``shape``."""
    import scipy.sparse

    with np.load(path, allow_pickle=False) as file:
        if "coords" in file:
            return Coordinates.of(file["shape"].tolist(), list(file["coords"]))
    found = scipy.sparse.load_npz(path).tocoo()
    return Coordinates.of(found.shape, (found.row, found.col))


# -- selection and order ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RealFile:
    """Matrix or tensor file in a folder: its name, group of origin, and size."""

    name: str
    group: str
    nnz: int
    n_dims: int


def real_files(folder: Path) -> list[RealFile]:
    """Return the .npz files of `folder` by name; groups, sizes and dimensions from index.csv, or from the files."""
    rows: dict[str, Mapping[str, str]] = {}
    index = folder / INDEX_NAME
    if index.exists():
        with index.open(encoding="utf-8", newline="") as lines:
            rows = {row["name"]: row for row in csv.DictReader(lines)}
    return [_real_file(path, rows.get(path.stem)) for path in sorted(folder.glob("*.npz"))]


def _real_file(path: Path, row: Mapping[str, str] | None) -> RealFile:
    if row is None:
        with np.load(path, allow_pickle=False) as file:
            is_tensor = "coords" in file
            nnz = file["coords"].shape[1] if is_tensor else file["indices" if "indices" in file else "row"].size
            return RealFile(path.name, path.stem, int(nnz), int(file["shape"].size) if "shape" in file else 2)
    n_dims = row["rows"].count("x") + 1 if row.get("is_tensor") == "1" else 2
    return RealFile(path.name, row.get("group") or path.stem, int(row["nnz"]), n_dims)


def recipes(
    folder: Path | None, *, n_dims: int, seed: int, min_nnz: int = MIN_REAL_NNZ, families: Sequence[str] = ()
) -> Iterator[Recipe]:
    """Yield endlessly real patterns, derived and generated ones in turn; deterministic for equal arguments.

    Real patterns have at least `min_nnz` nonzeros; when all were yielded, the others continue alone. With `families`,
    only generated patterns of those families are yielded, and none if their number of dimensions differs.
    """
    rng = np.random.default_rng([seed, n_dims])
    files = [one for one in real_files(folder) if one.n_dims == n_dims] if folder and not families else []
    waiting = [one for one in files if min_nnz <= one.nnz <= MAX_NNZ]
    waiting = [waiting[at] for at in rng.permutation(len(waiting))]
    generated = [row.name for row in FAMILIES.values() if row.n_dims == n_dims and row.name in (families or FAMILIES)]
    turns: list[str] = []
    while generated:
        if waiting:
            one = waiting.pop()
            yield Recipe(kind="real", source=one.name, group=one.group, n_dims=n_dims)
        if files:
            yield _made_of(files, rng)
        # Every family has a turn before one has its second, so that short collections cover all of them.
        if not turns:
            turns = [generated[at] for at in rng.permutation(len(generated))]
        yield _generated(turns.pop(), n_dims, rng)


def recipes_in_turn(
    folder: Path | None, dims: Iterable[int], *, seed: int, min_nnz: int = MIN_REAL_NNZ, families: Sequence[str] = ()
) -> Iterator[Recipe]:
    """Yield `recipes` of each number of dimensions in `dims`, in turn, endlessly; skip those without `families`."""
    known = {row.n_dims for row in FAMILIES.values() if row.name in (families or FAMILIES)}
    streams = [
        recipes(folder, n_dims=n_dims, seed=seed, min_nnz=min_nnz, families=families)
        for n_dims in sorted(known.intersection(dims))
    ]
    for turn in itertools.cycle(streams):
        yield next(turn)


def _made_of(files: Sequence[RealFile], rng: np.random.Generator) -> Recipe:
    """Return a recipe that resizes or repeats a random one of `files`; groups, not files, are equally probable."""
    groups = sorted({one.group for one in files})
    group = groups[int(rng.integers(len(groups)))]
    members = [one for one in files if one.group == group]
    one = members[int(rng.integers(len(members)))]
    nnz = _wanted_nnz(rng)
    # Resizing cannot add entries, and repetition cannot remove any.
    kind = "resized" if one.nnz > nnz or (one.nnz >= NNZ_RANGE[0] and rng.random() < 0.5) else "repeated"
    return Recipe(
        kind=kind, source=one.name, group=one.group, n_dims=one.n_dims, nnz=nnz, seed=int(rng.integers(1 << 40))
    )


def _generated(family: str, n_dims: int, rng: np.random.Generator) -> Recipe:
    seed = int(rng.integers(1 << 40))
    group = f"generated:{family}:{seed}"
    return Recipe(kind="generated", source=family, group=group, n_dims=n_dims, nnz=_wanted_nnz(rng), seed=seed)


def _wanted_nnz(rng: np.random.Generator) -> int:
    low, high = np.log(NNZ_RANGE)
    return int(np.exp(rng.uniform(low, high)))

"""Recipes: which patterns are measured, as values small enough to be kept beside every measurement.

A recipe names a real pattern of a folder, a real one resized or repeated, or a generator's family and seed; the same
recipe always makes the same pattern. Patterns of one origin share a `group`: data is split by group, never within one.
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
from autosparse.tuner.collect.augment import repeated, resized
from autosparse.tuner.generators.base import FAMILIES, GENERATOR_VERSION, generate
from autosparse.tuner.generators.coordinates import Coordinates

KINDS: Final = ("real", "resized", "repeated", "generated")
INDEX_NAME: Final = "index.csv"
MIN_REAL_NNZ: Final = 5_000
"""Smaller real patterns run in microseconds: measured only resized or repeated."""
NNZ_RANGE: Final = (20_000, 3_000_000)
"""Of patterns that are made: log-uniform."""
MAX_NNZ: Final = 10_000_000
"""WACO's bound on training matrices (§4.1.3)."""
HELD_OUT_OF: Final = 3
SEALED_OF: Final = 2
"""One held-out group in so many is sealed."""


def is_held_out(group: str) -> bool:
    """Whether `group` belongs to the third of all groups that no training may see: by its hash, fixed for ever."""
    return hashlib.blake2b(group.encode(), digest_size=4).digest()[0] % HELD_OUT_OF == 0


def is_sealed(group: str) -> bool:
    """Whether the held-out `group` is sealed: nothing at all is chosen by it (benchmarks/sealed.py opens it)."""
    digest = hashlib.blake2b(group.encode(), digest_size=4, person=b"sealed").digest()
    return is_held_out(group) and digest[0] % SEALED_OF == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to make one pattern."""

    kind: str  # one of KINDS
    source: str  # file name in the folder of matrices, or name of a generator's family
    group: str
    n_dims: int = 2
    nnz: int = 0  # wanted, of patterns that are made
    seed: int = 0

    def digest(self) -> str:
        """12 hex digits that name this recipe in file names."""
        version = GENERATOR_VERSION if self.kind == "generated" else 0
        text = json.dumps([version, dataclasses.asdict(self)], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    def to_json(self) -> str:
        """Canonical text; `from_json` inverts it."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Read `to_json` text."""
        values: dict[str, Any] = json.loads(text)
        return cls(**values)

    @property
    def is_held_out(self) -> bool:
        """Whether no training may see this pattern: real groups only, and what was made of them."""
        return self.kind != "generated" and is_held_out(self.group)

    def make(self, folder: Path | None) -> Coordinates:
        """The pattern. FileNotFoundError when it is made of a file that `folder` does not have."""
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
    """The pattern in an .npz file: SciPy's (`save_npz`), or a tensor's ``coords`` (n_dims, nnz) with ``shape``."""
    import scipy.sparse

    with np.load(path, allow_pickle=False) as file:
        if "coords" in file:
            return Coordinates.of(file["shape"].tolist(), list(file["coords"]))
    found = scipy.sparse.load_npz(path).tocoo()
    return Coordinates.of(found.shape, (found.row, found.col))


# -- which, and in what order ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RealFile:
    """A row of a folder's index."""

    name: str
    group: str
    nnz: int
    n_dims: int


def real_files(folder: Path) -> list[RealFile]:
    """The .npz files of `folder` by name; groups, sizes and dimensions from its index.csv, else from the files."""
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
    """Endless: real patterns, patterns made of them and generated ones in turn; the same for the same arguments.

    Real ones have at least `min_nnz` nonzeros; once every one was named, the made ones go on alone. With `families`
    generated ones of those only; none when they are all of another number of dimensions.
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
        # Every family once before one has its second turn: short collections know all of them.
        if not turns:
            turns = [generated[at] for at in rng.permutation(len(generated))]
        yield _generated(turns.pop(), n_dims, rng)


def recipes_in_turn(
    folder: Path | None, dims: Iterable[int], *, seed: int, min_nnz: int = MIN_REAL_NNZ, families: Sequence[str] = ()
) -> Iterator[Recipe]:
    """Endless: `recipes` of each number of dimensions in `dims`, in turn; without any where `families` have none."""
    known = {row.n_dims for row in FAMILIES.values() if row.name in (families or FAMILIES)}
    streams = [
        recipes(folder, n_dims=n_dims, seed=seed, min_nnz=min_nnz, families=families)
        for n_dims in sorted(known.intersection(dims))
    ]
    for turn in itertools.cycle(streams):
        yield next(turn)


def _made_of(files: Sequence[RealFile], rng: np.random.Generator) -> Recipe:
    """One of `files`, resized or repeated. Groups have equal chances, not files."""
    groups = sorted({one.group for one in files})
    group = groups[int(rng.integers(len(groups)))]
    members = [one for one in files if one.group == group]
    one = members[int(rng.integers(len(members)))]
    nnz = _wanted_nnz(rng)
    # Shrinking cannot make entries; copies cannot be fewer than one.
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

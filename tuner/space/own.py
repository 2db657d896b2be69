"""This library's schedule space as a template: ``own_space`` of "spmv", "spmm", "sddmm" or "mttkrp".

The families are rows of data, from `tuner.space.families` and, for SDDMM and MTTKRP, from this module. The parameters
of a schedule are its family, the sizes of the family, the column tile, the index width, and the axes of the compute
schedule. A size that a family does not have is 0 in the code. The runtime's precompiled loops, over CSR with or without
reordered rows, are encoded by the tile RUNTIME_TILE, as the trained models expect. `READY_AHEAD` lists their prefetch
distances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from autosparse.tuner.space import families as space
from autosparse.tuner.space.algorithms import algorithm_named
from autosparse.tuner.space.families import FormatFamily
from autosparse.tuner.space.template import Categorical, Parameter, TemplateSpace, Values

from autosparse.core.formats import Format
from autosparse.core.schedule import GENERATED, RUNTIME, RUNTIME_TILE, SuperSchedule
from autosparse.core.target import Target
from autosparse.errors import ScheduleError
from autosparse.ops.base import ProductKind

SIZE_NAMES: Final = {"r": "rows", "c": "columns", "k": "panel", "sigma": "sigma", "order": "row_order"}
"""Parameter name of each size of a family."""
ABSENT: Final = 0
"""Value of a size that a family does not have."""
NORMAL_CHUNK: Final = 32
"""Chunk value in the code of schedules without dynamic chunks."""
READY_FAMILIES: Final = ("csr", "csr-ordered")
"""Families that the runtime's precompiled loops implement."""
READY_SHARE: Final = 0.1
"""Fraction of random draws that are precompiled loops of the runtime."""

SDDMM_FAMILIES: Final = (
    FormatFamily("csr", "i1:U,k1:C", (), ("i1", "k1", "j1"), "i1", ({},)),
    FormatFamily("dcsr", "i1:C,k1:C", (), ("i1", "k1", "j1"), "i1", ({},)),
    FormatFamily(
        "ucu", "i1:U,k1:C,i0:U", ("i={r}",), ("i1", "k1", "i0", "j1"), "i1", tuple({"r": r} for r in (2, 4, 8)),
    ),
    FormatFamily(
        "bcsr", "i1:U,k1:C,i0:U,k0:U", ("i={r}", "k={c}"), ("i1", "k1", "i0", "k0", "j1"), "i1",
        tuple({"r": r, "c": c} for r in (2, 4) for c in (2, 4)),
    ),
    FormatFamily(
        "k-panels", "k1:U,i1:U,k0:C", ("k={k}",), ("k1", "i1", "k0", "j1"), "i1",
        tuple({"k": k} for k in (1024, 4096, 16384, 32768)),
    ),
    FormatFamily(
        "csr-ordered", "i1:U,k1:C", ("rows={order}",), ("i1", "k1", "j1"), "i1", ({"order": "first"}, {"order": "rcm"}),
    ),
)  # fmt: skip
"""Format families for O[i,k] = A[i,k] * X[i,j] Y[k,j]."""

MTTKRP_FAMILIES: Final = (
    FormatFamily("csf", "i1:U,k1:C,l1:C", (), ("i1", "j1", "k1", "l1"), "i1", ({},)),
    FormatFamily("dcsf", "i1:C,k1:C,l1:C", (), ("i1", "j1", "k1", "l1"), "i1", ({},)),
    FormatFamily("csf-ilk", "i1:U,l1:C,k1:C", (), ("i1", "j1", "l1", "k1"), "i1", ({},)),
    FormatFamily("dcsf-ilk", "i1:C,l1:C,k1:C", (), ("i1", "j1", "l1", "k1"), "i1", ({},)),
    # Entry by entry with all coordinates, for tensors in which few entries share a node above the leaves.
    FormatFamily("flat", "i1:U,k1:N,l1:Q", (), ("i1", "j1", "k1", "l1"), "i1", ({},)),
    FormatFamily("dflat", "i1:C,k1:N,l1:Q", (), ("i1", "j1", "k1", "l1"), "i1", ({},)),
    FormatFamily("flat-ilk", "i1:U,l1:N,k1:Q", (), ("i1", "j1", "l1", "k1"), "i1", ({},)),
    FormatFamily("dflat-ilk", "i1:C,l1:N,k1:Q", (), ("i1", "j1", "l1", "k1"), "i1", ({},)),
    FormatFamily(
        "csf-blocks", "i1:U,k1:C,l1:C,l0:U", ("l={c}",), ("i1", "j1", "k1", "l1", "l0"), "i1", ({"c": 2}, {"c": 4}),
    ),
    FormatFamily(
        "l-panels", "l1:U,i1:C,k1:C,l0:C", ("l={k}",), ("l1", "i1", "j1", "k1", "l0"), "i1",
        tuple({"k": k} for k in (1024, 4096, 16384, 32768)),
    ),
)  # fmt: skip
"""Format families for M[i,j] += T[i,k,l] * B[k,j] * C[l,j]."""

RETIRED: Final = FormatFamily("symmetric", "i1:U,k1:C", (), ("i1", "j1", "k1"), "i1", ())
"""Family without members: trained models have a code for storage of one triangle of a symmetric A (SpMV)."""

TABLES: Final[Mapping[ProductKind, tuple[Sequence[FormatFamily], tuple[int, ...]]]] = {
    "vector": ((*space.FAMILIES.values(), RETIRED), (0,)),
    "columns": (
        tuple(row for row in (*space.FAMILIES.values(), *space.ORDERED_FAMILIES.values()) if "j1" in row.loops),
        (*space.TILES, RUNTIME_TILE),
    ),
    "sampled": (SDDMM_FAMILIES, (*space.TILES, RUNTIME_TILE)),
    "fibers": (MTTKRP_FAMILIES, (4, *space.TILES)),
}
"""Product kind -> its format families, and the tiles of the dense index (0: no dense index)."""


class Axes(NamedTuple):
    """Values of the parameters of one family: unroll factors, prefetch distances in entries and in slots of a slice."""

    unroll: tuple[int, ...]
    prefetch: tuple[int, ...]
    slot_prefetch: tuple[int, ...] = ()


AXES: Final[Mapping[ProductKind, Axes]] = {
    "vector": Axes(space.UNROLL, space.PREFETCH, space.SLOT_PREFETCH),
    "columns": Axes(space.UNROLL, space.PREFETCH, space.SLOT_PREFETCH),
    "sampled": Axes((1, 2, 4, 8), (0, 2, 4, 8, 16)),
    "fibers": Axes((1, 2, 4), (0, 4, 8, 16)),
}
"""Product kind -> axes, shared by the template space and the search of the operation."""


class OwnSpace(TemplateSpace):
    """This library's space of schedules of one algorithm: all members of its format families."""

    def __init__(self, algorithm: str, *, threads: tuple[int, ...]) -> None:
        self.operation, kind = algorithm_named(algorithm)
        families, tiles = TABLES[kind]
        # The runtime's precompiled loops always use the thread count that the caller allows.
        self._tiles = tuple(tile for tile in tiles if tile != RUNTIME_TILE or 0 in threads)
        self.name = f"own-{algorithm}"
        self._axes = AXES[kind]
        self.families = {row.name: row for row in families}
        sizes = {
            name: (ABSENT, *sorted({size[key] for row in families for size in row.sizes if key in size}))
            for key, name in SIZE_NAMES.items()
        }
        self.parameters: tuple[Parameter, ...] = (
            Categorical("family", tuple(self.families), is_ladder=False),
            *(
                Categorical(name, values, is_ladder=name != "row_order")
                for name, values in sizes.items()
                if len(values) > 1
            ),
            Categorical("tile", self._tiles),
            Categorical("bits", (16, 32)),
            Categorical("unroll", self._axes.unroll),
            Categorical("prefetch", self._prefetches()),
            Categorical("partition", ("nnz", "dynamic"), is_ladder=False),
            Categorical("parchunk", space.CHUNKS),
            Categorical("parnum", threads),
        )

    @property
    def has_ready(self) -> bool:
        """Return whether the runtime's precompiled loops are members."""
        return RUNTIME_TILE in self._tiles

    def _prefetches(self) -> tuple[int, ...]:
        ready = space.READY_AHEAD if self.has_ready else ()
        return tuple(sorted({*self._axes.prefetch, *self._axes.slot_prefetch, *ready}))

    def draw(self, rng: np.random.Generator) -> Values:
        """Draw a random point: a family uniformly, then sizes and axes; SELL families draw from axes that suit them."""
        values: dict[str, Any] = {parameter.name: parameter.draw(rng) for parameter in self.parameters}
        if self.has_ready:
            if rng.random() < READY_SHARE:
                return self._drawn_ready(values, rng)
            values["tile"] = self._tiles[int(rng.integers(len(self._tiles) - 1))]  # the last tile is RUNTIME_TILE
        row = self.families[values["family"]]
        size = row.sizes[int(rng.integers(len(row.sizes)))] if row.sizes else {}
        values |= {name: size.get(key, ABSENT) for key, name in SIZE_NAMES.items()}
        if "sigma" in size:
            values["bits"] = 16
            values["unroll"] = int(rng.choice(space.UNROLL[:3]))
            values["prefetch"] = int(rng.choice(space.SLOT_PREFETCH))
        else:
            values["prefetch"] = int(rng.choice(self._axes.prefetch))
        return values

    def _drawn_ready(self, values: dict[str, Any], rng: np.random.Generator) -> Values:
        """Return `values` with the parameters of a random precompiled loop: row order and prefetch distance."""
        row = self.families[str(rng.choice(READY_FAMILIES))]
        size = row.sizes[int(rng.integers(len(row.sizes)))]
        ahead = [n for n in space.READY_AHEAD if size or n]  # without either it would be the default kernel
        values |= {name: size.get(key, ABSENT) for key, name in SIZE_NAMES.items()}
        fixed = {"tile": RUNTIME_TILE, "bits": 32, "unroll": 1, "partition": "nnz", "parnum": 0}
        return {**values, **fixed, "family": row.name, "prefetch": int(rng.choice(ahead))}

    def schedule_of(self, values: Values) -> SuperSchedule:
        """Return the schedule with these parameter values; ScheduleError if sizes or a runtime loop do not exist."""
        row = self.families[values["family"]]
        size = {key: values[name] for key, name in SIZE_NAMES.items() if values.get(name)}
        if size not in row.sizes:
            raise ScheduleError.not_in_space(f"sizes of {row.name}", size, row.sizes)
        is_ready = values["tile"] == RUNTIME_TILE
        if is_ready and not _is_ready(values):
            raise ScheduleError.not_in_space("loop of the runtime", dict(values), READY_FAMILIES)
        is_dynamic = values["partition"] == "dynamic"
        return space.member(
            self.operation,
            row,
            size,
            tile=0 if is_ready else values["tile"],
            index_bits=values["bits"],
            unroll=values["unroll"],
            prefetch=values["prefetch"],
            partition=values["partition"],
            chunk=values["parchunk"] if is_dynamic else NORMAL_CHUNK,
            threads=values["parnum"],
            implementation=RUNTIME if is_ready else GENERATED,
        )

    def values_of(self, schedule: SuperSchedule) -> Values:
        """Return the parameter values of `schedule`; its family is found by the levels of its format."""
        fmt = schedule.format
        row, found = self._member(fmt)
        return {
            "family": row.name,
            **{name: found.get(key, ABSENT) for key, name in SIZE_NAMES.items()},
            "tile": RUNTIME_TILE if schedule.is_precompiled else schedule.dense_split("j"),
            "bits": fmt.index_bits,
            "unroll": schedule.unroll,
            "prefetch": schedule.prefetch,
            "partition": schedule.partition,
            "parchunk": schedule.chunk,
            "parnum": schedule.threads,
        }

    def _member(self, fmt: Format) -> tuple[FormatFamily, Mapping[str, Any]]:
        """Return the family and the sizes that give the format `fmt`; raise ScheduleError if there are none."""
        levels = ",".join(map(str, fmt.levels))
        for row in self.families.values():
            if row.levels == levels:
                for size in row.sizes:
                    if space.format_of(row, size, fmt.index_bits) == fmt:
                        return row, size
        raise ScheduleError.not_in_space("format", str(fmt), tuple(self.families))


def _is_ready(values: Values) -> bool:
    """Return whether the runtime has a loop for `values` that differs from the default kernel."""
    return (
        values["family"] in READY_FAMILIES
        and (values["bits"], values["unroll"], values["partition"], values["parnum"]) == (32, 1, "nnz", 0)
        and values["prefetch"] in space.READY_AHEAD
        and bool(values["prefetch"] or values.get("row_order"))
    )


def own_space(algorithm: str, *, threads: tuple[int, ...] | None = None) -> OwnSpace:
    """Return this library's space of an algorithm; `threads` defaults to 0 (any) and powers of two below the cores."""
    if threads is None:
        n_cores = Target.host().n_cores
        threads = (0, *(1 << bit for bit in range(n_cores.bit_length()) if 1 << bit < n_cores))
    return OwnSpace(algorithm, threads=threads)

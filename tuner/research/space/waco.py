"""Schedule space of the WACO paper: ``waco_space("spmv" | "spmm" | "sddmm" | "mttkrp")`` (§4.1.2, Table 3, Fig. 10).

Every index is split once. The parameters have the names of the published weights where those name them:

==================  ==============================  =========================================================
``isplit``, ...     1, 2, 4, ..., 32768             split size of each index of A; of the dense index j see below
``order``           permutation of all coordinates  loop order
``paridx``          outer and inner coordinates     parallel loop: of the results' indices
``parnum``          half and all of the cores       threads (the paper's machine: 24 and 48)
``parchunk``        1, 2, 4, ..., 256               iterations per chunk (OpenMP's dynamic)
``level_order``     permutation of A's coordinates  A.reorder
``formati1``, ...   C, U                            level format of each coordinate of A
==================  ==============================  =========================================================

Dense operands are row-major, as in the paper's evaluation (§5.1): C.reorder and B.reorder are not parameters. The
columns j that the paper fixed at 256 (16 for MTTKRP) are split by 1, ..., 128 (16). j0 is not a parallel
loop: it runs inside vector registers. In SDDMM, the paper's j is k here and its k is j.

The published data were drawn from a part of this space: loops concordant with the levels, outer before inner
coordinates, j0 innermost. `WacoSpace.concordant` is the probability of such draws; the others are uniform.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from autosparse.tuner.space.algorithms import algorithm_named
from autosparse.tuner.space.template import Categorical, Parameter, Permutation, TemplateSpace, Values

from autosparse.core.formats import Format, Level, LevelKind
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.core.values import dataclass
from autosparse.ops.base import ProductKind

SPLITS: Final = tuple(1 << power for power in range(16))
CHUNKS: Final = tuple(1 << power for power in range(9))


@dataclass(frozen=True, slots=True)
class Template:
    """Differences between the algorithms: a row of `TEMPLATES`."""

    sparse: str  # indices of A
    most_columns: int  # largest tile of the dense index j; 0: no dense index
    parallel: tuple[str, ...]


TEMPLATES: Final[Mapping[ProductKind, Template]] = {
    "vector": Template("ik", 0, ("i1", "i0")),
    "columns": Template("ik", 128, ("i1", "i0", "j1")),
    "sampled": Template("ik", 128, ("i1", "i0", "k1", "k0")),
    "fibers": Template("ikl", 16, ("i1", "i0", "j1")),
}
"""Product kind of each of the paper's four algorithms (section 5.1) -> template."""


class WacoSpace(TemplateSpace):
    """Space of schedules of one algorithm as WACO defines it."""

    def __init__(self, algorithm: str, *, threads: tuple[int, int], concordant: float) -> None:
        self.operation, kind = algorithm_named(algorithm)
        template = TEMPLATES[kind]
        self.name, self.concordant = f"waco-{algorithm}", concordant
        self.sparse = tuple(f"{index}{part}" for index in template.sparse for part in "10")
        self.coordinates = (*self.sparse, "j1", "j0") if template.most_columns else self.sparse
        columns = tuple(size for size in SPLITS if size <= template.most_columns)
        self.parameters: tuple[Parameter, ...] = (
            *(Categorical(f"{index}split", SPLITS) for index in template.sparse),
            *((Categorical("jsplit", columns),) if columns else ()),
            Permutation("order", self.coordinates),
            Categorical("paridx", template.parallel, is_ladder=False),
            Categorical("parnum", threads),
            Categorical("parchunk", CHUNKS),
            Permutation("level_order", self.sparse),
            *(Categorical(f"format{name}", ("C", "U"), is_ladder=False) for name in self.sparse),
        )

    def draw(self, rng: np.random.Generator) -> Values:
        """Draw every parameter uniformly; with probability `concordant`, make level order and loop order agree."""
        values: dict[str, Any] = {parameter.name: parameter.draw(rng) for parameter in self.parameters}
        if rng.random() < self.concordant:
            order = _outer_first([name for name in values["order"] if name != "j0"])
            values["order"] = (*order, *(["j0"] if "j0" in self.coordinates else []))
            values["level_order"] = tuple(name for name in order if name in self.sparse)
        return values

    def schedule_of(self, values: Values) -> SuperSchedule:
        """Return the schedule with `values`; loops and levels of unsplit coordinates are left out."""
        splits = {name[:-1]: values[f"{name[:-1]}split"] for name in self.sparse}
        levels = [Level(name, LevelKind(values[f"format{name}"])) for name in values["level_order"]]
        unsplit = {f"{index}0" for index, size in splits.items() if size == 1}
        order = tuple(name for name in values["order"] if name not in unsplit)
        if values.get("jsplit") == 1:  # a loop of one iteration, whose position does not matter
            order = tuple(_with_inner(tuple(name for name in order if name != "j0"), "j"))
        parallel = values["paridx"]
        return SuperSchedule(
            operation=self.operation,
            format=Format.of(levels, splits),
            loop_order=order,
            dense_splits=(("j", values["jsplit"]),) if "j1" in self.coordinates else (),
            parallel=f"{parallel[:-1]}1" if parallel in unsplit else parallel,
            partition="dynamic",
            chunk=values["parchunk"],
            threads=values["parnum"],
        )

    def values_of(self, schedule: SuperSchedule) -> Values:
        """Return the parameters of `schedule`; an inner coordinate without a loop follows its outer one, at level U."""
        fmt = schedule.format
        kinds = {level.coordinate: level.kind.value for level in fmt.levels}
        values: dict[str, Any] = {f"{name[:-1]}split": fmt.split(name[:-1]) for name in self.sparse}
        if "j1" in self.coordinates:
            values["jsplit"] = schedule.dense_split("j")
        for parameter, given in (("order", schedule.loop_order), ("level_order", fmt.order)):
            values[parameter] = tuple(_with_inner(given, "ikl"))
        values |= {f"format{name}": kinds.get(name, "U") for name in self.sparse}
        values |= {"paridx": schedule.parallel, "parnum": schedule.threads, "parchunk": schedule.chunk}
        return values


def _outer_first(names: list[str]) -> list[str]:
    """Return `names` with x1 and x0 swapped wherever x0 comes first, for every index x."""
    found = list(names)
    for inner in [name for name in names if name.endswith("0")]:
        at, outer = found.index(inner), found.index(f"{inner[:-1]}1")
        if at < outer:
            found[at], found[outer] = found[outer], found[at]
    return found


def _with_inner(order: tuple[str, ...], indices: str) -> Iterator[str]:
    """Yield `order` with the missing inner coordinates of `indices` inserted directly after their outer ones."""
    for name in order:
        yield name
        if name.endswith("1") and name[:-1] in indices and f"{name[:-1]}0" not in order:
            yield f"{name[:-1]}0"


def waco_space(algorithm: str, *, threads: tuple[int, int] | None = None, concordant: float = 0.75) -> WacoSpace:
    """Return WACO's space of an algorithm; `threads` defaults to half and all of this machine's cores."""
    if threads is None:
        n_cores = Target.host().n_cores
        threads = (max(1, n_cores // 2), max(2, n_cores))
    return WacoSpace(algorithm, threads=threads, concordant=concordant)

"""Solvers of products on a GPU: torch's own path, which is the default, and Triton kernels of device schedules."""

# mypy: allow-untyped-calls
from __future__ import annotations

import importlib.util
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from autosparse import config
from autosparse._native.kernels import implementations
from autosparse._native.triton.launch import Launch
from autosparse._native.triton.spec import DeviceSpec
from autosparse.cache import open_store
from autosparse.core.plan import Candidate
from autosparse.core.solver import Choice, Cost
from autosparse.cuda import composites
from autosparse.cuda.structure import CudaPattern
from autosparse.errors import BuildError, PackError
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import DeviceTarget
from autosparse.scalar import INDICES
from autosparse.targets.priors import number
from autosparse.tuner.gpu import correction, model, space

PREPARE_S: Final = number("gpu", "prepare s")
"""Estimated seconds to prepare one candidate: compilation and packing, on an H100's host."""
MAX_TRIED: Final = {config.Effort.ESTIMATE: 1, config.Effort.MEASURE: 5, config.Effort.FULL: 1000}
"""Maximum number of single layouts that are measured, by effort."""
MAX_COMPOSITES: Final = 3
"""Number of composites that are measured beside the single layouts, except at effort "full", which measures all."""
WIDE: Final = 2**31
"""Extents and offsets from which on kernels use 64-bit indices."""
FREE_BYTES: Final = 1 << 24
"""Bytes of packed arrays and workspace that every product may use, whatever the option `extra_memory` allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductKind:
    """Kind of product, for which one kernel is chosen: operation, transposition, columns, dtype, elements per load."""

    operation: str
    transposed: bool
    n_dense_cols: int
    dtype: str
    vector: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProblem:
    """Problem of a GPU's planner: the pattern, the kind of product, the device, and whether sums have one order."""

    structure: CudaPattern
    kind: ProductKind
    target: DeviceTarget
    deterministic: bool


class TritonSolver:
    """Triton kernels, whose knobs are the text of a device schedule; `prepare` compiles, and packs the entries."""

    name: Final = "triton"

    def applicable(self, problem: DeviceProblem) -> str | None:
        """Return why Triton cannot compute `problem`, or None."""
        if importlib.util.find_spec("triton") is None:
            return "Triton is not installed"
        return None if problem.kind.dtype in model.ITEM_BYTES else f"no Triton kernel computes {problem.kind.dtype}"

    def knobs(self, problem: DeviceProblem) -> Iterable[str]:
        """Return the schedules that the cost model ranks, best first."""
        offered = ranked(problem.structure, problem.kind, problem.target)
        return [one.to_json() for _, one in offered]

    def cost(self, problem: DeviceProblem, knobs: Hashable) -> Cost:
        """Return the cost model's seconds of one product; composites are priced only while they are ranked."""
        schedule = DeviceSchedule.from_json(str(knobs))
        if schedule.is_composite:
            return Cost(setup_s=PREPARE_S)
        facts = problem.structure.facts(problem.kind.transposed)
        product = model.ProductSizes(n_dense_cols=problem.kind.n_dense_cols, dtype=problem.kind.dtype)
        return Cost(seconds=model.predicted_s(facts, schedule, product, problem.target, None), setup_s=PREPARE_S)

    def prepare(self, operand: DeviceProblem, knobs: Hashable) -> Launch:
        """Build and load the kernel and pack the entries; raise BuildError or PackError."""
        return launch_of(operand.structure, operand.kind, DeviceSchedule.from_json(str(knobs)))


TRITON: Final = TritonSolver()
"""The solver of Triton kernels."""


def candidates(problem: DeviceProblem, effort: config.Effort) -> list[Candidate]:
    """Return the candidates to measure, most promising first."""
    offered = ranked(problem.structure, problem.kind, problem.target)
    found = []
    for name, schedule in tried(offered, effort):
        choice = Choice(TRITON.name, schedule.to_json())
        cost = TRITON.cost(problem, choice.knobs)
        one = Candidate(choice=choice, name=label(name, schedule), predicted_s=cost.seconds, build_s=cost.setup_s)
        found.append(one)
    return found


def label(name: str, schedule: DeviceSchedule) -> str:
    """Return the words for a schedule in explanations: its layout's `name`, tile and warps."""
    return f"{name}, tile {schedule.tile}, {schedule.warps} warps"


Named = tuple[str, DeviceSchedule]
"""Type of a pair: name of the layout, schedule."""


def tried(offered: Sequence[Named], effort: config.Effort) -> list[Named]:
    """Return the candidates to measure: the first single layouts, as many as `effort` allows, then composites."""
    singles = [one for one in offered if not one[1].is_composite]
    others = [one for one in offered if one[1].is_composite]
    most = len(others) if effort is config.Effort.FULL else MAX_COMPOSITES
    return [*singles[: MAX_TRIED[effort]], *others[:most]]


def ranked(structure: CudaPattern, kind: ProductKind, target: DeviceTarget) -> list[Named]:
    """Return the candidate schedules for this kind of product, ranked by the cost model and its learned correction.

    Composites are included only where the model predicts them faster than every single layout, where the greedy search
    planned them, or with ``hybrid=True``.
    """
    asked, product = (
        setting_of(structure, kind, target),
        model.ProductSizes(n_dense_cols=kind.n_dense_cols, dtype=kind.dtype),
    )
    facts = structure.facts(kind.transposed)

    def rank(schedule: DeviceSchedule, given: model.Given | None = None) -> tuple[bool, float]:
        # panels last: the model expects gains of them that measurements do not show
        return bool(schedule.panel), model.predicted_s(facts, schedule, product, target, given)

    found = [(rank(one), name, one) for name, one in space.offered(asked)]
    if composites.is_wanted(structure, asked):
        single = min(place for place, _, _ in found)
        for name, one, given, is_planned in composites.offered(structure, kind.transposed, asked, target):
            place = rank(one, given)
            if config.get_options().hybrid or is_planned or place < single:
                found.append((place, name, one))
    best_first = [(name, one) for _, name, one in sorted(found, key=lambda one: one[0])]
    if kind.transposed:  # the correction has no samples of transposed products
        return best_first
    return correction.reordered(best_first, facts, product, target)


def setting_of(structure: CudaPattern, kind: ProductKind, target: DeviceTarget) -> space.GpuSetting:
    """Return the operation, sizes, dtype and target of a product, by which the schedules to offer are selected."""
    facts = structure.facts(kind.transposed)
    return space.GpuSetting(
        operation=kind.operation, n_dense_cols=kind.n_dense_cols, dtype=kind.dtype, vector=kind.vector,
        precision="tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
        used_bytes=facts.used_cols * kind.n_dense_cols * model.ITEM_BYTES[kind.dtype], target=target,
    )  # fmt: skip


def launch_of(structure: CudaPattern, kind: ProductKind, schedule: DeviceSchedule) -> Launch:
    """Build and load a schedule's kernel and pack the entries for it.

    Raises BuildError, or PackError where the kernel needs more memory than `extra_memory` allows.
    """
    most = max(*structure.shape(kind.transposed), structure.nnz)
    spec = DeviceSpec(
        schedule=schedule,
        dtype=kind.dtype,
        index_dtype=INDICES[most >= WIDE],
        is_indirect=kind.transposed,
        is_wide=most * kind.n_dense_cols >= WIDE,
    )
    if (reason := implementations.supports(kind.operation, schedule)) is not None:
        raise BuildError(reason, key=spec.key())
    kernel = implementations.build(spec, store=open_store())
    launch = kernel.bind(structure.entries(kind.transposed), nnz=structure.nnz)
    dtype = getattr(torch, kind.dtype)
    needed = launch.packed.n_bytes + launch.work_bytes(kind.n_dense_cols, dtype)
    n, m = structure.shape(kind.transposed)
    operands = structure.n_bytes + structure.nnz * dtype.itemsize + (n + m) * kind.n_dense_cols * dtype.itemsize
    limit = max(FREE_BYTES, int(config.get_options().extra_memory * operands))
    if needed > limit:
        raise PackError.too_large(schedule, needed_bytes=needed, limit_bytes=limit)
    return launch

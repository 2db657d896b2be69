"""Choice of the kernel for one kind of product of one structure on a GPU, and of the time of the search for it.

torch's own path (cuSPARSE) computes from the first call on. An autosparse kernel replaces it only where it was measured
to be faster.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch

from autosparse import config
from autosparse._native.kernels import implementations
from autosparse._native.triton import source
from autosparse._native.triton.launch import Launch
from autosparse._native.triton.spec import DeviceSpec
from autosparse.cache import open_store
from autosparse.containment import contained
from autosparse.cuda import composites
from autosparse.cuda.device import Device
from autosparse.cuda.structure import CudaPattern
from autosparse.errors import BuildError, PackError
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import DeviceTarget, target_of
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.tuner.gpu import model, space
from autosparse.tuning import amortization

PREPARE_S: Final = 1.5
"""Estimated seconds to prepare one candidate: compilation and packing, on an H100's host."""
EXPECTED_GAIN: Final = 0.2
"""Fraction of torch's time that a search is expected to save; decides when a search pays."""
MAX_TRIED: Final = {config.Effort.ESTIMATE: 1, config.Effort.MEASURE: 5, config.Effort.FULL: 1000}
"""Maximum number of single layouts that are measured, by effort."""
ACCEPTED: Final = 0.97
"""Maximum fraction of torch's time that a kernel may take to be chosen; smaller gains are within measurement noise.

The same fraction of the best single layout's time holds for a composite.
"""
MAX_COMPOSITES: Final = 3
"""Number of composites that are measured beside the single layouts, except at effort "full", which measures all."""
ROUNDS: Final = 20
"""Products per measurement of a candidate."""
WARM_ROUNDS: Final = 3
"""Products before the first measurement of a candidate, which compile and warm up."""
TURNS: Final = 2
"""Measurements of a candidate; the fastest counts."""
HANDLED_S: Final = 2e-6
"""Seconds of host time that a product by an autosparse kernel adds to its launch: the lookup of the choice."""
TOLERANCE: Final = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-9}
"""Tolerance of a candidate's result against torch's, relative to the largest element, by dtype."""
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


@dataclass(slots=True)
class LaunchChoice:
    """Kernel chosen for one kind of product (`launch` None: torch computes it), with its calls and measured times."""

    kind: ProductKind
    n_calls: int = 0
    launch: Launch | None = None
    schedule: DeviceSchedule | None = None
    why: str = "torch's own path: too few calls so far to pay for a search"
    is_finished: bool = False
    measured_s: dict[str, float] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)  # candidates whose result differed from torch's
    compiled: set[tuple[bool, ...]] = field(default_factory=set)  # operand alignments that Triton has compiled for

    def give_up(self, err: BaseException) -> None:
        """Use torch's path from now on; warn once with the reason."""
        self.launch, self.schedule, self.is_finished = None, None, True
        self.why = f"torch's own path: {type(err).__name__}: {err}"
        event("fallback", self.why, error=err)
        warn_once(
            FallbackWarning, "triton",
            f"PyTorch computes the product, Triton kernels are not used: {type(err).__name__}: {err}. "
            f"Hint: `python -m autosparse doctor` lists what is missing",
        )  # fmt: skip


Run = Callable[[Launch, int], torch.Tensor]
"""Type of a function that computes a product by a launch, with the operand copy of this number."""
Vendor = Callable[[int], torch.Tensor]
"""Type of a function that computes the same product by torch."""


def may_plan(choice: LaunchChoice, structure: CudaPattern, device: Device, runs: int | None) -> bool:
    """Return whether a search for a kernel would pay off for the calls so far, or for `runs` calls if given.

    False while a graph is captured, at effort "off", and after a search.
    """
    options = config.get_options()
    if choice.is_finished or options.effort is config.Effort.OFF or device.is_capturing():
        return False
    target = target_of(device.name(structure.col))
    item = model.ITEM_BYTES[choice.kind.dtype] * choice.kind.n_dense_cols
    call_s = target.launch_s + structure.nnz * (item + 8) / target.l2_bytes_s
    account = amortization.TuningAccount(n_calls=choice.n_calls, product_s=choice.n_calls * call_s)
    outlook = amortization.Outlook(
        overhead=options.overhead, total_runs=runs or options.runs, gain=EXPECTED_GAIN, default_s=call_s
    )
    return amortization.weigh(PREPARE_S, account=account, outlook=outlook).pays


def plan(choice: LaunchChoice, structure: CudaPattern, device: Device, run: Run, vendor: Vendor) -> None:
    """Choose the kernel of `choice`: load a stored plan, or time torch's path and the best-ranked schedules.

    `run` computes the product by a launch, `vendor` by torch. A failure here does not fail the product: torch computes
    it.
    """
    choice.is_finished = True
    name = device.name(structure.col)
    try:
        store, key = open_store(), _key(structure, choice.kind, name)
        record = store.load("device_plan", key)
        if record is not None:
            _adopt(choice, structure, record["schedule"])
            return
        _measure(choice, structure, device, target_of(name), (run, vendor))
    except contained() as err:
        choice.give_up(err)
        return
    text = None if choice.schedule is None else choice.schedule.to_json()
    store.save("device_plan", key, {"schedule": text, "measured_s": choice.measured_s})
    event("plan", choice.why, schedule=text or "torch")


def _adopt(choice: LaunchChoice, structure: CudaPattern, text: str | None) -> None:
    choice.why = "plan from the cache: torch's own path was fastest" if text is None else "plan from the cache"
    if text is not None:
        choice.schedule = DeviceSchedule.from_json(text)
        choice.launch = launch_of(structure, choice.kind, choice.schedule)


def _measure(
    choice: LaunchChoice, structure: CudaPattern, device: Device, target: DeviceTarget, how: tuple[Run, Vendor]
) -> None:
    run, vendor = how
    wanted = vendor(0).double()
    vendor_s, best_s = _seconds(device, vendor), float("inf")
    choice.measured_s["torch"] = vendor_s
    ranked = candidates(structure, choice.kind, target, config.get_options().deterministic)
    for name, schedule in tried(ranked, config.get_options().effort):
        label = f"{name}, tile {schedule.tile}, {schedule.warps} warps" + ", atomic" * (not schedule.is_deterministic)
        try:
            launch = launch_of(structure, choice.kind, schedule)
        except PackError as err:
            choice.measured_s[f"{label}: {err}"] = float("inf")
            continue
        if not _agrees(run(launch, 0).double(), wanted, choice.kind.dtype):
            choice.rejected.append(label)
            continue
        took_s = _seconds(device, lambda number, launch=launch: run(launch, number)) + HANDLED_S  # type: ignore[misc]
        choice.measured_s[label] = took_s
        margin = ACCEPTED if schedule.is_composite else 1.0
        if took_s < min(margin * best_s, ACCEPTED * vendor_s):
            best_s, choice.launch, choice.schedule = took_s, launch, schedule
            choice.why = f"{name}: measured {took_s:.3g} s, torch's own path {vendor_s:.3g} s"
    if choice.launch is None:
        choice.why = f"torch's own path was fastest: {vendor_s:.3g} s"
    if choice.rejected:
        choice.why += f"; results differ from torch's: {'; '.join(choice.rejected)}"


def _seconds(device: Device, run: Callable[[int], object]) -> float:
    """Return the seconds of one product: the lowest of TURNS measurements, after warm-up rounds."""
    device.seconds(run, rounds=WARM_ROUNDS)
    return min(device.seconds(run, rounds=ROUNDS) for _ in range(TURNS))


Candidate = tuple[str, DeviceSchedule]


def tried(ranked: Sequence[Candidate], effort: config.Effort) -> list[Candidate]:
    """Return the candidates to measure: the first single layouts, as many as `effort` allows, then composites."""
    singles = [one for one in ranked if not one[1].is_composite]
    others = [one for one in ranked if one[1].is_composite]
    most = len(others) if effort is config.Effort.FULL else MAX_COMPOSITES
    return [*singles[: MAX_TRIED[effort]], *others[:most]]


def candidates(structure: CudaPattern, kind: ProductKind, target: DeviceTarget, deterministic: bool) -> list[Candidate]:
    """Return the candidate schedules for this kind of product, ranked by the cost model.

    Composites are included only where the model predicts them faster than every single layout, or with ``hybrid=True``.
    """
    asked, product = (
        setting_of(structure, kind, target),
        model.ProductSizes(n_dense_cols=kind.n_dense_cols, dtype=kind.dtype),
    )
    facts = structure.facts(kind.transposed)

    def rank(schedule: DeviceSchedule, given: model.Given | None = None) -> tuple[bool, bool, float]:
        # atomic candidates last: the model cannot tell them from two-phase sums; panels gained nothing so far
        seconds = model.predicted_s(facts, schedule, product, target, given)
        return not schedule.is_deterministic, bool(schedule.panel), seconds

    found = [(rank(one), name, one) for name, one in space.offered(asked)]
    if composites.is_wanted(structure, asked):
        single = min(place for place, _, _ in found)
        divided = [
            (rank(one, given), name, one)
            for name, one, given in composites.offered(structure, kind.transposed, asked, target)
        ]
        found += [one for one in divided if config.get_options().hybrid or one[0] < single]
    legal = [one for one in found if one[2].is_deterministic or not deterministic]
    return [(name, one) for _, name, one in sorted(legal, key=lambda one: one[0])]


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
        index_dtype="int64" if most >= WIDE else "int32",
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


def _agrees(found: torch.Tensor, wanted: torch.Tensor, dtype: str) -> bool:
    """Return whether two results differ by no more than rounding; non-finite values must be equal."""
    finite = wanted[wanted.isfinite()]
    scale = finite.abs().amax() if finite.numel() else wanted.new_zeros(())
    return torch.allclose(found, wanted, rtol=TOLERANCE[dtype], atol=float(scale) * TOLERANCE[dtype], equal_nan=True)


def _key(structure: CudaPattern, kind: ProductKind, device_name: str) -> str:
    """Return the cache key of a device plan: everything the plan depends on."""
    facts = {
        "pattern": structure.stable_hash(), "operation": kind.operation, "transposed": kind.transposed,
        "columns": kind.n_dense_cols, "dtype": kind.dtype, "vector": kind.vector, "device": device_name,
        "torch": torch.__version__, "deterministic": config.get_options().deterministic,
        "tf32": torch.backends.cuda.matmul.allow_tf32, "emitter": source.emitter_digest(),
        "hybrid": config.get_options().hybrid,
    }  # fmt: skip
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def told(structure: CudaPattern) -> Iterator[str]:
    """Yield an explanation for each kind of product of `structure`: kernel, reason and schedule."""
    for choice in structure.choices.values():
        by = "torch" if choice.schedule is None else implementations.implementation_of(choice.schedule, None).name
        turned = " of the transpose" * choice.kind.transposed
        schedule = "" if choice.schedule is None else f"\n  {choice.schedule}"
        kind = f"{choice.kind.operation}{turned} x {choice.kind.n_dense_cols} {choice.kind.dtype}"
        yield f"{kind} by {by}: {choice.why}{schedule}"
        if choice.schedule is not None and choice.schedule.is_composite:
            yield from (f"  {line}" for line in composites.told(structure, choice.kind.transposed, choice.schedule))

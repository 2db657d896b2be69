"""Choice: what computes one kind of product of one structure, and the decision when another kernel may be looked for.

torch's own path (cuSPARSE) serves from the first call on, and is a candidate itself: a kernel of ours takes its place
when it was measured to be faster, never otherwise.
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
from autosparse.cuda import composites
from autosparse.cuda.device import Device
from autosparse.cuda.structure import CudaPattern
from autosparse.errors import TUNING_FAILURES, BuildError, PackError
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import DeviceTarget, target_of
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.tuner.gpu import model, space
from autosparse.tuning import amortization

PREPARE_S: Final = 1.5
"""Of one candidate: compiling and packing, on an H100's host."""
EXPECTED_GAIN: Final = 0.2
MAX_TRIED: Final = {config.Effort.ESTIMATE: 1, config.Effort.MEASURE: 5, config.Effort.FULL: 1000}
ACCEPTED: Final = 0.97
"""Of torch's time, the most that a kernel may take to be chosen: less is within the noise of measurements.

So it is of a composite and the best single layout.
"""
MAX_COMPOSITES: Final = 3
"""Composites that are tried beside the single layouts that an effort allows, but for a full search, which tries all."""
ROUNDS: Final = 20
WARM_ROUNDS: Final = 3
TURNS: Final = 2
HANDLED_S: Final = 2e-6
"""Of a product of ours beside its launch: finding what was chosen for its operands."""
TOLERANCE: Final = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-9}
WIDE: Final = 2**31
FREE_BYTES: Final = 1 << 24
"""Packed arrays and workspace that every product may have; beyond, `extra_memory` times the product's operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductKind:
    """One kind of product: operation, of the transpose or not, columns of the dense operand, dtype, alignment."""

    operation: str
    transposed: bool
    n_dense_cols: int
    dtype: str
    vector: int


@dataclass(slots=True)
class LaunchChoice:
    """A launch of ours, or None: torch's path serves. `why` is for explanations."""

    kind: ProductKind
    n_calls: int = 0
    launch: Launch | None = None
    schedule: DeviceSchedule | None = None
    why: str = "torch's own path: too little was run so far"
    is_finished: bool = False
    measured_s: dict[str, float] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)  # candidates whose result differed from torch's
    compiled: set[tuple[bool, ...]] = field(default_factory=set)  # alignments of operands that Triton has compiled for

    def give_up(self, err: BaseException) -> None:
        """From now on torch's path serves; one warning says why."""
        self.launch, self.schedule, self.is_finished = None, None, True
        self.why = f"torch's own path: {type(err).__name__}: {err}"
        warn_once(
            FallbackWarning, "triton",
            f"Triton kernels are not used, torch's own path serves: {type(err).__name__}: {err}. "
            f"`python -m autosparse doctor` says which part is missing",
        )  # fmt: skip


Run = Callable[[Launch, int], torch.Tensor]
"""One product by a launch, on the buffers of this number."""
Vendor = Callable[[int], torch.Tensor]
"""The same product by torch."""


def may_plan(choice: LaunchChoice, structure: CudaPattern, device: Device, runs: int | None) -> bool:
    """Whether calls so far (or `runs` promised) pay for looking; never while a graph is captured."""
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
    """Settle `choice`: a remembered plan, or the fastest of torch's path and the schedules that the model likes best.

    `run` computes the product at hand by a launch, `vendor` by torch. Nothing that fails here reaches the product.
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
    except TUNING_FAILURES as err:
        choice.give_up(err)
        return
    text = None if choice.schedule is None else choice.schedule.to_json()
    store.save("device_plan", key, {"schedule": text, "measured_s": choice.measured_s})
    event("plan", choice.why, schedule=text or "torch")


def _adopt(choice: LaunchChoice, structure: CudaPattern, text: str | None) -> None:
    choice.why = "remembered: torch's own path was fastest" if text is None else "remembered"
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
    """Of one product in the lowest of TURNS measurements, after one that makes what the first call makes."""
    device.seconds(run, rounds=WARM_ROUNDS)
    return min(device.seconds(run, rounds=ROUNDS) for _ in range(TURNS))


Candidate = tuple[str, DeviceSchedule]


def tried(ranked: Sequence[Candidate], effort: config.Effort) -> list[Candidate]:
    """Those of `ranked` that are measured: single layouts as many as `effort` allows, and composites after them all."""
    singles = [one for one in ranked if not one[1].is_composite]
    others = [one for one in ranked if one[1].is_composite]
    most = len(others) if effort is config.Effort.FULL else MAX_COMPOSITES
    return [*singles[: MAX_TRIED[effort]], *others[:most]]


def candidates(structure: CudaPattern, kind: ProductKind, target: DeviceTarget, deterministic: bool) -> list[Candidate]:
    """What is offered for this kind of product, the best by the model first.

    Of composites only those that the model expects to be faster than every single layout, unless ``hybrid=True`` asks
    for them.
    """
    asked, product = (
        setting_of(structure, kind, target),
        model.ProductSizes(n_dense_cols=kind.n_dense_cols, dtype=kind.dtype),
    )
    facts = structure.facts(kind.transposed)

    def rank(schedule: DeviceSchedule, given: model.Given | None = None) -> tuple[bool, bool, float]:
        # atomic ones last: the model cannot tell them from those that sum in two phases; panels gained nothing yet
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
    """What schedules are offered for."""
    facts = structure.facts(kind.transposed)
    return space.GpuSetting(
        operation=kind.operation, n_dense_cols=kind.n_dense_cols, dtype=kind.dtype, vector=kind.vector,
        precision="tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
        used_bytes=facts.used_cols * kind.n_dense_cols * model.ITEM_BYTES[kind.dtype], target=target,
    )  # fmt: skip


def launch_of(structure: CudaPattern, kind: ProductKind, schedule: DeviceSchedule) -> Launch:
    """Packed and loaded; BuildError when it cannot be, PackError when it takes more than `extra_memory` allows."""
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
    """Whether two sums of the same terms differ by rounding only; what is not finite must be the same."""
    finite = wanted[wanted.isfinite()]
    scale = finite.abs().amax() if finite.numel() else wanted.new_zeros(())
    return torch.allclose(found, wanted, rtol=TOLERANCE[dtype], atol=float(scale) * TOLERANCE[dtype], equal_nan=True)


def _key(structure: CudaPattern, kind: ProductKind, device_name: str) -> str:
    """Everything that a device plan depends on."""
    facts = {
        "pattern": structure.stable_hash(), "operation": kind.operation, "transposed": kind.transposed,
        "columns": kind.n_dense_cols, "dtype": kind.dtype, "vector": kind.vector, "device": device_name,
        "torch": torch.__version__, "deterministic": config.get_options().deterministic,
        "tf32": torch.backends.cuda.matmul.allow_tf32, "emitter": source.emitter_digest(),
        "hybrid": config.get_options().hybrid,
    }  # fmt: skip
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def told(structure: CudaPattern) -> Iterator[str]:
    """A line for each kind of product of `structure`: what is computed, by whom, why, with which schedule."""
    for choice in structure.choices.values():
        by = "torch" if choice.schedule is None else implementations.implementation_of(choice.schedule, None).name
        turned = " of the transpose" * choice.kind.transposed
        schedule = "" if choice.schedule is None else f"\n  {choice.schedule}"
        kind = f"{choice.kind.operation}{turned} x {choice.kind.n_dense_cols} {choice.kind.dtype}"
        yield f"{kind} by {by}: {choice.why}{schedule}"
        if choice.schedule is not None and choice.schedule.is_composite:
            yield from (f"  {line}" for line in composites.told(structure, choice.kind.transposed, choice.schedule))

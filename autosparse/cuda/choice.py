"""Planner of products on a GPU: which solver computes one kind of product of one structure, and when to search.

torch's own path (cuSPARSE) is the default solver and computes from the first call on. An autosparse kernel replaces it
only where it was measured to be faster.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import torch

from autosparse import config
from autosparse._native.kernels import implementations
from autosparse._native.triton import source
from autosparse._native.triton.launch import Launch
from autosparse.cache import PlanKey, open_store, plan_to_record, stored_plan
from autosparse.config import Effort
from autosparse.containment import contained
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import DEFAULT, Choice
from autosparse.cuda import composites
from autosparse.cuda.device import Device
from autosparse.cuda.solvers import PREPARE_S, TRITON, DeviceProblem, ProductKind, candidates
from autosparse.cuda.structure import CudaPattern
from autosparse.explain.candidates import candidates_section
from autosparse.explain.section import as_text
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import target_of
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.scalar import SCALARS
from autosparse.scalar.tensors import wide_real
from autosparse.targets.priors import number
from autosparse.tuner.gpu import model
from autosparse.tuner.search.race import RaceRule
from autosparse.tuner.search.selection import Selection, Selector
from autosparse.tuning import amortization

EXPECTED_GAIN: Final = number("gpu", "expected gain")
"""Fraction of torch's time that a search is expected to save; decides when a search pays."""
ACCEPTED: Final = number("gpu", "accepted")
"""Maximum fraction of torch's time that a kernel may take to be chosen; smaller gains are within measurement noise.

The same fraction of the best single layout's time holds for a composite.
"""
ROUNDS: Final = 20
"""Products per measurement of a candidate."""
RULE: Final = RaceRule(margin=1.0 - ACCEPTED, min_rounds=2, max_rounds=3, first_cut=1)
"""Rule of the races: each round has `ROUNDS` products, timed on the device, which scatter little."""
HANDLED_S: Final = number("gpu", "host s")
"""Seconds of host time that a product by an autosparse kernel adds to its launch: the lookup of the plan."""
TOLERANCE: Final = {name: SCALARS[name].tolerance for name in model.ITEM_BYTES}
"""Tolerance of a candidate's result against torch's, relative to the largest element, by dtype."""
DIFFERS: Final = "its result differs from torch's"
"""Reason why a candidate with a wrong result is not used."""
TORCH: Final = Candidate(choice=DEFAULT, name="torch")
"""The default solver as explanations list it."""
TOO_FEW: Final = Plan(choice=DEFAULT, why="torch's own path: too few calls so far to pay for a search")
"""Plan of a kind of product before its search."""


@dataclass(slots=True)
class PlannedProduct:
    """Plan for one kind of product, its kernel (`launch` None: torch computes it), and the number of calls."""

    kind: ProductKind
    n_calls: int = 0
    launch: Launch | None = None
    plan: Plan = TOO_FEW
    compiled: set[tuple[bool, ...]] = field(default_factory=set)  # operand alignments that Triton has compiled for

    @property
    def schedule(self) -> DeviceSchedule | None:
        """Schedule of the kernel; None where torch computes the product."""
        return None if self.plan.is_default else DeviceSchedule.from_json(str(self.plan.choice.knobs))

    @property
    def is_finished(self) -> bool:
        """Return whether a search was made, or the plan was given up."""
        return self.plan.effort != Effort.OFF.value

    @property
    def measured_s(self) -> dict[str, float]:
        """Seconds of one product by each candidate that was timed, by name."""
        return {one.name: one.measured_s for one in self.plan.candidates if one.measured_s is not None}

    @property
    def rejected(self) -> list[str]:
        """Names of the candidates whose result differed from torch's."""
        return [one.name for one in self.plan.candidates if one.failed == DIFFERS]

    def give_up(self, err: BaseException) -> None:
        """Use torch's path from now on; warn once with the reason."""
        why = f"torch's own path: {type(err).__name__}: {err}"
        self.launch, self.plan = None, replace(self.plan, choice=DEFAULT, why=why, effort=Effort.FULL.value)
        event("fallback", why, error=err)
        warn_once(
            FallbackWarning, "triton",
            f"PyTorch computes the product, Triton kernels are not used: {type(err).__name__}: {err}. "
            f"Hint: `python -m autosparse doctor` lists what is missing",
        )  # fmt: skip


Run = Callable[[Launch, int], torch.Tensor]
"""Type of a function that computes a product by a launch, with the operand copy of this number."""
Vendor = Callable[[int], torch.Tensor]
"""Type of a function that computes the same product by torch."""


def may_plan(made: PlannedProduct, structure: CudaPattern, device: Device, runs: int | None) -> bool:
    """Return whether a search for a kernel would pay off for the calls so far, or for `runs` calls if given.

    False while a graph is captured, at effort "off", and after a search with this effort.
    """
    options = config.get_options()
    if options.effort is Effort.OFF or device.is_capturing():
        return False
    if made.is_finished and made.plan.satisfies(options.effort):
        return False
    target = target_of(device.name(structure.col))
    item = model.ITEM_BYTES[made.kind.dtype] * made.kind.n_dense_cols
    call_s = target.launch_s + structure.nnz * (item + 8) / target.l2_bytes_s
    account = amortization.TuningAccount(n_calls=made.n_calls, product_s=made.n_calls * call_s)
    outlook = amortization.Outlook(
        overhead=options.overhead, total_runs=runs or options.runs, gain=EXPECTED_GAIN, default_s=call_s
    )
    return amortization.weigh(PREPARE_S, account=account, outlook=outlook).pays


def plan(made: PlannedProduct, structure: CudaPattern, device: Device, run: Run, vendor: Vendor) -> None:
    """Plan the product: load a stored plan, or race torch's path and the best-ranked schedules.

    `run` computes the product by a launch, `vendor` by torch. A failure here does not fail the product: torch computes
    it.
    """
    options, name = config.get_options(), device.name(structure.col)
    problem = DeviceProblem(
        structure=structure, kind=made.kind, target=target_of(name), deterministic=options.deterministic
    )
    made.plan = replace(made.plan, effort=options.effort.value)  # no other thread begins a search
    try:
        store, key = open_store(), key_of(problem, name)
        known = stored_plan(store, key)
        if known is not None and known.satisfies(options.effort):
            made.launch = None if known.is_default else TRITON.prepare(problem, known.choice.knobs)
            made.plan = replace(known, why=f"plan from the cache: {known.why}")
            return
        reason, start_s = TRITON.applicable(problem), time.perf_counter()
        offered = candidates(problem, options.effort) if reason is None else []
        found = _selector(problem, device, run, vendor).select(offered)
    except contained() as err:
        made.give_up(err)
        return
    why = _why(found) if reason is None else f"torch's own path: {reason}"
    made.launch = found.bound
    made.plan = found.plan(why=why, effort=options.effort, tune_s=time.perf_counter() - start_s)
    store.save("plan", key.stable_hash(), plan_to_record(made.plan, key))
    event("plan", why, schedule=str(made.plan.choice.knobs or TORCH.name))


def _selector(problem: DeviceProblem, device: Device, run: Run, vendor: Vendor) -> Selector[Launch]:
    """Return the preparation, check and timing of candidates for `problem`."""
    wanted = vendor(0).to(wide_real)

    def prepare(choice: Choice) -> Launch:
        return TRITON.prepare(problem, choice.knobs)

    def measure(launch: Launch | None) -> float:
        if launch is None:
            return device.seconds(vendor, rounds=ROUNDS)
        return device.seconds(lambda number: run(launch, number), rounds=ROUNDS) + HANDLED_S

    def difference(launch: Launch) -> str | None:
        return None if _agrees(run(launch, 0).to(wide_real), wanted, problem.kind.dtype) else DIFFERS

    def handicap(choice: Choice) -> float:
        return 1.0 / ACCEPTED if DeviceSchedule.from_json(str(choice.knobs)).is_composite else 1.0

    return Selector(
        prepare=prepare, measure=measure, difference=difference, handicap=handicap, rule=RULE, default=TORCH
    )


def _why(found: Selection[Launch]) -> str:
    """Return the reason for the plan: the measured times, and the candidates with wrong results."""
    wrong = [one.name for one in found.candidates if one.failed == DIFFERS]
    suffix = f"; results differ from torch's: {'; '.join(wrong)}" if wrong else ""
    default_s = found.default_s
    if found.choice.is_default or default_s is None:
        measured = f": {default_s:.3g} s" if default_s is not None else ": no candidate could be used"
        return f"torch's own path was fastest{measured}{suffix}"
    name = next(one.name for one in found.candidates if one.choice == found.choice)
    took_s = found.measured_s(found.choice) or 0.0
    return f"{name}: measured {took_s:.3g} s, torch's own path {default_s:.3g} s{suffix}"


def _agrees(found: torch.Tensor, wanted: torch.Tensor, dtype: str) -> bool:
    """Return whether two results differ by no more than rounding; non-finite values must be equal."""
    finite = wanted[wanted.isfinite()]
    scale = finite.abs().amax() if finite.numel() else wanted.new_zeros(())
    return torch.allclose(found, wanted, rtol=TOLERANCE[dtype], atol=float(scale) * TOLERANCE[dtype], equal_nan=True)


def key_of(problem: DeviceProblem, device_name: str) -> PlanKey:
    """Return the cache key of a plan on a GPU: everything that the plan depends on."""
    structure, kind, options = problem.structure, problem.kind, config.get_options()
    return PlanKey(
        pattern=structure.stable_hash(), operation=kind.operation, transposed=kind.transposed,
        columns_bucket=kind.n_dense_cols, dtype=kind.dtype, index_dtype=str(structure.col.dtype), threads=0,
        deterministic=problem.deterministic, target=device_name,
        space=f"vector {kind.vector}, tf32 {torch.backends.cuda.matmul.allow_tf32}, hybrid {options.hybrid}",
        implementation="triton", compiler=f"torch {torch.__version__}", emitter=source.emitter_digest(), runtime="",
    )  # fmt: skip


def told(structure: CudaPattern) -> Iterator[str]:
    """Yield an explanation for each kind of product of `structure`: solver, reason, schedule and candidates."""
    for made in structure.choices.values():
        schedule = made.schedule
        by = implementations.implementation_of(schedule, None).name if schedule else "torch"
        turned = " of the transpose" * made.kind.transposed
        kind = f"{made.kind.operation}{turned} x {made.kind.n_dense_cols} {made.kind.dtype}"
        yield f"{kind} by {by}: {made.plan.why}" + (f"\n  {schedule}" if schedule else "")
        if schedule and schedule.is_composite:
            yield from (f"  {line}" for line in composites.told(structure, made.kind.transposed, schedule))
        if made.plan.candidates:
            yield as_text((candidates_section(made.plan.candidates, made.plan.choice),))

"""Methods of the GPU tables: costs of every candidate of held-out products, from the samples of a draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.gpu.correction import Correction
from autosparse.tuner.research.training.few_shot import FewShotSettings
from autosparse.tuner.research.transfer.device import DeviceSample, fit_device_correction
from gpulib.samples import GpuProduct
from numpy.typing import NDArray

from transferlib.gpu_networks import BY_PAPER, ON_TARGET, PRIOR, Base, GpuNetworks, analytic_costs, no_base, seeded
from transferlib.gpu_world import GpuDraw, GpuWorld

Costs = Sequence[NDArray[Any]]

SHARE: Final = 0.5
"""Factor of a network that is added to the correction, since both are fitted to the same few samples.

Chosen on draws that the tables do not contain.
"""


@dataclass(frozen=True, eq=False)
class GpuBench:
    """A device, the other device, and the networks of the operation."""

    world: GpuWorld
    other: GpuWorld
    networks: GpuNetworks = field(repr=False)


@dataclass(frozen=True)
class GpuMethod:
    """A row of the tables."""

    run: Callable[[GpuBench, GpuDraw], Costs]
    samples: str  # of the GPU: none, five, pool, other (five of the other device), "five, other's pool"
    is_brief: bool = False  # only the first draws, since it takes long or is an ablation


def random_order(bench: GpuBench, draw: GpuDraw) -> Costs:
    """Return a random order."""
    rng = np.random.default_rng([7, draw.seed])
    return [rng.random(len(one.schedules)) for one in draw.held_out(bench.world)]


def analytic(bench: GpuBench, draw: GpuDraw) -> Costs:
    """Return the order of the analytic model, which was fitted to a survey on an H200."""
    return [analytic_costs(one) for one in draw.held_out(bench.world)]


def static(bench: GpuBench, draw: GpuDraw) -> Costs:
    """Return the mean log ratio of each schedule's category on the samples, for every pattern."""
    total: dict[Any, list[float]] = {}
    for product in draw.products(bench.world):
        logs = np.log(product.seconds)
        for one, away in zip(product.schedules, logs - logs.mean(), strict=True):
            total.setdefault(_kind(one), []).append(float(away))
    means = {name: float(np.mean(found)) for name, found in total.items()}
    return [
        np.array([means.get(_kind(one), 0.0) for one in product.schedules]) for product in draw.held_out(bench.world)
    ]


def _kind(schedule: Any) -> tuple[Any, ...]:
    return tuple((part.layout, part.step) for part in schedule.parts), schedule.warps


def zero_shot(bench: GpuBench, draw: GpuDraw) -> Costs:
    """Return the costs of DASH's network as the CPU's samples trained it."""
    held = draw.held_out(bench.world)
    return bench.networks.costs(bench.networks.pretrained("DASH"), "DASH", held, no_base)


def alone(samples: Sequence[GpuProduct]) -> Base:
    """Return the base of a network that makes the costs alone."""
    return no_base


def on_analytic(samples: Sequence[GpuProduct]) -> Base:
    """Return the base of a network that is added to the analytic model."""
    return lambda one: PRIOR * analytic_costs(one)


def on_correction(samples: Sequence[GpuProduct]) -> Base:
    """Return the base of a network that is added to the correction, which is fitted to the same samples."""
    fitted = fit_device_correction([sample_of(one) for one in samples])
    return lambda one: PRIOR * corrected_costs(fitted, one)


def network(
    name: str, *, settings: FewShotSettings = ON_TARGET, from_source: bool = True, whole_pool: bool = False,
    from_other: bool = False, and_other: bool = False, on: Callable[[Sequence[GpuProduct]], Base] = alone,
    share: float = 1.0, anew: tuple[str, ...] = ("latent.",),
) -> Callable[[GpuBench, GpuDraw], Costs]:  # fmt: skip
    """Return a method that trains a network on samples, of the other device if `from_other`.

    With `and_other` the other device is a source, too: the samples of its whole pool are added. `share` times the
    network is added to the base that `on` makes of the samples. Layers of `anew` do not come from the CPU.
    """

    def run(bench: GpuBench, draw: GpuDraw) -> Costs:
        samples = draw.products(bench.other if from_other else bench.world, whole_pool=whole_pool)
        samples += draw.products(bench.other, whole_pool=True) if and_other else []
        how, base = seeded(settings, draw.seed), on(samples)
        tuned = bench.networks.tuned(name, samples, how, from_source=from_source, base=base, anew=anew)
        return bench.networks.costs(tuned, name, draw.held_out(bench.world), base, share)

    return run


def corrected(
    *, whole_pool: bool = False, from_other: bool = False, and_other: bool = False
) -> Callable[[GpuBench, GpuDraw], Costs]:
    """Return a method that adds a linear correction, fitted to samples, to the analytic model's logarithms."""

    def run(bench: GpuBench, draw: GpuDraw) -> Costs:
        samples = draw.products(bench.other if from_other else bench.world, whole_pool=whole_pool)
        samples += draw.products(bench.other, whole_pool=True) if and_other else []
        fitted = fit_device_correction([sample_of(one) for one in samples])
        return [corrected_costs(fitted, one) for one in draw.held_out(bench.world)]

    return run


def corrected_costs(fitted: Correction, product: GpuProduct) -> NDArray[np.float64]:
    """Return the logarithms of the corrected seconds of all candidates."""
    facts = product.pattern.facts
    return np.array([fitted.log_seconds(facts, one, product.sizes, product.target) for one in product.schedules])


def sample_of(product: GpuProduct) -> DeviceSample:
    """Return the product as the fit of the correction needs it."""
    return DeviceSample(product.pattern.facts, product.sizes, product.target, product.schedules, product.seconds)


BOTH: Final = "five, other's pool"
METHODS: Final[Mapping[str, GpuMethod]] = {
    "random": GpuMethod(random_order, "none"),
    "analytic model": GpuMethod(analytic, "none"),
    "static": GpuMethod(static, "five"),
    "DASH, zero-shot": GpuMethod(zero_shot, "none"),
    "DASH, no transfer": GpuMethod(network("DASH", from_source=False), "five"),
    "DASH, no transfer, whole pool": GpuMethod(
        network("DASH", from_source=False, whole_pool=True), "pool", is_brief=True
    ),
    "WACO+FA": GpuMethod(network("WACO+FA"), "five"),
    "WACO+FM": GpuMethod(network("WACO+FM"), "five"),
    "DASH": GpuMethod(network("DASH"), "five"),
    "DASH, the paper's settings": GpuMethod(network("DASH", settings=BY_PAPER), "five", is_brief=True),
    "DASH, whole pool": GpuMethod(network("DASH", whole_pool=True), "pool", is_brief=True),
    "DASH without IFE": GpuMethod(network("DASH without IFE"), "five", is_brief=True),
    "DASH without FM": GpuMethod(network("DASH without FM"), "five", is_brief=True),
    "DASH without LE": GpuMethod(network("DASH without LE"), "five", is_brief=True),
    "DASH, samples of the other device": GpuMethod(network("DASH", from_other=True), "other"),
    "analytic model + DASH, no transfer": GpuMethod(network("DASH", from_source=False, on=on_analytic), "five"),
    "analytic model + DASH": GpuMethod(network("DASH", on=on_analytic), "five"),
    "analytic model + DASH, featurizer transferred": GpuMethod(
        network("DASH", on=on_analytic, anew=("latent.", "configuration.", "predictor.")), "five"
    ),
    "analytic model + correction": GpuMethod(corrected(), "five"),
    "analytic model + correction, both devices": GpuMethod(corrected(and_other=True), BOTH),
    "correction + DASH, no transfer": GpuMethod(
        network("DASH", from_source=False, on=on_correction, share=SHARE), "five"
    ),
    "correction + DASH": GpuMethod(network("DASH", on=on_correction, share=SHARE), "five"),
    "correction + DASH, both devices, no CPU": GpuMethod(
        network("DASH", from_source=False, and_other=True, on=on_correction, share=SHARE), BOTH
    ),
    "correction + DASH, both devices": GpuMethod(network("DASH", and_other=True, on=on_correction, share=SHARE), BOTH),
    "analytic model + correction, whole pool": GpuMethod(corrected(whole_pool=True), "pool"),
    "analytic model + correction, samples of the other device": GpuMethod(corrected(from_other=True), "other"),
}
"""Rows of the tables, by name."""

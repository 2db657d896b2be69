"""Networks of DASH and WACO, pre-trained on the CPU and fine-tuned on a simulated accelerator, and their ablations.

The ablations are those of Figures 7, 8 and 9. Ablations of the program's part and of the predictor share the featurizer
of the whole network: their other layers are trained on the source with its descriptions of patterns, and then on the
target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from autosparse.tuner.research.collect.recipes import read_coordinates
from autosparse.tuner.research.networks.autoencoder import trained_autoencoder
from autosparse.tuner.research.networks.dash import PARTS, PATTERN_WIDTH, DashModel, InputFeaturizer
from autosparse.tuner.research.networks.waconet import WACONet
from autosparse.tuner.research.targets.mapper import (
    MAPPED_WIDTH,
    LatentTable,
    OneHotParts,
    PrincipalAxes,
    mapped,
)
from autosparse.tuner.research.training.few_shot import FewShotSettings, TransferCase, costs_of, fine_tuned, train
from numpy.typing import NDArray

from transferlib.cpu_source import CpuPattern
from transferlib.patterns import Named
from transferlib.world import Draw, World

Floats = NDArray[np.float32]
ENTRIES_SEEN: Final = 1024
"""Maximum number of entries that a featurizer sees, a quarter of the default, so that pre-training takes minutes."""
SOURCE_EPOCHS: Final = 100
PATTERNS_A_STEP: Final = 8
"""Patterns of the source in a step; eight together cost less than eight alone."""
WHOLE_BATCH: Final = 4096
LED_BATCH: Final = 32 * PATTERNS_A_STEP
SOURCE_RATE: Final = 3e-4
"""About the paper's rate times the square root of PATTERNS_A_STEP, as a step is the mean over more patterns."""


@dataclass(frozen=True)
class Variant:
    """A row of Figure 7, 8 or 9, or a baseline of the paper."""

    featurizer: str  # key of FEATURIZERS
    parts: tuple[str, ...] = PARTS
    latent: str = "table"  # key of LATENTS, for the target
    predictor: str = "mlp"  # key of PREDICTORS
    augmented: bool = False  # concatenated parameters of both platforms instead of mapped ones


class WacoFeaturizer(WACONet):
    """WACONet that also reads groups of patterns, with a row per program, one pattern after the other."""

    def prepare_together(self, patterns: Sequence[Any], n_programs: Sequence[int]) -> tuple[list[Any], torch.Tensor]:
        """Return the input of each pattern, and the number of the pattern of each program."""
        counts = torch.repeat_interleave(torch.arange(len(patterns)), torch.tensor(n_programs))
        return [self.prepare(one) for one in patterns], counts

    def forward(self, seen: Any) -> torch.Tensor:
        """Return the embedding of one pattern, or that of every program's pattern."""
        if not isinstance(seen, tuple):
            return super().forward(seen)
        patterns, of_program = seen
        return torch.cat([super(WacoFeaturizer, self).forward(one) for one in patterns]).index_select(0, of_program)


FEATURIZERS: Final[Mapping[str, Callable[[], Any]]] = {
    "dash": lambda: InputFeaturizer(ENTRIES_SEEN),
    "waconet": lambda: WacoFeaturizer(2, limit=ENTRIES_SEEN),
}
LATENTS: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "table": lambda known: LatentTable(tuple(known)),
    "pca": PrincipalAxes.of,
    "autoencoder": trained_autoencoder,
}
VARIANTS: Final[Mapping[str, Variant]] = {
    "DASH": Variant("dash"),
    "DASH, latent by PCA": Variant("dash", latent="pca"),
    "DASH, latent by autoencoder": Variant("dash", latent="autoencoder"),
    "DASH, Transformer predictor": Variant("dash", predictor="transformer"),
    "DASH, LSTM predictor": Variant("dash", predictor="lstm"),
    "DASH, GRU predictor": Variant("dash", predictor="gru"),
    "DASH without IFE": Variant("dash", ("configuration", "latent")),
    "DASH without FM": Variant("dash", ("pattern", "latent")),
    "DASH without LE": Variant("dash", ("pattern", "configuration")),
    "WACO+FM": Variant("waconet", ("pattern", "configuration")),
    "WACO+FA": Variant("waconet", ("pattern", "configuration"), augmented=True),
}


@dataclass(frozen=True, eq=False)
class Programs:
    """Inputs of networks about programs: one row each of p, z and the concatenated parameters of both platforms."""

    p: Floats = field(repr=False)
    z: Mapping[str, Floats] = field(repr=False)  # by key of LATENTS
    augmented: Floats = field(repr=False)

    def inputs(self, variant: Variant) -> tuple[Floats, Floats]:
        """Return rows of the configuration and rows of the latent code."""
        return self.augmented if variant.augmented else self.p, self.z[variant.latent]


def target_programs(world: World, n_source: int) -> Programs:
    """Return all configurations of the target; its own parameters follow `n_source` zeros."""
    target = world.target
    categories = [target.heterogeneous(one) for one in target.configurations]
    z = {name: make(sorted(set(categories))).codes(categories) for name, make in LATENTS.items()}
    p = mapped(target, target.configurations)
    own = np.hstack([p[:, -4:-1], np.array([one.values[3:] for one in target.configurations], np.float32)])
    return Programs(p, z, np.hstack([np.zeros((len(p), n_source), np.float32), own]))


def source_programs(patterns: Sequence[CpuPattern], n_target: int) -> list[Programs]:
    """Return the CPU's schedules.

    An autoencoder makes the latent codes, because a table would have too many categories.
    """
    categories = [one for pattern in patterns for one in pattern.categories]
    encoder, parts = trained_autoencoder(categories), OneHotParts.of(categories)
    found = []
    for pattern in patterns:
        z = encoder.codes(pattern.categories)
        own = np.hstack([pattern.p, parts.rows(pattern.categories)])
        padded = np.hstack([own, np.zeros((len(own), n_target), np.float32)])
        found.append(Programs(pattern.p, dict.fromkeys(LATENTS, z), padded))
    return found


@dataclass(frozen=True, eq=False)
class Networks:
    """Pre-trained networks by variant, and descriptions s of every matrix by featurizer."""

    models: Mapping[str, DashModel]
    described: Mapping[str, Mapping[str, torch.Tensor]] = field(repr=False)
    programs: Programs = field(repr=False)

    def costs(self, name: str, world: World, draw: Draw, k: int, settings: FewShotSettings) -> list[Floats]:
        """Return costs of all configurations on each test matrix after fine-tuning on k matrices of `draw`.

        With k = 0 the network is used without fine-tuning (zero-shot).
        """
        variant, model = VARIANTS[name], self.models[name]
        s = self.described[variant.featurizer]
        p, z = self.programs.inputs(variant)
        cases = []
        for at in draw.order[:k]:
            matrix, numbers = world.pool[at], draw.numbers[at]
            ratios = (matrix.times / matrix.times[world.default]).astype(np.float32)
            cases.append(TransferCase(s[matrix.named.name], p[numbers], z[numbers], ratios[numbers]))
        tuned = fine_tuned(model, cases, settings)
        return [costs_of(tuned, s[matrix.named.name], p, z) for matrix in world.judged]


def pretrained(
    patterns: Sequence[CpuPattern],
    world: World,
    matrices: Sequence[Named],
    folder: Path,
    *,
    kept: Path,
    progress: Callable[[str], object],
    epochs: int = SOURCE_EPOCHS,
    names: Sequence[str] = tuple(VARIANTS),
) -> Networks:
    """Train `names` of VARIANTS, and those whose featurizers they share.

    Networks that `kept` holds for the same patterns and epochs are loaded.
    """
    n_target = 6
    programs = source_programs(patterns, n_target)
    n_source = programs[0].augmented.shape[1] - n_target
    own = target_programs(world, n_source)
    models: dict[str, DashModel] = {}
    described: dict[str, dict[str, torch.Tensor]] = {}
    leaders = {one.featurizer: name for name, one in reversed(VARIANTS.items())}
    needed = {*names, *(leaders[VARIANTS[name].featurizer] for name in names)}
    for name, variant in [row for row in VARIANTS.items() if row[0] in needed]:
        path = kept / f"{world.operation}-{len(patterns)}-{epochs}-{ENTRIES_SEEN}-{name.replace(' ', '-')}.pt"
        width = own.augmented.shape[1] if variant.augmented else MAPPED_WIDTH
        torch.manual_seed(0)
        model = DashModel(
            FEATURIZERS[variant.featurizer](), variant.parts, configuration_inputs=width, predictor=variant.predictor
        )
        is_led = leaders[variant.featurizer] != name
        if is_led:
            model.featurizer = models[leaders[variant.featurizer]].featurizer
        if path.exists():
            model.load_state_dict(torch.load(path, weights_only=True))
        else:
            cases = _source_cases(model, variant, patterns, programs)
            settings = FewShotSettings(
                epochs=epochs, rate=SOURCE_RATE, mode="heads" if is_led else "all",
                batch=LED_BATCH if is_led else WHOLE_BATCH,
            )  # fmt: skip
            train(model, cases, settings, _said(name, epochs, progress), state=path.with_suffix(".state"))
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(model.state_dict(), path)
        models[name] = model
        if variant.featurizer not in described:
            described[variant.featurizer] = _descriptions(model, matrices, folder)
            progress(f"{name}: {len(matrices)} matrices described")
    return Networks(models, described, own)


def _source_cases(
    model: DashModel, variant: Variant, patterns: Sequence[CpuPattern], programs: Sequence[Programs]
) -> list[TransferCase]:
    """Return a case per PATTERNS_A_STEP patterns, in which pairs are of one pattern."""
    cases = []
    for start in range(0, len(patterns), PATTERNS_A_STEP):
        some = patterns[start : start + PATTERNS_A_STEP]
        rows = [one.inputs(variant) for one in programs[start : start + PATTERNS_A_STEP]]
        counts = [len(one.ratios) for one in some]
        seen = model.featurizer.prepare_together([one.coordinates for one in some], counts)
        p, z = (np.concatenate([one[side] for one in rows]) for side in (0, 1))
        ratios = np.concatenate([one.ratios for one in some])
        cases.append(TransferCase(seen, p, z, ratios, products=np.repeat(np.arange(len(some)), counts)))
    return cases


def _said(name: str, epochs: int, progress: Callable[[str], object]) -> Callable[[int, float], object]:
    return lambda at, loss: progress(f"{name}: epoch {at + 1} of {epochs}, loss {loss:.4f}")


def _descriptions(model: DashModel, matrices: Sequence[Named], folder: Path) -> dict[str, torch.Tensor]:
    found = {}
    with torch.no_grad():
        for one in matrices:
            seen = model.featurizer.prepare(read_coordinates(folder / f"{one.name}.npz"))
            found[one.name] = model.featurizer(seen).reshape(1, PATTERN_WIDTH)
    return found


def untrained(
    world: World, draw: Draw, k: int, settings: FewShotSettings, *, folder: Path, programs: Programs
) -> list[Floats]:
    """Return costs of DASH's network trained from random weights on k matrices of the target, without transfer."""
    torch.manual_seed(draw.seed)
    model = DashModel(InputFeaturizer(ENTRIES_SEEN))
    return tuned_whole(model, world, draw, k, settings, folder=folder, programs=programs)


def tuned_whole(
    source: DashModel, world: World, draw: Draw, k: int, settings: FewShotSettings, *, folder: Path, programs: Programs
) -> list[Floats]:
    """Fine-tune a copy of `source` with its featurizer on k matrices of `draw`; return costs on the test matrices."""
    p, z = programs.inputs(VARIANTS["DASH"])
    cases = []
    for at in draw.order[:k]:
        matrix, numbers = world.pool[at], draw.numbers[at]
        seen = source.featurizer.prepare(read_coordinates(folder / f"{matrix.named.name}.npz"))
        ratios = (matrix.times / matrix.times[world.default]).astype(np.float32)
        cases.append(TransferCase(seen, p[numbers], z[numbers], ratios[numbers]))
    model = fine_tuned(source, cases, settings)
    described = _descriptions(model, [matrix.named for matrix in world.judged], folder)
    return [costs_of(model, described[matrix.named.name], p, z) for matrix in world.judged]

"""Networks of DASH and WACO for GPU kernels: pre-trained on CPU samples, fine-tuned on products of a few matrices.

The featurizer reads statistics of the pattern, which `benchmarks/data` has for CPU samples and GPU samples, so that no
matrix is needed. Width, bytes of a value and elements per load are inputs beside the statistics.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from autosparse.tuner.gpu.model import ITEM_BYTES, predicted_s
from autosparse.tuner.research.collect.files import MEASURED, Measurements, read_folder
from autosparse.tuner.research.networks.autoencoder import AutoEncoder, trained_autoencoder
from autosparse.tuner.research.networks.dash import PARTS, DashModel, StatisticsFeaturizer
from autosparse.tuner.research.targets.gpu import Cpu, Gpu
from autosparse.tuner.research.targets.mapper import MAPPED_WIDTH, mapped
from autosparse.tuner.research.training.few_shot import FewShotSettings, TransferCase, costs_of, fine_tuned, train
from gpulib.samples import GpuProduct
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Base = Callable[[GpuProduct], NDArray[np.floating]]
"""Function that returns costs of a product's candidates by another model, to which a network is added."""

SOURCE_PATTERNS: Final = 100
"""Number of CPU patterns, as in the paper."""
SOURCE: Final = {"spmm": ("spmm32", 32), "sddmm": ("sddmm32", 32)}
"""Operation -> (name of the CPU samples, number of columns)."""
ON_SOURCE: Final = FewShotSettings(mode="all", rate=1e-4, batch=32, epochs=100)
"""Settings of Table 3 of the paper."""
ON_TARGET: Final = FewShotSettings(mode="all", rate=1e-3, batch=128, epochs=60)
"""Settings of fine-tuning: all layers, all programs of a matrix in a step, ten times the paper's rate.

An epoch of five matrices has few steps, and after 100 epochs the network orders held-out pairs worse than after 60.
"""
PRIOR: Final = 5.0
"""Factor of a model's log seconds where a network is added to them: 20 % slower is a cost of about 1."""
BY_PAPER: Final = FewShotSettings(mode="all", rate=1e-4, batch=32, epochs=100)


@dataclass(frozen=True)
class GpuVariant:
    """A row of the table: inputs of the predictor, and concatenated parameters instead of mapped ones."""

    parts: tuple[str, ...] = PARTS
    augmented: bool = False


VARIANTS: Final[Mapping[str, GpuVariant]] = {
    "DASH": GpuVariant(),
    "DASH without IFE": GpuVariant(("configuration", "latent")),
    "DASH without FM": GpuVariant(("pattern", "latent")),
    "DASH without LE": GpuVariant(("pattern", "configuration")),
    "WACO+FM": GpuVariant(("pattern", "configuration")),
    "WACO+FA": GpuVariant(("pattern", "configuration"), augmented=True),
}


@dataclass(frozen=True, eq=False)
class Encoders:
    """Latent codes and one-hot parts of both platforms' heterogeneous parameters."""

    cpu: AutoEncoder = field(repr=False)
    gpu: AutoEncoder = field(repr=False)

    @property
    def width(self) -> int:
        """Number of concatenated parameters of both platforms."""
        return 2 * MAPPED_WIDTH + self.cpu.parts_read.width + self.gpu.parts_read.width

    def cpu_inputs(self, found: Measurements, kept: NDArray[np.int64], variant: GpuVariant) -> tuple[Floats, Floats]:
        """Return configuration rows and latent codes of CPU schedules."""
        schedules = found.super_schedules()
        chosen = [schedules[at] for at in kept.tolist()]
        p, categories = mapped(Cpu(), chosen), [Cpu().heterogeneous(one) for one in chosen]
        if variant.augmented:
            own = np.hstack([p, self.cpu.parts_read.rows(categories)])
            p = np.hstack([own, np.zeros((len(own), self.width - own.shape[1]), np.float32)])
        return p, self.cpu.codes(categories)

    def gpu_inputs(self, product: GpuProduct, variant: GpuVariant) -> tuple[Floats, Floats]:
        """Return configuration rows and latent codes of device schedules."""
        p, categories = mapped(Gpu(), product.schedules), [Gpu().heterogeneous(one) for one in product.schedules]
        if variant.augmented:
            own = np.hstack([p, self.gpu.parts_read.rows(categories)])
            p = np.hstack([np.zeros((len(own), self.width - own.shape[1]), np.float32), own])
        return p, self.gpu.codes(categories)


def seen(vector: Floats, columns: int, item_bytes: int, per_load: int) -> Floats:
    """Return the inputs of the featurizer, (1, width): statistics, then facts of the product."""
    facts = [np.log2(columns) / 8, item_bytes / 4, np.log2(per_load)]
    return np.concatenate([vector, np.array(facts, np.float32)])[None].astype(np.float32)


@dataclass(frozen=True, eq=False)
class CpuSource:
    """Samples of the CPU for one operation, of patterns in none of the GPU's groups."""

    found: Sequence[Measurements] = field(repr=False)
    vectors: Mapping[str, Floats] = field(repr=False)
    columns: int

    @classmethod
    def of(cls, data: Path, operation: str, groups: set[str], n: int, *, seed: int = 0) -> CpuSource:
        """Draw `n` patterns that have statistics and enough measured schedules."""
        with np.load(data / "vectors.npz", allow_pickle=False) as file:
            vectors = {str(one): row for one, row in zip(file["digests"], file["vectors"], strict=True)}
        name, columns = SOURCE[operation]
        known = [one for one in read_folder(data, name) if one.recipe.digest() in vectors]
        known = [one for one in known if one.recipe.group not in groups]
        order = np.random.default_rng(seed).permutation(len(known))[:n].tolist()
        return cls([known[at] for at in order], vectors, columns)

    def categories(self) -> list[tuple[int | str, ...]]:
        """Return the heterogeneous parameters of all schedules."""
        return [Cpu().heterogeneous(one) for found in self.found for one in found.super_schedules()]

    def cases(self, encoders: Encoders, variant: GpuVariant) -> list[TransferCase]:
        """Return the training data."""
        made = []
        for found in self.found:
            kept = np.flatnonzero(found["status"] == MEASURED)
            p, z = encoders.cpu_inputs(found, kept, variant)
            inputs = torch.from_numpy(seen(self.vectors[found.recipe.digest()], self.columns, 4, 4))
            made.append(TransferCase(inputs, p, z, np.asarray(found["ratio"][kept], np.float32)))
        return made


@dataclass(frozen=True, eq=False)
class GpuNetworks:
    """Networks of one operation. Each variant is trained on the CPU's samples at first use, or loaded from `kept`."""

    operation: str
    source: CpuSource = field(repr=False)
    encoders: Encoders = field(repr=False)
    settings: FewShotSettings
    kept: Path | None
    progress: Callable[[str], object] = field(repr=False)
    models: dict[str, DashModel] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, source: CpuSource, products: Sequence[GpuProduct], settings: FewShotSettings, kept: Path | None,
        progress: Callable[[str], object],
    ) -> GpuNetworks:  # fmt: skip
        """Train the autoencoders of both platforms' parameters."""
        categories = sorted({Gpu().heterogeneous(one) for product in products for one in product.schedules}, key=str)
        encoders = Encoders(trained_autoencoder(source.categories()), trained_autoencoder(categories))
        return cls(products[0].operation, source, encoders, settings, kept, progress)

    def pretrained(self, name: str) -> DashModel:
        """Return the network of `name` after training on the CPU's samples."""
        if name not in self.models:
            variant, n = VARIANTS[name], len(self.source.found)
            model = blank(variant, self.encoders, self.settings.seed)
            file = f"gpu-{self.operation}-{n}-{self.settings.epochs}-{name.replace(' ', '-')}.pt"
            path = None if self.kept is None else self.kept / file
            if path is not None and path.exists():
                model.load_state_dict(torch.load(path, weights_only=True))
            else:
                train(model, self.source.cases(self.encoders, variant), self.settings)
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    torch.save(model.state_dict(), path)
                self.progress(f"{self.operation}: {name} trained on {n} CPU patterns")
            self.models[name] = model
        return self.models[name]

    def tuned(
        self, name: str, products: Sequence[GpuProduct], settings: FewShotSettings, *, from_source: bool = True,
        base: Base, anew: tuple[str, ...] = ("latent.",),
    ) -> DashModel:  # fmt: skip
        """Return the network of `name` after training on `products`, matrix by matrix on each device.

        It is trained as an addition to the costs of `base`. Layers of `anew` do not come from the source.
        """
        by: dict[tuple[str, str], list[GpuProduct]] = {}
        for one in products:
            by.setdefault((one.pattern.name, one.device), []).append(one)
        cases = [self._case(some, VARIANTS[name], base) for some in by.values()]
        source = self.pretrained(name) if from_source else blank(VARIANTS[name], self.encoders, settings.seed)
        return fine_tuned(source, cases, settings, anew)

    def _case(self, products: Sequence[GpuProduct], variant: GpuVariant, base: Base) -> TransferCase:
        inputs = [self.encoders.gpu_inputs(one, variant) for one in products]
        lengths = [len(one.schedules) for one in products]
        rows = np.repeat(np.vstack([_seen(one) for one in products]), lengths, axis=0)
        return TransferCase(
            torch.from_numpy(rows), np.vstack([p for p, _ in inputs]), np.vstack([z for _, z in inputs]),
            np.concatenate([one.seconds / one.seconds.min() for one in products]).astype(np.float32),
            np.repeat(np.arange(len(products)), lengths),
            np.concatenate([base(one) for one in products]).astype(np.float32),
        )  # fmt: skip

    def costs(
        self, model: DashModel, name: str, products: Sequence[GpuProduct], base: Base, share: float = 1.0
    ) -> list[NDArray[np.floating]]:
        """Return the costs of every candidate: those of `base`, and `share` times the network's."""
        found: list[NDArray[np.floating]] = []
        for one in products:
            with torch.no_grad():
                s = model.featurizer(torch.from_numpy(_seen(one)))
            own = costs_of(model, s, *self.encoders.gpu_inputs(one, VARIANTS[name]))
            found.append(base(one) + share * own)
        return found


def no_base(product: GpuProduct) -> NDArray[np.floating]:
    """Return zeros: the network alone makes the costs."""
    return np.zeros(len(product.schedules))


@functools.cache
def analytic_costs(product: GpuProduct) -> NDArray[np.float64]:
    """Return the logarithms of the analytic model's seconds."""
    facts, sizes, target = product.pattern.facts, product.sizes, product.target
    return np.log([predicted_s(facts, one, sizes, target) for one in product.schedules])


def _seen(product: GpuProduct) -> Floats:
    per_load = max(one.vector for one in product.schedules)
    return seen(product.pattern.vector, product.columns, ITEM_BYTES[product.dtype], per_load)


def blank(variant: GpuVariant, encoders: Encoders, seed: int) -> DashModel:
    """Return an untrained network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        width = encoders.width if variant.augmented else MAPPED_WIDTH
        return DashModel(StatisticsFeaturizer(81 + 3), variant.parts, configuration_inputs=width)


def seeded(settings: FewShotSettings, seed: int) -> FewShotSettings:
    """Return the settings with this seed."""
    return replace(settings, seed=seed)

"""Pre-training of DASH's network on a source platform, and fine-tuning on a target (3.2, Table 3; extra `train`).

Each Adam step (rate 1e-4) uses some programs of one pattern and all their pairs. The margin ranking loss is the mean
over pairs of max(0, 1 - (r1 - r2) sign(t1 - t2)). The latent layer is re-initialised for a new target.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from autosparse.tuner.research.networks.dash import DashModel
from autosparse.tuner.research.training.checkpoint import Checkpoint
from autosparse.tuner.research.training.pairs import hinge_loss, known_pairs
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowReal, WideIndex

BATCH: Final = 32
EPOCHS: Final = 100
RATE: Final = 1e-4

MODES: Final[Mapping[str, tuple[str, ...]]] = {
    "all": ("",),
    "heads": ("configuration.", "latent.", "predictor."),
    "last layers": ("latent.", "predictor.2", "predictor.4"),
}
"""Parts of the network to fine-tune, as prefixes of parameter names.

The paper does not say; "all" is its likely meaning.
"""


@dataclass(frozen=True, eq=False)
class TransferCase:
    """Training data of one pattern: inputs p and z, and ratio, of each program.

    `seen` is the featurizer's input, or its output s where it is frozen. A case may hold several products of one
    pattern (widths, dtypes) or several patterns: then the embedding has a row for each program, and only programs of
    one product are compared.
    """

    seen: Any = field(repr=False)  # Any: each featurizer has its own type
    p: NDArray[NarrowReal] = field(repr=False)
    z: NDArray[NarrowReal] = field(repr=False)
    ratios: NDArray[NarrowReal] = field(repr=False)
    products: NDArray[WideIndex] | None = field(default=None, repr=False)  # number of each program's product
    base: NDArray[NarrowReal] | None = field(default=None, repr=False)  # costs by another model, to which r is added


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShotSettings:
    """Training settings, Table 3 of the paper. `batch`: programs per step, with a featurizer pass in each step."""

    epochs: int = EPOCHS
    rate: float = RATE
    batch: int = BATCH
    mode: str = "all"
    seed: int = 0


def train(
    model: DashModel,
    cases: Sequence[TransferCase],
    settings: FewShotSettings,
    progress: Callable[[int, float], object] = lambda epoch, loss: None,
    *,
    state: Path | None = None,
) -> DashModel:
    """Train `model` in place and return it; `progress(epoch, mean loss)` is called after every epoch.

    With `state` a training of the same cases and settings that was interrupted continues.
    """
    beginnings = MODES[settings.mode]
    chosen = [value for name, value in model.named_parameters() if name.startswith(beginnings)]
    is_frozen = "" not in beginnings
    fixed = [_patterns(model, case) for case in cases] if is_frozen else []
    optimizer = torch.optim.Adam(chosen, lr=settings.rate, fused=True)  # half the time of a step of small layers
    rng = np.random.default_rng(settings.seed)
    kept = Checkpoint(state, model, optimizer)
    if found := kept.load():
        rng.bit_generator.state = found["rng"]
    for epoch in range(found.get("epochs", 0), settings.epochs):
        losses = []
        for at in rng.permutation(len(cases)).tolist():
            case, order = cases[at], rng.permutation(len(cases[at].ratios))
            for start in range(0, len(order), settings.batch):
                s = fixed[at] if is_frozen else model.featurizer(case.seen)
                losses.append(_step(model, case, s, order[start : start + settings.batch], optimizer))
        kept.save(epochs=epoch + 1, rng=rng.bit_generator.state)
        progress(epoch, float(np.mean(losses)))
    return model


def _patterns(model: DashModel, case: TransferCase) -> torch.Tensor:
    if isinstance(case.seen, torch.Tensor):
        return case.seen
    with torch.no_grad():
        made: torch.Tensor = model.featurizer(case.seen)
    return made


def _step(
    model: DashModel, case: TransferCase, s: torch.Tensor, some: NDArray[WideIndex], optimizer: torch.optim.Optimizer
) -> float:
    slower, faster = known_pairs(case.ratios[some], np.zeros(len(some), Flag))
    if case.products is not None:
        same = case.products[some][slower] == case.products[some][faster]
        slower, faster, s = slower[same], faster[same], s[torch.from_numpy(some)]
    costs = model.costs(s, torch.from_numpy(case.p[some]), torch.from_numpy(case.z[some]))
    if case.base is not None:
        costs = costs + torch.from_numpy(case.base[some])
    loss = hinge_loss(costs, slower, faster)
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss.detach())


def fine_tuned(
    source: DashModel, cases: Sequence[TransferCase], settings: FewShotSettings, anew: tuple[str, ...] = ("latent.",)
) -> DashModel:
    """Return a copy of `source` trained on `cases` of a target; unchanged without cases.

    Layers whose names begin with one of `anew` are initialised first: the latent layer, since codes of two platforms
    share no axis.
    """
    model = copy.deepcopy(source)
    if not cases:
        return model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        for name, layer in model.named_modules():
            if isinstance(layer, torch.nn.Linear) and name.startswith(anew):
                layer.reset_parameters()
    return train(model, cases, settings)


def costs_of(model: DashModel, s: torch.Tensor, p: NDArray[NarrowReal], z: NDArray[NarrowReal]) -> NDArray[NarrowReal]:
    """Return the costs of programs, (n,), on the pattern s."""
    with torch.no_grad():
        found: NDArray[NarrowReal] = model.costs(s, torch.from_numpy(p), torch.from_numpy(z)).numpy()
    return found

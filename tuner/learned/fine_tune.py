"""Fit the last layers of a cost model to measurements of another machine (extra `train`): minutes, not hours.

What patterns and programs *are* does not depend on the machine, what they cost does: the embeddings stay, the runtime
predictor learns. It is pulled back to where it began, and training stops where unseen groups are ordered best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.ranking import known_order, pooled_pairs
from numpy.typing import NDArray

from autosparse.errors import MissingExtraError

Floats = NDArray[np.float32]

EPOCHS: Final = 60
RATE: Final = 3e-4
PULL: Final = 1e-3
"""Weight of the squared distance from the weights that it began with."""
LAYERS: Final = ("final.0", "final.2", "final.4")


@dataclass(frozen=True, eq=False)
class Example:
    """One pattern, its programs, their ratios and which of those are lower bounds.

    As the model keeps them: embeddings (128,) and (n, 128), or a sketch and codes (n, columns) for boosted trees.
    """

    pattern: Floats
    programs: NDArray[Any]
    ratios: Floats
    censored: NDArray[np.bool_]
    validates: bool


def fine_tuned(
    tensors: dict[str, NDArray[Any]], examples: Sequence[Example], *, epochs: int = EPOCHS, seed: int = 0
) -> tuple[dict[str, NDArray[Any]], float, float]:
    """(tensors with new last layers, share of unseen pairs in order before, after).

    Pairwise hinge loss as in training (WACO §4.1.3). MissingExtraError without torch. The old layers come back when no
    epoch orders more validation pairs.
    """
    torch = _torch()
    names = [f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")]
    start = {name: torch.from_numpy(np.array(tensors[name], np.float32)) for name in names}
    layers = {name: value.clone().requires_grad_() for name, value in start.items()}
    optimizer = torch.optim.Adam(layers.values(), lr=RATE)
    unseen = [one for one in examples if one.validates] or list(examples)
    seen = [one for one in examples if not one.validates] or list(examples)
    before = best = _pairs_in_order(torch, layers, unseen)
    kept = {name: value.clone() for name, value in start.items()}
    for epoch in range(epochs):
        for at in np.random.default_rng([seed, epoch]).permutation(len(seen)).tolist():
            optimizer.zero_grad()
            pull = sum(((layers[name] - start[name]) ** 2).sum() for name in names)
            loss = _loss(torch, layers, seen[at]) + PULL * pull
            loss.backward()
            optimizer.step()
        now = _pairs_in_order(torch, layers, unseen)
        if now > best:
            best, kept = now, {name: value.detach().clone() for name, value in layers.items()}
    return {**tensors, **{name: value.numpy() for name, value in kept.items()}}, before, best


def _costs(torch: Any, layers: dict[str, Any], one: Example) -> Any:
    programs = torch.from_numpy(one.programs)
    x = torch.cat([torch.from_numpy(one.pattern).expand(len(programs), -1), programs], dim=1)
    for layer in LAYERS:
        x = torch.nn.functional.linear(x, layers[f"{layer}.weight"], layers[f"{layer}.bias"])
        x = torch.relu(x) if layer != LAYERS[-1] else x
    return x.squeeze(1)


def _loss(torch: Any, layers: dict[str, Any], one: Example) -> Any:
    slower, faster = np.nonzero(known_order(one.ratios, one.censored) > 0)
    costs = _costs(torch, layers, one)
    if not len(slower):
        return costs.sum() * 0.0
    return torch.relu(1.0 - (costs[slower] - costs[faster])).mean()


def _pairs_in_order(torch: Any, layers: dict[str, Any], examples: Sequence[Example]) -> float:
    with torch.no_grad():
        return pooled_pairs((_costs(torch, layers, one).numpy(), one.ratios, one.censored) for one in examples)


def _torch() -> Any:  # Any: the optional module
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtraError.needed("torch", extra="train", purpose="fine-tuning a cost model") from None
    return torch

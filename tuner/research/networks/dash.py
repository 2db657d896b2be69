"""DASH's network (section 3.2, Tables 4 and 5): 12 sparse convolutions embed a pattern, a perceptron adds the program.

s = IFE(pattern), p = embedding of 53 mapped numbers, z = embedding of the latent code; cost = P(s, p, z).

The paper leaves some details open. This implementation uses submanifold convolutions with ReLU, and 2 x 2 max pooling
with stride 2 after each of the first three blocks. It concatenates the means over cells after every block (64 + 128 +
256 + 256 numbers, "features at various depths"). It concatenates three embeddings of 128, 64 and 64, where Table 5 adds
up to 192. The paper does not describe its alternatives to the perceptron (Figure 8), recurrent networks and a
Transformer. Here these read the embeddings as a sequence, one element each, and a linear layer reads the last element
of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.networks.convolution import Rectify, SparseConvolution, SparseFeatures, global_average
from autosparse.tuner.research.networks.lattice import Lattice
from autosparse.tuner.research.networks.waconet import lattice_of
from autosparse.tuner.research.targets.mapper import LATENT_WIDTH, MAPPED_WIDTH

WIDTH: Final = 64
"""Width of an element of the sequence, and of the state."""
N_HEADS: Final = 4
"""Number of attention heads of the Transformer."""


class SequencePredictor(torch.nn.Module):
    """Predictor that reads embeddings of the given widths as a sequence."""

    def __init__(self, widths: Sequence[int], reader: torch.nn.Module) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.elements = torch.nn.ModuleList(torch.nn.Linear(width, WIDTH) for width in widths)
        self.reader = reader
        self.cost = torch.nn.Linear(WIDTH, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the costs, (n, 1), from the concatenated embeddings (n, sum of widths)."""
        parts = inputs.split(self.widths, dim=1)  # type: ignore[no-untyped-call]
        sequence = torch.stack([layer(part) for layer, part in zip(self.elements, parts, strict=True)], dim=1)
        read = self.reader(sequence)
        states = read[0] if isinstance(read, tuple) else read  # recurrent networks also return their last state
        costs: torch.Tensor = self.cost(states[:, -1])
        return costs


def perceptron(widths: Sequence[int]) -> torch.nn.Module:
    """Return the predictor of Table 5, three linear layers."""
    return torch.nn.Sequential(
        torch.nn.Linear(sum(widths), 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1),
    )  # fmt: skip


def lstm(widths: Sequence[int]) -> torch.nn.Module:
    """Return a predictor with a long short-term memory of one layer."""
    return SequencePredictor(widths, torch.nn.LSTM(WIDTH, WIDTH, batch_first=True))


def gru(widths: Sequence[int]) -> torch.nn.Module:
    """Return a predictor with gated recurrent units of one layer."""
    return SequencePredictor(widths, torch.nn.GRU(WIDTH, WIDTH, batch_first=True))


def transformer(widths: Sequence[int]) -> torch.nn.Module:
    """Return a predictor with one Transformer encoder layer, without dropout."""
    layer = torch.nn.TransformerEncoderLayer(WIDTH, N_HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
    return SequencePredictor(widths, layer)


PREDICTORS: Final[Mapping[str, Callable[[Sequence[int]], torch.nn.Module]]] = {
    "mlp": perceptron, "lstm": lstm, "gru": gru, "transformer": transformer,
}  # fmt: skip
"""Functions that make a predictor for embeddings of given widths, by name."""


BLOCKS: Final = (
    ((1, 32, 5), (32, 32, 3), (32, 64, 3)),
    ((64, 64, 3), (64, 64, 3), (64, 128, 3)),
    ((128, 128, 3), (128, 128, 3), (128, 256, 3)),
    ((256, 256, 3), (256, 256, 3), (256, 256, 3)),
)
"""Layers as (input channels, output channels, kernel size); every block but the last ends with pooling."""
PATTERN_WIDTH: Final = 128
CONFIGURATION_WIDTH: Final = 64
PRESENT: Final = 1 / 3
"""Approximate share of a kernel's offsets at which real patterns have a neighbour."""
ENTRIES_SEEN: Final = 1 << 12
"""Maximum number of entries read; the first block takes 28,000 multiply-adds per pair of neighbours."""
ROWS_APART: Final = 1 << (len(BLOCKS) - 1)
"""Rows of one cell after all poolings; patterns of a group begin at multiples, with at least one empty cell between."""
PARTS: Final = ("pattern", "configuration", "latent")
"""Inputs of the predictor; the paper's ablation (Figure 7) omits one at a time."""


class MaxPool(torch.nn.Module):
    """Layer that takes the maximum over the occupied cells of each `size` x `size` block, on the coarser lattice."""

    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: SparseFeatures) -> SparseFeatures:
        """Return the pooled features, (cells of the coarser lattice, channels)."""
        pairs = inputs.lattice.kernel_map(self.size, self.size)
        values = inputs.values.index_select(0, pairs.inputs.long())
        where = pairs.outputs.long()[:, None].expand_as(values)
        lowest = values.new_full((pairs.n_outputs, values.shape[1]), -math.inf)
        return SparseFeatures(
            inputs.lattice.coarser(self.size), lowest.scatter_reduce(0, where, values, "amax", include_self=True)
        )


@dataclass(frozen=True, eq=False)
class Together:
    """Several patterns as one lattice, block after block along the first axis, so that a step computes all of them."""

    lattice: Lattice = field(repr=False)
    starts: torch.Tensor = field(repr=False)  # first row of each pattern, multiples of ROWS_APART
    of_program: torch.Tensor = field(repr=False)  # number of the pattern of each program
    _pattern_of: dict[int, torch.Tensor] = field(default_factory=dict, repr=False)  # of each cell, by level

    def averages(self, features: SparseFeatures, level: int) -> torch.Tensor:
        """Return the mean over the cells of each pattern, (patterns, channels), after `level` poolings."""
        if level not in self._pattern_of:
            rows = features.lattice.coordinates[:, 0].contiguous()
            self._pattern_of[level] = torch.searchsorted(self.starts >> level, rows, right=True) - 1
        which = self._pattern_of[level]
        total = features.values.new_zeros(len(self.starts), features.values.shape[1])
        n_cells = torch.bincount(which, minlength=len(self.starts)).clamp(min=1)
        return total.index_add(0, which, features.values) / n_cells[:, None]


class InputFeaturizer(torch.nn.Module):
    """Network from a pattern to (1, PATTERN_WIDTH); above `limit` entries it reads only those in `panels`.

    From patterns that `prepare_together` joined, the network computes one row per program.
    """

    def __init__(self, limit: int = ENTRIES_SEEN) -> None:
        super().__init__()
        self.limit = limit
        self.blocks = torch.nn.ModuleList(
            torch.nn.ModuleList(_layer(n_in, n_out, kernel_size=size) for n_in, n_out, size in block)
            for block in BLOCKS
        )
        self.rectify, self.pool = Rectify(), MaxPool()
        width = sum(block[-1][1] for block in BLOCKS)
        self.embedding = torch.nn.Sequential(torch.nn.Linear(width, PATTERN_WIDTH), torch.nn.ReLU())

    def prepare(self, pattern: Coordinates) -> Lattice:
        """Return the lattice of the pattern, which does not depend on the weights."""
        return lattice_of(pattern.looked_at(self.limit))

    def prepare_together(self, patterns: Sequence[Coordinates], n_programs: Sequence[int]) -> Together:
        """Return matrices as one lattice; the i-th matrix is that of the next ``n_programs[i]`` programs."""
        some = [one.looked_at(self.limit) for one in patterns]
        extents = np.array([one.shape for one in some])
        starts = np.concatenate([[0], np.cumsum(-(-extents[:, 0] // ROWS_APART) * ROWS_APART + 2 * ROWS_APART)])
        rows = np.concatenate([one.indices[0] + start for one, start in zip(some, starts[:-1], strict=True)])
        columns = np.concatenate([one.indices[1] for one in some])
        lattice = Lattice.of(np.stack([rows, columns], axis=1), (int(starts[-1]), int(extents[:, 1].max())))
        of_program = torch.repeat_interleave(torch.arange(len(some)), torch.tensor(n_programs))
        return Together(lattice, torch.from_numpy(starts[:-1]), of_program)

    def forward(self, seen: Lattice | Together) -> torch.Tensor:
        """Return the embedding s of one pattern, or that of every program's pattern."""
        group = seen if isinstance(seen, Together) else None
        at, means = SparseFeatures.ones(seen.lattice if isinstance(seen, Together) else seen), []
        for number, block in enumerate(self.blocks, start=1):
            assert isinstance(block, torch.nn.ModuleList)
            for layer in block:
                at = self.rectify(layer(at))
            means.append(global_average(at) if group is None else group.averages(at, number - 1))
            if number < len(self.blocks):
                at = self.pool(at)
        embedded: torch.Tensor = self.embedding(torch.cat(means, dim=1))
        return embedded if group is None else embedded.index_select(0, group.of_program)


class StatisticsFeaturizer(torch.nn.Module):
    """Network from statistics of patterns, (n, width), to (n, PATTERN_WIDTH); it reads no entries."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(width, PATTERN_WIDTH), torch.nn.ReLU(),
            torch.nn.Linear(PATTERN_WIDTH, PATTERN_WIDTH), torch.nn.ReLU(),
        )  # fmt: skip

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the embeddings s, one row per row of `seen`."""
        embedded: torch.Tensor = self.layers(seen)
        return embedded


class DashModel(torch.nn.Module):
    """Cost model (DASH) of programs on a pattern: pattern embedding s, mapped features p, latent codes z -> costs.

    `parts` selects the predictor's inputs from PARTS, and `predictor` its kind from PREDICTORS. `featurizer` makes s,
    (1, PATTERN_WIDTH), from its prepared input.
    """

    def __init__(
        self, featurizer: torch.nn.Module, parts: Sequence[str] = PARTS, *, configuration_inputs: int = MAPPED_WIDTH,
        predictor: str = "mlp",
    ) -> None:  # fmt: skip
        super().__init__()
        unknown = set(parts) - set(PARTS)
        if unknown or not parts:
            raise ValueError(f"parts {tuple(parts)} must be some of {PARTS}")
        self.parts = tuple(parts)
        self.featurizer = featurizer
        self.configuration = torch.nn.Sequential(
            torch.nn.Linear(configuration_inputs, CONFIGURATION_WIDTH), torch.nn.ReLU()
        )
        self.latent = torch.nn.Sequential(torch.nn.Linear(LATENT_WIDTH, LATENT_WIDTH), torch.nn.ReLU())
        widths = {"pattern": PATTERN_WIDTH, "configuration": CONFIGURATION_WIDTH, "latent": LATENT_WIDTH}
        self.predictor = PREDICTORS[predictor]([widths[name] for name in self.parts])

    def costs(self, s: torch.Tensor, p: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Return the costs, (n,), of programs with rows p (n, 53) and z (n, 64) on the pattern s (1, 128).

        With n rows of s, each program has a pattern of its own.
        """
        made = {"pattern": s.expand(len(p), -1), "configuration": self.configuration(p), "latent": self.latent(z)}
        read: torch.Tensor = self.predictor(torch.cat([made[name] for name in self.parts], dim=1))
        return read.squeeze(1)


def _layer(n_in: int, n_out: int, *, kernel_size: int) -> SparseConvolution:
    """Return a layer with normal weights, scaled to preserve the signal in sparse neighbourhoods (He et al. 2015)."""
    layer = SparseConvolution(n_in, n_out, kernel_size=kernel_size)
    torch.nn.init.normal_(layer.kernel, std=math.sqrt(2.0 / (kernel_size**2 * PRESENT * n_in)))
    return layer

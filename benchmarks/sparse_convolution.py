"""Time each layer of WACONet on one pattern with our sparse convolution and with MinkowskiEngine's.

    python benchmarks/sparse_convolution.py --family uniform --nnz 1000000
    python benchmarks/sparse_convolution.py --family mesh --backends own,minkowski --repeats 3

Times are in milliseconds. `map` is the time to find the cells that a layer connects, once per pattern. `forward` and
`backward` use an existing map and are the minimum over the repeats. MinkowskiEngine finds its maps in the first forward
pass, so its `map` is the difference of that pass and a later one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.networks.waconet import N_LAYERS, WACONet, lattice_of


def seconds(work: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def layers(network: WACONet, cells: torch.nn.Module, repeats: int) -> list[tuple[int, float, float, float]]:
    """Return (input cells, map, forward, backward) of each layer; times are in seconds."""
    rows = []
    at = network._backend.ones(cells)
    for name in range(1, N_LAYERS + 1):
        layer = network.get_submodule(f"layer{name}")
        values = at.F if hasattr(at, "F") else at.values
        first_s = seconds(lambda layer=layer, at=at: layer(at))
        forward_s = min(seconds(lambda layer=layer, at=at: layer(at)) for _ in range(repeats))
        backward_s = []
        for _ in range(repeats):
            out = layer(at)
            result = out.F if hasattr(out, "F") else out.values
            upper = torch.ones_like(result)
            backward_s.append(seconds(lambda result=result, upper=upper: result.backward(upper, retain_graph=False)))
            at = detached(at)
        rows.append((len(values), max(0.0, first_s - forward_s), forward_s, min(backward_s)))
        at = detached(layer(at))
    return rows


def detached(features: object) -> object:
    """Return the features as a new leaf that requires a gradient, so that each layer's backward pass is timed alone."""
    if hasattr(features, "F"):
        return type(features)(
            features.F.detach().requires_grad_(),
            coordinate_map_key=features.coordinate_map_key,
            coordinate_manager=features.coordinate_manager,
        )
    if features.is_one:
        return features
    return type(features)(features.lattice, features.values.detach().requires_grad_())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="uniform", choices=sorted(FAMILIES))
    parser.add_argument("--nnz", type=int, default=1_000_000)
    parser.add_argument("--backends", default="own", help="own,minkowski")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    pattern = generate(arguments.family, nnz=arguments.nnz, seed=1)
    print(f"{arguments.family}, {pattern.shape}, {pattern.nnz:,} nonzeros, {torch.get_num_threads()} threads")
    print("backend    layer      cells     map  forward  backward  [ms]")
    for backend in arguments.backends.split(","):
        network = WACONet(len(pattern.shape), backend, limit=pattern.nnz)
        rows = layers(network, lattice_of(pattern), arguments.repeats)
        for name, (n_cells, *times_s) in enumerate(rows, start=1):
            cells = "  ".join(f"{1e3 * time_s:7.1f}" for time_s in times_s)
            print(f"{backend:9} {name:6} {n_cells:10,} {cells}")
        total = "  ".join(f"{1e3 * sum(row[at] for row in rows):7.1f}" for at in (1, 2, 3))
        print(f"{backend:9}    all {'':10} {total}")


if __name__ == "__main__":
    main()

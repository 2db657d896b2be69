"""A small collection with times that follow a rule, so that there is something to learn."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra: train)")

from autosparse.tuner.research.collect.files import CENSORED, MEASURED, REFUSED, SCHEDULE_COLUMNS, Measurements, write  # noqa: E402
from autosparse.tuner.research.collect.recipes import Recipe  # noqa: E402
from autosparse.tuner.research.space.waco import waco_space  # noqa: E402
from autosparse.tuner.space.own import own_space  # noqa: E402

FAMILIES = ("banded", "uniform", "blocks", "mesh")


def collection(folder, op="spmv", n_patterns=10, n_schedules=24, seed=0):
    """Write measurements in which wide unrolling gains on long rows only; some schedules are censored or refused."""
    rng = np.random.default_rng(seed)
    own, waco = own_space("spmv", threads=(0, 1, 2)), waco_space("spmv", threads=(1, 2))
    for at in range(n_patterns):
        family = FAMILIES[at % len(FAMILIES)]
        recipe = Recipe(kind="generated", source=family, group=f"generated:{family}:{at}", nnz=600, seed=at)
        schedules = list(dict.fromkeys(own.sample(rng) for _ in range(n_schedules)))
        schedules += [waco.sample(rng) for _ in range(4)]
        pattern = recipe.make(None)
        likes = 1 if pattern.nnz > 8 * pattern.shape[0] else -1
        dynamic = np.array([one.partition == "dynamic" for one in schedules])
        unrolled = np.array([np.log2(one.unroll) for one in schedules])
        ratios = np.exp(0.5 * dynamic - 0.2 * likes * unrolled + 0.01 * rng.random(len(schedules)))
        status = np.full(len(schedules), MEASURED)
        status[(np.arange(len(schedules)) % 8 == 7) & (ratios > 1)] = CENSORED
        status[0] = REFUSED
        write(folder / op / f"{at:03}.npz", measurements(recipe, op, schedules, ratios, status))
    return folder


def measurements(recipe, op, schedules, ratios, status):
    columns = {name: np.zeros(len(schedules), dtype) for name, dtype in SCHEDULE_COLUMNS.items()}
    columns["ratio"] = ratios.astype(np.float32)
    columns["ratio"][status == REFUSED] = np.nan
    columns["status"] = status.astype(np.uint8)
    batches = {
        "default_s": np.array([1e-3], np.float32),
        "default_fastest_s": np.array([1e-3], np.float32),
        "others_load": np.array([0.0], np.float32),
    }
    facts = {
        "op": op, "recipe": {name: getattr(recipe, name) for name in recipe.__slots__}, "shape": [1, 1], "nnz": 1,
        "machine": {"model": "none"},
    }  # fmt: skip
    return Measurements(facts, [one.to_json() for one in schedules], columns, batches)

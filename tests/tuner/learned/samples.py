"""Helpers that the tests of learned models share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from autosparse.tuner.research.collect.files import Measurements, read, read_folder, write

from autosparse import cli
from autosparse.core.schedule import SuperSchedule


def write_structure(folder: Path, op: str) -> None:
    """Replace measured times by times that follow from the schedules, so that a model can learn them on any machine.

    Times of a few small patterns from a busy machine may have no structure, and calibration then refuses.
    """
    for path in sorted((folder / op).glob("*.npz")):
        write(path, with_structure(read(path)))


def with_structure(found: Measurements) -> Measurements:
    """Return the measurements with times that are longer for formats other than CSR and for dynamic partitions."""
    schedules = [SuperSchedule.from_json(text) for text in found.schedules]
    ratio = np.array([1.0 + 1.5 * (not one.format.is_csr) + 0.5 * (one.partition == "dynamic") for one in schedules])
    default_s = np.asarray(found.batches["default_s"], dtype=np.float64)[found.columns["heat"]]
    times = {"ratio": ratio, "seconds": ratio * default_s, "fastest_s": 0.9 * ratio * default_s}
    ran = np.isfinite(found.columns["ratio"])
    columns = {name: np.where(ran, values, found.columns[name]) for name, values in times.items()}
    return dataclasses.replace(found, columns={**found.columns, **columns})


def tiny_model(folder: Path, op: str, extractor: str = "statistics") -> str:
    """Run collect and train for a tiny model of `op`; return the folder of models."""
    needs = "sklearn" if extractor == "boosted" else "torch"
    pytest.importorskip(needs, reason=f"{needs} is not installed (extra: train)")
    data, run, models = (str(folder / name) for name in ("data", "run", "models"))
    assert cli.main(["collect", "--out", data, "--ops", op, "--patterns", "5", "--schedules", "8"]) == 0
    assert len(list(read_folder(folder / "data", op))) == 5
    write_structure(folder / "data", op)
    train = ["train", "--data", data, "--op", op, "--extractor", extractor, "--epochs", "4", "--out", run]
    assert cli.main([*train, "--rate", "1e-3", "--threads", "1"]) == 0
    Path(models).mkdir()
    (Path(models) / f"{op}.safetensors").symlink_to(folder / "run" / "weights.safetensors")
    return models

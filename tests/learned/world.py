"""What tests of the learned tier begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from autosparse.tuner.collect.files import read_folder

from autosparse import cli


def tiny_model(folder: Path, op: str, extractor: str = "statistics") -> str:
    """collect -> train -> calibrate (fine-tuning, scale, graph) of a tiny model of `op`: the folder of models."""
    needs = "sklearn" if extractor == "boosted" else "torch"
    pytest.importorskip(needs, reason=f"{needs} is not installed (extra: train)")
    pytest.importorskip("hnswlib", reason="hnswlib is not installed (extra: train)")
    data, run, models = (str(folder / name) for name in ("data", "run", "models"))
    assert cli.main(["collect", "--out", data, "--ops", op, "--patterns", "5", "--schedules", "8"]) == 0
    assert len(list(read_folder(folder / "data", op))) == 5
    train = ["train", "--data", data, "--op", op, "--extractor", extractor, "--epochs", "4", "--out", run]
    assert cli.main([*train, "--rate", "1e-3", "--threads", "1"]) == 0
    weights = str(folder / "run" / "weights.safetensors")
    calibrate = ["calibrate", "--ops", op, "--weights", weights, "--data", data, "--out", models]
    assert cli.main([*calibrate, "--epochs", "20", "--programs", "200"]) == 0
    return models

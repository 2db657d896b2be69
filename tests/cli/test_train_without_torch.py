"""Test of `train` without PyTorch: the message names the extra to install."""

from __future__ import annotations

import sys

import pytest

from autosparse import cli


def test_train_without_torch_names_the_extra(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("autosparse.tuner.research.networks")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    status = cli.main(["train", "--data", str(tmp_path), "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    assert status != 0
    assert "torch" in said
    assert "autosparse[train]" in said

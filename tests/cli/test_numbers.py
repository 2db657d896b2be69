"""Tests of numbers on the command line: a value out of range ends the command at once and names the valid range."""

from __future__ import annotations

import pytest

from autosparse import cli

COMMANDS = {
    "collect": ["--out", "DIR"],
    "train": ["--data", "DIR", "--out", "DIR"],
    "tune": ["matrix.npz"],
    "bench": ["matrix.npz"],
}


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("collect", "--schedules", "-3"),
        ("collect", "--proposed", "-1"),
        ("collect", "--templates", "0"),
        ("collect", "--patterns", "-1"),
        ("collect", "--seed", "-1"),
        ("collect", "--min-nnz", "many"),
        ("collect", "--seconds", "-1"),
        ("train", "--trees", "0"),
        ("train", "--batch", "2.5"),
        ("train", "--seconds", "nan"),
        ("tune", "--runs", "0"),
        ("bench", "--min-nnz", "-1"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(command, option, value, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main([command, *COMMANDS[command], option, value])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert option in said
    assert repr(value) in said
    assert ">= " in said
    assert list(tmp_path.iterdir()) == []

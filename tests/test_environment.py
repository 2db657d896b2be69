"""Test of the warning about an environment variable that resembles a setting: it is given once."""

from __future__ import annotations

import logging

from autosparse import config


def test_a_misspelt_variable_is_noticed_once(monkeypatch, caplog):
    monkeypatch.setenv("AUTOSPARSE_TREADS", "2")
    monkeypatch.setenv("AUTOSPARSE_MATRICES", "/nowhere")
    monkeypatch.setattr(config, "_noticed", set())
    with caplog.at_level(logging.WARNING, logger="autosparse"):
        for _ in range(2):
            config.reload_options()
            config.get_options()
    assert [record.getMessage() for record in caplog.records] == [
        "the environment variable AUTOSPARSE_TREADS is no setting; did you mean AUTOSPARSE_THREADS?"
    ]

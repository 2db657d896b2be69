"""Tests of log records, which carry their tag and facts, and of progress lines, which need a terminal."""

from __future__ import annotations

import io
import logging
import re

import pytest

from autosparse import log
from tests.house.sources import library


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("tag", log.EVENTS)
def test_record_has_tag_level_and_facts(tag, caplog):
    with caplog.at_level(logging.DEBUG, logger="autosparse"):
        log.event(tag, "words", columns=32, kind="CSR")
    (record,) = caplog.records
    assert (record.event, record.facts, record.levelno) == (tag, {"columns": 32, "kind": "CSR"}, log.EVENTS[tag])
    assert record.getMessage() == f"{tag}: words columns=32 kind=CSR"
    assert record.filename == "test_log.py"


@pytest.mark.parametrize("tag", log.EVENTS)
def test_some_module_emits_each_tag(tag):
    assert any(re.search(rf'\bevent\(\s*"{tag}"', source.text) for source in library())


def test_unheard_records_are_not_made(caplog):
    with caplog.at_level(logging.CRITICAL, logger="autosparse"):
        log.event("plan", "words")
    assert not caplog.records


def test_unknown_tag_is_a_mistake():
    with pytest.raises(KeyError):
        log.event("nonsense")


def test_progress_draws_at_intervals_and_ends_the_line(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    times_s = iter([0.0, 0.01, 0.2, 0.21])
    stream = Terminal()
    show = log.progress_line(stream, clock=lambda: next(times_s), interval_s=0.1)
    for fraction, text in ((0.0, "begin"), (0.1, "too soon"), (0.5, "half"), (1.0, "done")):
        show(fraction, text)
    drawn = stream.getvalue()
    assert "too soon" not in drawn
    assert [word in drawn for word in ("begin", "half", "done")] == [True] * 3
    assert drawn.endswith("\n")


@pytest.mark.parametrize("watched", [False, True])
def test_progress_is_silent_without_a_terminal_and_in_ci(watched, monkeypatch):
    monkeypatch.setenv("CI", "true") if watched else monkeypatch.delenv("CI", raising=False)
    stream = Terminal() if watched else io.StringIO()
    log.progress_line(stream)(0.5, "half")
    assert stream.getvalue() == ""

"""House test: planners identify candidates by choice, never by object identity."""

from __future__ import annotations

import re

from tests.house.sources import sources

DECIDING = ("autosparse.tuning", "autosparse.tuner.search")
"""Packages that choose among candidates."""


def test_candidates_are_not_identified_by_address() -> None:
    deciding = [one for one in sources() if one.name.startswith(DECIDING)]
    assert len(deciding) > 40
    found = [
        f"{one.name}:{at}"
        for one in deciding
        for at, line in enumerate(one.text.splitlines(), 1)
        if re.search(r"(?<![\w.])id\(", line)
    ]
    assert not found, found

"""Facts about machine and library that records of measurements contain."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from autosparse import _native
from autosparse._native.kernels.identity import code_digest
from autosparse._version import __version__
from autosparse.config import get_options
from autosparse.core.schedule import SCHEDULE_VERSION
from autosparse.core.target import Target
from autosparse.tuner.space.families import space_signature
from autosparse.tuning.rates.record import rates_in_use


def machine_facts() -> dict[str, Any]:
    """Return the facts beside pattern and schedule that affect timings; every record contains them."""
    settings = get_options()
    rates = rates_in_use(settings, Target.host().held_to(settings.isa)).rates
    return {
        **asdict(Target.host().held_to(settings.isa)),
        **({"rates": rates.to_data()} if rates is not None else {}),
        "library": __version__,
        "schedule_version": SCHEDULE_VERSION,
        "space": space_signature(),
        "code": code_digest("c"),
        "compiler": _native.compiler_id(settings.compiler),
    }

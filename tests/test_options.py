"""Tests that an option is checked when it is set: values with which no product can be computed raise an error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import autosparse as asp
from autosparse.config import SETTINGS, parse_setting
from autosparse.errors import OptionError

BAD: tuple[tuple[str, Any], ...] = (
    ("threads", 2**31), ("threads", 4097), ("threads", 0),
    ("threads", 1.5), ("threads", True), ("threads", math.inf), ("threads", [2]),
    ("output_pool_bytes", 2**63), ("output_pool_bytes", -1), ("extra_memory", math.inf), ("extra_memory", math.nan),
    ("extra_memory", -0.5), ("extra_memory", 1e300), ("runs", math.inf), ("runs", math.nan), ("runs", 10**400),
    ("runs", 0), ("overhead", math.nan), ("overhead", 1.1), ("budget_s", math.nan), ("budget_s", 10**400),
    ("cache_max_bytes", 10**5000), ("cache_dir", "a\0b"), ("cache_dir", 3), ("cache_dir", ""), ("dump_dir", "a\0b"),
    ("effort", ["off"]), ("effort", None), ("storage", "float8"), ("isa", 3), ("deterministic", "perhaps"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{name}-{number}" for number, (name, _) in enumerate(BAD)])
def test_values_outside_of_the_domain_are_refused_when_they_are_set(name: str, value: Any) -> None:
    before = asp.get_options()
    with pytest.raises(OptionError, match=rf"(?s)option {name}=.*must be .*Hint: "):
        asp.set_options(**{name: value})
    with pytest.raises(OptionError, match=name):
        asp.options(**{name: value})  # before any block is entered
    assert asp.get_options() == before


@pytest.mark.parametrize("value", ["inf", "1e400", "9" * 5000, "2147483648", "x"])
def test_the_environment_is_no_exception(value: str) -> None:
    with pytest.raises(OptionError, match="environment variable AUTOSPARSE_THREADS="):
        parse_setting("threads", value, source="environment variable")
    assert SETTINGS["threads"].env == "AUTOSPARSE_THREADS"


def test_the_largest_values_can_be_computed_with() -> None:
    most = {"threads": 4096, "extra_memory": 1e6, "runs": 2**63 - 1, "output_pool_bytes": 2**63 - 1}
    with asp.options(**most, cache_max_bytes=2**63 - 1, budget_s=math.inf, effort="estimate", cache=False):
        A = asp.csr(np.eye(60))
        for _ in range(30):
            np.testing.assert_array_equal(A @ np.ones((60, 4)), np.ones((60, 4)))
            np.testing.assert_array_equal(A.T @ np.ones(60), np.ones(60))
        assert (A @ A).nnz == 60


def test_a_misspelt_name_is_suggested() -> None:
    with pytest.raises(
        OptionError, match=r"^unknown option 'thread'\n  The options are (.|\n)*Hint: did you mean threads\?"
    ):
        asp.set_options(thread=2)
    with pytest.raises(OptionError, match=r"Hint: help\(autosparse\.Options\)"):
        asp.set_options(colour=2)
    with pytest.raises(OptionError, match=r"argument effort='mesure' is not valid(.|\n)*Hint: did you mean measure\?"):
        asp.csr(np.eye(3)).tune(effort="mesure")
    for name, value, hint in (
        ("columns", "a", "set columns to an integer"),
        ("dtype", "float32", "set dtype to the dtype"),
    ):
        with pytest.raises(OptionError, match=rf"argument {name}=(.|\n)*Hint: {hint}"):
            asp.csr(np.eye(3)).tune(**{name: value})


def test_help_describes_each_field() -> None:
    for row in SETTINGS.values():
        assert row.help in getattr(asp.Options, row.name).__doc__


def test_a_type_is_shown_by_its_name() -> None:
    with pytest.raises(OptionError, match=r"argument dtype=<class 'numpy\.float32'> is not valid"):
        asp.csr(np.eye(3)).tune(dtype=np.float32)

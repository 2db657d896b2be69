"""Tests that every kind of kernel and every report use the instruction set that the C runtime detected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.c.build import ISA_FLAGS, Compilations

import autosparse as asp
from autosparse import config
from autosparse.cli import doctor
from autosparse.contraction import remembered
from autosparse.contraction.lower import kernel as einsum_kernel
from autosparse.core import target
from autosparse.core.target import VECTOR_BYTES, Target
from autosparse.isa import ISAS, best_isa, isas_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")
EVERYTHING = set().union(*(row.cpu_flags for row in ISAS.values()))


def test_the_runtime_says_what_the_processor_has_not_proc_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    """An emulator shows the CPU flags of its host in /proc/cpuinfo, so the runtime's own detection must count."""
    for name in ISAS:
        monkeypatch.setattr(runtime_api, "best_isa", lambda name=name: name)
        for flags in (set(), EVERYTHING):
            monkeypatch.setattr(target, "_cpu_info", lambda flags=flags: {"flags": " ".join(flags)})
            assert Target.host.__wrapped__(Target).isa == name


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="no /proc/cpuinfo")
def test_fields_of_the_processor_are_those_of_the_first_block() -> None:
    first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    found = target._cpu_info()
    assert list(found) == [line.split(":", 1)[0].strip() for line in first.splitlines() if ":" in line]
    assert found.get("processor", "0") == "0"


def test_the_runtime_and_the_target_agree_here() -> None:
    assert runtime_api.ISA_LEVELS[Target.host().isa] == runtime_api.lib.asp_best_isa()


def test_a_machine_is_held_to_a_lower_instruction_set_and_never_to_a_higher() -> None:
    host = Target.host()
    for row in isas_of():
        assert ISAS[host.held_to(row.name).isa].level == min(row.level, ISAS[host.isa].level)
    for row in ISAS.values():
        assert row.exists_on(host.machine) or host.held_to(row.name) is host
    assert host.held_to(None) is host


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_levels_count_the_sets_of_a_family_from_the_one_that_every_processor_has(machine: str) -> None:
    rows = isas_of(machine)
    assert [row.level for row in rows] == list(range(len(rows)))
    assert [row.vector_bytes for row in rows] == sorted(row.vector_bytes for row in rows)
    assert best_isa((), machine).cpu_flags == frozenset()
    assert best_isa(EVERYTHING, machine) is rows[-1]


def test_the_rows_agree_with_the_runtime() -> None:
    """The runtime's levels must have the rows' vector widths; any further one must be refused."""
    for row in isas_of():
        assert runtime_api.lib.asp_force_isa(row.level) == min(row.level, runtime_api.lib.asp_best_isa())
        if row.level <= runtime_api.lib.asp_best_isa():
            assert runtime_api.lib.asp_vector_bytes() == row.vector_bytes
    assert runtime_api.lib.asp_force_isa(-1) == runtime_api.lib.asp_best_isa()


@pytest.mark.parametrize("isa", VECTOR_BYTES)
def test_every_generated_kernel_keeps_to_the_setting(isa: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_one = Compilations.compile

    def noted(self: Compilations, compiler: Any, wanted: str, source: Path, into: Path) -> None:
        compiled.append(wanted)
        compile_one(self, compiler, wanted, source, into)

    monkeypatch.setattr(Compilations, "compile", noted)
    A = asp.csr(sps.random_array((300, 300), density=0.05, random_state=np.random.default_rng(1), format="csr"))
    remembered._choices.clear()
    monkeypatch.setattr(einsum_kernel, "_loaded", {})
    with config.options(isa=isa, cache_dir=tmp_path, compiler="cc", runs=10_000):
        A.tune("matmul", columns=1, effort="measure", budget_s=2)
        einsum_kernel.load(f"int asp_nothing_{isa}(void) {{ return 0; }} void asp_memory(void *a, void *b) {{}}")
    assert compiled
    assert set(compiled) == {Target.host().held_to(isa).isa}


def test_doctor_reports_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with config.options(isa="baseline"):
        (line,) = [one.value for one in doctor._machine() if one.name == "instruction set"]
    assert line.split()[0] == "baseline"
    assert ("AUTOSPARSE_ISA" in line) == (Target.host().isa != "baseline")
    with config.options(isa=None):
        (line,) = [one.value for one in doctor._machine() if one.name == "instruction set"]
    assert line == Target.host().isa


def test_compiler_flags_match_the_cpu_features_that_the_runtime_tests() -> None:
    """Every -m flag of an instruction set must be a CPU feature that `asp_best_isa` tests."""
    source = Path(config.__file__).parents[1] / "_native" / "runtime" / "isa" / "isa.h"
    if not source.is_file():
        pytest.skip("needs the sources: isa.h")
    asked = set(re.findall(r'__builtin_cpu_supports\("(\w+)"\)', source.read_text()))
    wanted = {flag.removeprefix("-m") for flags in ISA_FLAGS.values() for flag in flags if "=" not in flag}
    assert wanted <= asked

"""Tests of the machine's rates: measured on a simulated machine by a scripted clock, stored, read, and named."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse.cache import open_store
from autosparse.cache.store import Store
from autosparse.tuner.features.setting import MachineRates
from autosparse.tuner.search.trial import Work

import autosparse as asp
from autosparse.cli import doctor
from autosparse.config import get_options
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.tuning.memory.history import TuningStats
from autosparse.tuning.rates import probing, record, steps
from autosparse.tuning.rates.probed import ProbedRates, RatesInUse
from autosparse.tuning.rates.probing import measured_rates
from autosparse.tuning.rates.scaling import comparable, rounded
from autosparse.tuning.trials.context import TuningContext
from tests.tuner.fakes import FakeClock

UNKNOWN = Target(
    cpu="Unknown Processor", machine="x86_64", isa="avx2", n_cores=4, l1_bytes=64 << 10, l2_bytes=512 << 10,
    l3_bytes=8 << 20,
)  # fmt: skip
SHIPPED_XEON = dataclasses.replace(
    UNKNOWN, cpu="Intel", n_cores=2, l1_bytes=49152, l2_bytes=2097152, l3_bytes=503316480
)
TRUE = ProbedRates(
    l1=4e11, l2=2e11, l3=6e10, memory=2e10, gathers=4e9, flops=2e11, core_l3=2e10, core_memory=1.2e10, start_s=2e-6,
    wake_s=4e-5,
)  # fmt: skip


class FakeMachine:
    """Workloads of a machine with the rates `TRUE` and `n` threads; each run takes up to `noise` longer."""

    def __init__(
        self, clock: FakeClock, threads: int, *, noise: float = 0.0, seed: int = 0, write_s: float = 0.0
    ) -> None:
        """`write_s`: seconds of the first write to a byte, which no later one takes."""
        self.clock, self.threads, self.noise, self.rng = clock, threads, noise, random.Random(seed)
        self.write_s, self.n_written = write_s, 0
        self.is_closed, self.is_asleep = False, False

    def _repeat(self, seconds: float) -> probing.Repeat:
        def repeat(rounds: int) -> None:
            wake_s = TRUE.wake_s if self.is_asleep else 0.0
            self.is_asleep = False
            self.clock.spend(wake_s + rounds * seconds * (1.0 + self.noise * self.rng.random()))

        return repeat

    def copy(self, n_bytes: int, threads: int) -> probing.Repeat:
        self.clock.spend(self.write_s * max(0, n_bytes - self.n_written))
        self.n_written = max(self.n_written, n_bytes)
        far = probing.far_bytes(UNKNOWN, self.threads)
        if n_bytes <= UNKNOWN.l2_bytes:
            rate = (TRUE.l1 if n_bytes <= UNKNOWN.l1_bytes else TRUE.l2) / self.threads
        elif n_bytes == far:
            rate = TRUE.memory if threads == self.threads else TRUE.core_memory
        else:
            rate = TRUE.l3 if threads == self.threads else TRUE.core_l3
        return self._repeat(n_bytes / rate)

    def gather(self, threads: int) -> tuple[float, probing.Repeat]:
        seconds = 1e5 / TRUE.gathers
        return 1e5, self._repeat(seconds if threads > 1 else self.threads * (seconds - TRUE.start_s))

    def multiply(self, threads: int) -> tuple[float, probing.Repeat]:
        return 1e7, self._repeat(1e7 / TRUE.flops)

    def pause(self) -> None:
        self.clock.spend(2e-3)
        self.is_asleep = True

    def close(self) -> None:
        self.is_closed = True


def measured(*, noise: float = 0.0, seed: int = 0, busy: float = 1.0, write_s: float = 0.0) -> probing.Measurement:
    """Measure the simulated machine, whose processors run `busy` seconds per second."""
    clock = FakeClock()
    machine = FakeMachine(clock, 4, noise=noise, seed=seed, write_s=write_s)
    found = measured_rates(UNKNOWN, 4, work=machine, clock=clock, cpu_clock=lambda: busy * clock.now_s)
    assert machine.is_closed
    assert clock.now_s < 2 * probing.LIMIT_S
    return found


@pytest.fixture(autouse=True)
def _nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_measured_now", weakref.WeakKeyDictionary())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Target]]:
    """Replace the measurement by that of the simulated machine; yield the targets that were measured."""
    targets: list[Target] = []

    def probe(target: Target, threads: int, *, limit_s: float) -> probing.Measurement:
        targets.append(target)
        return measured(seed=len(targets), noise=0.05)

    monkeypatch.setattr(probing, "measured_rates", probe)
    with asp.options(rates=None):
        yield targets


def test_rates_are_found_in_the_times_of_a_simulated_machine():
    found = measured().rates
    for one in dataclasses.fields(ProbedRates):
        assert getattr(found, one.name) == pytest.approx(getattr(TRUE, one.name), rel=1e-3), one.name


def test_noise_does_not_change_rounded_rates():
    """Check that 10 measurements with noise give one set of rounded rates, 9 times at least."""
    anchor = MachineRates.typical(UNKNOWN)
    found = [rounded(comparable(measured(noise=0.15, seed=seed).rates), anchor) for seed in range(10)]
    kept = [dataclasses.replace(one, start_s=0.0, wake_s=0.0) for one in found]
    assert max(map(kept.count, kept)) >= 9, found


def test_a_measurement_beside_other_programs_is_recognised():
    assert [measured(busy=busy).is_disturbed for busy in (1.0, 0.5)] == [False, True]


def test_a_stopped_clock_ends_the_measurement_which_is_dropped():
    """Programs stop the clock in their tests. Each rate would take a million rounds."""
    n_rounds = 0

    def repeat(rounds: int) -> None:
        nonlocal n_rounds
        n_rounds += rounds

    timer = probing._Timer(1.0, lambda: 0.0, lambda: 0.0)
    timer.rate(1.0, repeat, 0.5)
    assert n_rounds < 200
    assert timer.is_disturbed


def test_this_machine_can_be_measured():
    """Check the pieces of work themselves: they run, and every rate is positive and finite."""
    found = measured_rates(Target.host(), 2, limit_s=1e-3).rates
    assert ProbedRates.of_data(found.to_data()) == found


def test_a_machine_without_record_is_measured_once(store, scripted):
    options = get_options()
    first = record.measure_if_wanted(options, UNKNOWN, store)
    assert first.source.startswith("measured now")
    assert record.measure_if_wanted(options, UNKNOWN, store) == first
    assert scripted == [UNKNOWN]


def test_another_process_reads_the_record(tmp_path, scripted, monkeypatch):
    options = get_options()
    record.measure_if_wanted(options, UNKNOWN, Store(tmp_path / "cache"), clock=lambda: 86400.0 * 365)
    monkeypatch.setattr(record, "_measured_now", weakref.WeakKeyDictionary())
    found = record.measure_if_wanted(options, UNKNOWN, Store(tmp_path / "cache"))
    assert (found.source, len(scripted)) == ("measured on 1971-01-01, kept in the cache", 1)


@pytest.mark.parametrize("other", ["QEMU", "Amazon EC2"])
def test_another_hypervisor_is_measured_by_itself(store, scripted, monkeypatch, other):
    for name in ("QEMU", other):
        monkeypatch.setattr(record, "maker", lambda name=name: name)
        record.measure_if_wanted(get_options(), UNKNOWN, store)
    assert len(scripted) == (1 if other == "QEMU" else 2)


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(UNKNOWN, cpu="Other Processor"),
        dataclasses.replace(UNKNOWN, n_cores=3),
        dataclasses.replace(UNKNOWN, isa="baseline"),
    ],
)
def test_another_processor_is_measured_by_itself(store, scripted, other):
    options = get_options()
    record.measure_if_wanted(options, UNKNOWN, store)
    assert record.rates_in_use(options, other, store).is_wanted
    record.measure_if_wanted(options, other, store)
    assert scripted == [UNKNOWN, other]


def test_another_number_of_threads_is_measured_by_itself(store, scripted, monkeypatch):
    """Check that a quota, which bounds the threads, makes another machine of the same processor."""
    options = get_options()
    record.measure_if_wanted(options, UNKNOWN, store)
    n = record.machine_threads()
    monkeypatch.setattr(record, "machine_threads", lambda: n + 1)
    assert record.rates_in_use(options, UNKNOWN, store).is_wanted


def test_a_processor_of_the_shipped_table_is_not_measured(store, scripted):
    found = record.measure_if_wanted(get_options(), SHIPPED_XEON, store)
    assert found == RatesInUse(None, record.machine_threads(), "shipped for this processor")
    assert not scripted


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"l1": -1}', "nonsense"])
def test_a_damaged_record_is_measured_again(tmp_path, scripted, content):
    options, folder = get_options(), tmp_path / "cache"
    record.measure_if_wanted(options, UNKNOWN, Store(folder))
    (file,) = folder.rglob("rates*/*/*")
    file.write_text(content, encoding="utf-8")
    found = record.measure_if_wanted(options, UNKNOWN, Store(folder))
    assert found.rates is not None
    assert len(scripted) == 2


@pytest.mark.parametrize("value", [0.0, -1.0, None, "x"])
def test_a_record_of_impossible_rates_is_measured_again(store, scripted, value):
    data = {**TRUE.to_data(), "memory": value, "threads": 4, "measured_at": 0.0}
    store.save(record.KIND, record.key_of(UNKNOWN, record.machine_threads()), data)
    assert record.rates_in_use(get_options(), UNKNOWN, store).is_wanted


def test_without_a_folder_the_process_measures_once(scripted):
    with asp.options(cache=False) as options:
        store = open_store(options)
        found = record.measure_if_wanted(options, UNKNOWN, store)
        assert found.source.startswith("measured now")
        assert record.measure_if_wanted(options, UNKNOWN, store) == found
    assert len(scripted) == 1


def test_a_failed_write_keeps_the_rates_in_this_process(store, scripted, monkeypatch):
    def refuse(*given: object, **how: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(store._folder, "write_record", refuse, raising=False)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.warns(asp.CacheWarning):
        found = record.measure_if_wanted(get_options(), UNKNOWN, store)
    assert found.rates is not None
    assert record.rates_in_use(get_options(), UNKNOWN, store) == found


def test_a_disturbed_measurement_is_not_stored(store, scripted, monkeypatch):
    monkeypatch.setattr(probing, "measured_rates", lambda *given, **how: measured(busy=0.5))
    assert record.measure_if_wanted(get_options(), UNKNOWN, store).is_wanted
    assert record.stored(UNKNOWN, store) is None


def test_of_two_processes_at_once_one_measures(tmp_path, scripted):
    """Hold the record's lock in another process: this one goes on with the shipped rates, and measures nothing."""
    folder, key = tmp_path / "cache", record.key_of(UNKNOWN, record.machine_threads())
    code = (
        "import sys, pathlib; from autosparse.cache.store import Store\n"
        f"with Store(pathlib.Path({str(folder)!r})).exclusive({record.KIND!r}, {key!r}) as held:\n"
        "    print(held, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as other:
        assert other.stdout.readline() == "True\n"
        found = record.measure_if_wanted(get_options(), UNKNOWN, Store(folder))
        other.communicate("")
    assert found.is_wanted
    assert not scripted
    assert record.measure_if_wanted(get_options(), UNKNOWN, Store(folder)).rates is not None


def test_the_setting_names_a_record(tmp_path, store, scripted):
    path = tmp_path / "rates.json"
    record.keep_file({**TRUE.to_data(), "threads": 4, "measured_at": 0.0}, path)
    with asp.options(rates=path) as options:
        found = record.measure_if_wanted(options, UNKNOWN, store)
    assert found.rates == rounded(comparable(TRUE), MachineRates.typical(UNKNOWN))
    assert found.threads == 4
    assert str(path) in found.source
    assert not scripted


@pytest.mark.parametrize("content", [None, "", "[]", '{"l1": 1}'])
def test_a_file_that_is_no_record_gives_a_warning_and_the_shipped_rates(tmp_path, store, scripted, content):
    path = tmp_path / f"{content!r:.3}.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with asp.options(rates=path) as options, pytest.warns(asp.CacheWarning, match="no record of a machine's rates"):
        assert record.measure_if_wanted(options, UNKNOWN, store).rates is None
    assert not scripted


def test_off_measures_nothing_and_reads_nothing(store, scripted):
    record.measure_if_wanted(get_options(), UNKNOWN, store)
    with asp.options(rates="off") as options:
        found = record.measure_if_wanted(options, UNKNOWN, store)
    assert found.rates is None
    assert "off" in found.source
    assert len(scripted) == 1


def test_measure_replaces_the_record_once_per_process(store, scripted):
    record.measure_if_wanted(get_options(), SHIPPED_XEON, store)
    with asp.options(rates="measure") as options:
        first = record.measure_if_wanted(options, SHIPPED_XEON, store)
        assert record.measure_if_wanted(options, SHIPPED_XEON, store) == first
    assert scripted == [SHIPPED_XEON]


def test_importing_and_first_products_measure_nothing():
    """Check in a fresh process that nothing is measured at import, nor by a short script, even where asked for."""
    code = """
import numpy as np, scipy.sparse as sps, sys
import autosparse as asp
A, x = asp.csr(sps.random_array((300, 300), density=.05, format="csr", dtype=np.float32)), np.ones(300, np.float32)
for _ in range(50):
    A @ x
print("autosparse.tuning.rates.probing" in sys.modules)
"""
    environment = {**os.environ, "AUTOSPARSE_RATES": "measure"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "False\n"


def problem(n_dense_cols: int = 1, threads: int = 4) -> Problem:
    m = sps.random_array(
        (4000, 4000), density=4e-3, random_state=np.random.default_rng(0), format="csr", dtype=np.float32
    )
    pattern = Pattern(4000, 4000, m.indptr, m.indices)
    return Problem(
        operation="matmul", pattern=pattern, transposed=False, n_dense_cols=n_dense_cols, dtype="float32",
        threads=threads, deterministic=False, target=UNKNOWN,
    )  # fmt: skip


class FakeContext:
    """Context of a problem on the unknown machine, with prices."""

    def __init__(self, store: Store) -> None:
        self.options, self.store = get_options(), store
        self.problem = problem()
        self.stats = self
        self.cost_estimates = self
        self.observed: list[tuple[str, float]] = []

    rates, work = TuningContext.rates, TuningStats.work

    def price_s(self, kind: str, units: float = 1.0) -> float:
        return 0.03

    def observe(self, kind: str, seconds: float) -> None:
        self.observed.append((kind, seconds))


def test_live_tuning_has_an_optional_step_that_is_priced(store, scripted):
    context = FakeContext(store)
    (step,) = steps.rates_step(context)
    assert isinstance(step, Work)
    assert step.is_optional
    assert (step.kind, step.price_s) == ("rates", 0.03)
    assert not scripted
    step.do()
    assert scripted == [UNKNOWN]
    assert not list(steps.rates_step(context))


def test_an_explicit_search_measures_within_a_share_of_its_budget(store, scripted):
    context, clock = FakeContext(store), FakeClock()
    steps.measure_within(context, 0.5, clock=clock)
    assert not scripted
    steps.measure_within(context, 10.0, clock=clock)
    assert scripted == [UNKNOWN]
    assert [kind for kind, _ in context.observed] == ["rates"]


def test_doctor_and_explain_name_the_source(tmp_path):
    path = tmp_path / "rates.json"
    record.keep_file({**TRUE.to_data(), "threads": 4, "measured_at": 0.0}, path)
    with asp.options(rates=path):
        values = [one.value for one in doctor._rates()]
        A = asp.csr(sps.eye_array(50, format="csr"))
        text = str(A.explain())
    assert f"the record {path} (AUTOSPARSE_RATES)" in values
    assert str(path) in text
    with asp.options(rates="off"):
        assert "shipped (AUTOSPARSE_RATES=off)" in [one.value for one in doctor._rates()]

"""Command `calibrate`: measure the rates of this machine and the costs of hybrid formats, in about half a minute."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from autosparse.cli import show
from autosparse.cli.operands import add_common, chosen_options, folder_to_write
from autosparse.cli.show import CommandError

LIMIT_S: Final = 1.0
"""Seconds of the measurement of rates. Tuning takes less (`autosparse.tuning.rates.probing.LIMIT_S`)."""
RATES: Final = "rates.json"
"""File of the rates in the folder of --out."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibrate`."""
    parser.add_argument("--undo", action="store_true", help="remove what was measured, and do nothing else")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: where tuning finds it, beside the cache")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure and store what is not stored yet, and print it; with --undo, remove it."""
    with chosen_options(arguments):
        out = _folder(arguments)
        if arguments.undo:
            return _undo(out)
        start_s = time.monotonic()
        _rates(arguments.out)
        _costs(out)
        print(f"{show.seconds(time.monotonic() - start_s)}; stored in {out}")
        print("python -m autosparse calibrate --undo removes these measurements")
    return 0


def _folder(arguments: argparse.Namespace) -> Path:
    """Return the folder for the measurements; raise CommandError if nothing can be stored on disk."""
    from autosparse.config import get_options
    from autosparse.tuning.learned import machine_folder
    from autosparse.tuning.problems import target_of

    settings = get_options()
    out: Path | None = arguments.out or machine_folder(settings, target_of(settings))
    if out is None:
        raise CommandError("nothing is kept on disk here", hint="--out DIR")
    folder_to_write("--out", out)
    return out


def _undo(out: Path) -> int:
    from autosparse.cache import open_store
    from autosparse.config import get_options
    from autosparse.tuning.memory.cost_table import COSTS
    from autosparse.tuning.problems import target_of
    from autosparse.tuning.rates import record

    removed = [name for name in (RATES, COSTS) if (out / name).exists()]
    for name in removed:
        (out / name).unlink()
        print(f"{out / name} is removed: the default is in use again")
    target, store = target_of(get_options()), open_store(get_options())
    if record.stored(target, store) is not None:
        record.forget(target, store)
        removed.append(RATES)
        print("the rates in the cache are removed: the default is in use again")
    if not removed:
        print(f"nothing to undo in {out}")
    return 0


def _rates(out: Path | None) -> None:
    """Measure the rates of this machine unless they are known, store them, and print them.

    They are stored in the cache, or in the folder `out` as a file that the setting `rates` can name.
    """
    from autosparse.cache import open_store
    from autosparse.config import get_options
    from autosparse.tuning.problems import target_of
    from autosparse.tuning.rates import probed, record

    target, store = target_of(get_options()), open_store(get_options())
    known = record.stored(target, store) or record.measure(target, store, limit_s=LIMIT_S)
    if known is None:
        print("rates of this machine: not measured, other programs use its cores; the default is unchanged", flush=True)
        return
    if out is not None:
        record.keep_file(known, out / RATES)
    told = ", ".join(f"{name} {float(known[name]) / 1e9:.3g}" for name in probed.RATES)
    print(f"rates of this machine, 10^9 per second: {told}", flush=True)


def _costs(out: Path) -> None:
    """Measure the primitives of hybrid formats whose costs are not stored in `out` yet, and print all costs."""
    from autosparse.calibration.primitives import measured_costs
    from autosparse.config import get_options
    from autosparse.errors import TUNING_FAILURES
    from autosparse.tuning.memory.cost_table import keep_costs, known_costs
    from autosparse.tuning.problems import target_of

    table, target = known_costs(out), target_of(get_options())
    for one in table.missing():
        try:
            table = table.with_class(one, measured_costs(target, one))
        except TUNING_FAILURES as error:
            print(f"costs of hybrid formats, {one}: not measured, the default is unchanged ({error})", flush=True)
            continue
        keep_costs(table, out)
    for one, costs in table.costs.items():
        print(f"costs of hybrid formats in ns, {one}: {costs}", flush=True)

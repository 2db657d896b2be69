"""Command `calibrate`: measure the rates of this machine, in about a second."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from autosparse.cli.operands import add_common, chosen_options, folder_to_write
from autosparse.cli.show import CommandError

LIMIT_S: Final = 1.0
"""Seconds of the measurement of rates. Tuning takes less (`autosparse.tuning.rates.probing.LIMIT_S`)."""
RATES: Final = "rates.json"
"""File of the rates in the folder of --out."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibrate`."""
    parser.add_argument("--undo", action="store_true", help="remove what was measured, and do nothing else")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write DIR/rates.json too, for other machines")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure the rates unless they are stored, store them in the cache and in --out, and print them; or undo that."""
    from autosparse.cache import open_store
    from autosparse.config import get_options
    from autosparse.core.target import Target
    from autosparse.tuning.rates import probed, record

    with chosen_options(arguments):
        out: Path | None = arguments.out
        target, store = Target.host().held_to(get_options().isa), open_store(get_options())
        if out is None and store.cache_folder is None:
            raise CommandError("nothing is kept on disk here", hint="pass --out DIR")
        if out is not None:
            folder_to_write("--out", out)
        stored = record.stored(target, store)
        if arguments.undo:
            record.forget(target, store)
            return _undo(out, is_stored=stored is not None)
        known = stored or record.measure(target, store, limit_s=LIMIT_S)
        if known is None:
            print("rates of this machine: not measured, other programs use its cores; the default is unchanged")
            return 0
        if out is not None:
            record.keep_file(known, out / RATES)
        told = ", ".join(f"{name} {float(known[name]) / 1e9:.3g}" for name in probed.RATES)
        print(f"rates of this machine, 10^9 per second: {told}")
        print(f"stored in {store.cache_folder or out}; python -m autosparse calibrate --undo removes them")
    return 0


def _undo(out: Path | None, *, is_stored: bool) -> int:
    """Remove the file in `out`, and tell what was removed; `is_stored`: whether the cache had rates."""
    has_file = out is not None and (out / RATES).exists()
    if out is not None and has_file:
        (out / RATES).unlink()
    places = [str(place) for place, is_there in (("the cache", is_stored), (out, has_file)) if is_there]
    told = (
        f"removed from {' and '.join(places)}: the default is in use again" if places else "not stored, nothing to undo"
    )
    print(f"rates of this machine: {told}")
    return 0

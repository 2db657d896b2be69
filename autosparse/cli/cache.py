"""`cache ls | show [NAME] | clear | export FILE | import FILE`: what is remembered of earlier tunings."""

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosparse.cache import open_store, wisdom_export, wisdom_import
from autosparse.cli import show
from autosparse.cli.errors import CommandError
from autosparse.cli.operands import writable

if TYPE_CHECKING:
    from autosparse.cache import Entry


def configure(parser: argparse.ArgumentParser) -> None:
    """The sub-commands of `cache`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("ls", help="every plan, kernel and other record, the last used first")
    one = actions.add_parser("show", help="state of the cache, or one entry")
    one.add_argument("name", nargs="?", help="the name of an entry, or its beginning")
    actions.add_parser("clear", help="forget everything")
    export = actions.add_parser("export", help="write plans and histories to a file for another machine like this one")
    export.add_argument("file", type=Path)
    adopt = actions.add_parser("import", help="merge what `export` wrote; the better of two plans is kept")
    adopt.add_argument("file", type=Path)


def run(arguments: argparse.Namespace) -> int:
    """Do one of them."""
    ACTIONS[arguments.action](arguments)
    return 0


def _list(arguments: argparse.Namespace) -> None:
    entries = open_store().entries()
    if entries:
        rows = [(entry.kind, show.size(entry.n_bytes), _when(entry), entry.name) for entry in entries]
        print(show.table(("kind", "size", "last used", "name"), rows))
    else:
        print("nothing is remembered yet")


def _show(arguments: argparse.Namespace) -> None:
    if arguments.name is None:
        facts = asdict(open_store().stats())
        facts["folder"] = str(facts["folder"])
        print(json.dumps(facts, indent=1))
        return
    found = [entry for entry in open_store().entries() if entry.name.startswith(arguments.name)]
    if len(found) != 1:
        what = f"{len(found) or 'no'} entries begin with {arguments.name!r}"
        raise CommandError(what, cure="a name from `python -m autosparse cache ls`, written long enough")
    _show_entry(found[0])


def _show_entry(entry: Entry) -> None:
    print(f"{entry.kind} {entry.name}, {show.size(entry.n_bytes)}, last used {_when(entry)}")
    if entry.path is None:
        print("in memory only")
    elif entry.path.is_dir():
        for file in sorted(entry.path.iterdir()):
            print(f"  {file} ({show.size(file.stat().st_size)})")
    else:
        print(f"  {entry.path}")
        print(json.dumps(json.loads(entry.path.read_text(encoding="utf-8")), indent=1))


def _clear(arguments: argparse.Namespace) -> None:
    store = open_store()
    before = store.stats()
    store.clear()
    print(f"removed {sum(before.n_entries.values())} entries, {show.size(before.n_bytes)}")


def _export(arguments: argparse.Namespace) -> None:
    writable("export", arguments.file)
    print(f"{wisdom_export(arguments.file)} records written to {arguments.file}")


def _import(arguments: argparse.Namespace) -> None:
    print(f"{wisdom_import(arguments.file)} records of {arguments.file} kept")


def _when(entry: Entry) -> str:
    return dt.datetime.fromtimestamp(entry.used_at).strftime("%Y-%m-%d %H:%M")


ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace], None]]] = {
    "ls": _list,
    "show": _show,
    "clear": _clear,
    "export": _export,
    "import": _import,
}

"""Command `cache ls | show [NAME] | clear | export FILE | import FILE`: inspect and manage stored plans and kernels."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse.cache import KINDS, open_store, plan_from_record, plan_key_of, wisdom_export, wisdom_import
from autosparse.cli import show
from autosparse.cli.operands import add_count, writable
from autosparse.cli.show import CommandError
from autosparse.errors import RecordError
from autosparse.explain.cache_report import RememberedPlan

if TYPE_CHECKING:
    from autosparse.cache import Entry


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands of `cache`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("ls", help="every plan, kernel and other record, the last used first")
    one = actions.add_parser("show", help="state of the cache, or one entry")
    one.add_argument("name", nargs="?", help="the name of an entry, or its first characters")
    clear = actions.add_parser("clear", help="remove all entries, or those that the arguments select")
    clear.add_argument("--kind", choices=(*KINDS, "kernel"), help="remove only entries of this kind")
    add_count(clear, "--unused-days", "remove only entries that were not used for N days", least=0)
    clear.add_argument(
        "--operation", metavar="OP", help="remove only plans of this operation (matmul, sddmm or mttkrp)"
    )
    export = actions.add_parser("export", help="write all plans to a file, for another machine of the same kind")
    export.add_argument("file", type=Path, help="the file to write")
    adopt = actions.add_parser(
        "import", help="read a file that `export` wrote; of two plans for a problem the faster one is kept"
    )
    adopt.add_argument("file", type=Path, help="the file to read")


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen action."""
    ACTIONS[arguments.action](arguments)
    return 0


def _list(arguments: argparse.Namespace) -> None:
    entries = open_store().entries()
    if entries:
        rows = [(entry.kind, show.size(entry.n_bytes), _when(entry), _what(entry), entry.name) for entry in entries]
        print(show.table(("kind", "size", "last used", "what", "name"), rows))
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
        raise CommandError(what, hint="pass a name that `cache ls` lists, or enough of its beginning")
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
    entries = store.entries()
    filters = (arguments.kind, arguments.unused_days, arguments.operation)
    if all(one is None for one in filters):
        store.clear()
    else:
        entries = [entry for entry in entries if _is_named(entry, arguments)]
        store.discard(entries)
    print(f"removed {len(entries)} entries, {show.size(sum(entry.n_bytes for entry in entries))}")


def _is_named(entry: Entry, arguments: argparse.Namespace) -> bool:
    """Return whether a cache entry matches all filters given to ``cache clear``: kind, age of last use, operation."""
    days, operation = arguments.unused_days, arguments.operation
    return (
        (arguments.kind is None or entry.kind == arguments.kind)
        and (days is None or time.time() - entry.used_at >= days * 86400)
        and (
            operation is None or (entry.kind == "plan" and _record(entry).get("key", {}).get("operation") == operation)
        )
    )


def _record(entry: Entry) -> Mapping[str, Any]:  # Any: JSON values
    """Return the record in an entry's file, or {} if it cannot be read."""
    if entry.path is None or entry.path.is_dir():
        return {}
    try:
        found = json.loads(entry.path.read_text(encoding="utf-8")).get("record")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _what(entry: Entry) -> str:
    """Return a text on a stored plan: ``matmul, 32 columns, float32: 1.70 times the default kernel's speed``."""
    record = dict(_record(entry)) if entry.kind == "plan" else {}
    try:
        one = RememberedPlan(plan=plan_from_record(record), key=plan_key_of(record))
    except RecordError:
        return ""
    if one.plan.is_default:
        return f"{one.what}: the default kernel stays"
    gain = "estimated" if one.ratio is None else f"{one.ratio:.2f} times the default kernel's speed"
    return f"{one.what}: {gain}"


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
"""Function of each action, by name."""

"""Command `report FILE`: write one page about what was tuned, saved and lost in this cache."""

from __future__ import annotations

import argparse
from pathlib import Path

from autosparse.cli.operands import writable


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `report`."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=Path("autosparse-report.html"),
        help="HTML file to write (default: autosparse-report.html)",
    )
    parser.add_argument("--no-pictures", action="store_true", help="write text and tables only (plots need matplotlib)")


def run(arguments: argparse.Namespace) -> int:
    """Write the page and print its totals."""
    from autosparse.explain.cache_report import CacheReport

    writable("the page", arguments.file)
    report = CacheReport.of_cache()
    report.html(arguments.file, pictures=False if arguments.no_pictures else None)
    print(f"{report}\nwritten: {arguments.file}")
    return 0

"""Run the sealed test: groups of matrices that no design choice uses, opened once per release.

    python benchmarks/sealed.py open --matrices DIR --release 0.2.0     # oracle.py on the sealed groups, resumable
    python benchmarks/sealed.py check                                   # check the ledger

A hash of a group's name seals half of the groups that are held out from training. Design choices (features, model
sizes, margins, training sets) use validation groups; the other held-out groups may be examined at any time. LEDGER has
a line for each opening with the version and the commit of the code. A second opening for the same release is refused
unless it continues the first on the same commit. `check` finds a release that was opened on two commits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).resolve().parent / "results" / "sealed"
LEDGER: Final = RESULTS / "ledger.jsonl"
UNKNOWN: Final = "unknown"


def openings(ledger: Path = LEDGER) -> list[dict[str, Any]]:
    """Return the lines of the ledger."""
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines() if line]


def objection(release: str, commit: str, known: Iterable[Mapping[str, Any]]) -> str | None:
    """Return why the sealed groups must not be opened for `release` with the code of `commit`, or None."""
    if commit.endswith("+") or commit == UNKNOWN:
        return f"the code is of no commit ({commit}): commit it first, the ledger says which code was judged"
    others = [one for one in known if one["release"] == release and one["commit"] != commit]
    if others:
        return f"release {release} was opened at {others[0]['commit'][:12]} on {others[0]['date']}: once is the rule"
    return None


def broken_rules(known: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return messages about releases that were opened on several commits."""
    commits: dict[str, set[str]] = {}
    for one in known:
        commits.setdefault(one["release"], set()).add(one["commit"])
    several = {release: len(found) for release, found in commits.items() if len(found) > 1}
    return [f"release {release} was opened on {n} commits" for release, n in several.items()]


def opened(release: str, commit: str, ledger: Path = LEDGER) -> bool:
    """Add an opening to the ledger; return False if this release was opened on this commit before."""
    if any(one["release"] == release and one["commit"] == commit for one in openings(ledger)):
        return False
    ledger.parent.mkdir(parents=True, exist_ok=True)
    line = {"release": release, "commit": commit, "date": time.strftime("%Y-%m-%d")}
    with ledger.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, sort_keys=True) + "\n")
    return True


def main(given: Sequence[str] | None = None) -> int:
    """Open the sealed groups, or check the ledger."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("do", choices=("open", "check"))
    parser.add_argument("--release", help="version that the results are for")
    args, rest = parser.parse_known_args(given)
    if args.do == "check":
        complaints = broken_rules(openings())
        print("\n".join(complaints) or f"{len(openings())} openings, each release once")
        return int(bool(complaints))
    if not args.release:
        parser.error("open needs --release VERSION")
    import oracle
    from peerlib.machine import commit

    at = commit(but=RESULTS) or UNKNOWN  # the ledger itself changes with an opening
    if (reason := objection(args.release, at, openings())) is not None:
        print(reason, file=sys.stderr)
        return 1
    opened(args.release, at)
    return oracle.main(["--sealed", "--json", str(RESULTS / f"{args.release}.jsonl"), *rest])


if __name__ == "__main__":
    sys.exit(main())

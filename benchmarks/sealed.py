"""The sealed test: groups of matrices that nothing is chosen by, opened once for each release.

    python benchmarks/sealed.py open --matrices DIR --release 0.2.0     # oracle.py on the sealed groups, resumable
    python benchmarks/sealed.py check                                   # whether the rule was kept

A group is sealed by the hash of its name, half of those that are held out from training. What is chosen (features,
sizes of models, margins, training sets) is chosen on validation groups; the other held-out groups may be looked at any
time. LEDGER has a line for each opening with the version and the commit of the code. A second opening for the same
release is refused unless it goes on with the first on the same commit; `check` finds a release that was opened on two
commits.
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
    """Lines of the ledger."""
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines() if line]


def objection(release: str, commit: str, known: Iterable[Mapping[str, Any]]) -> str | None:
    """Why the sealed groups must not be opened for `release` with the code of `commit`; None: they may."""
    if commit.endswith("+") or commit == UNKNOWN:
        return f"the code is of no commit ({commit}): commit it first, the ledger says which code was judged"
    others = [one for one in known if one["release"] == release and one["commit"] != commit]
    if others:
        return f"release {release} was opened at {others[0]['commit'][:12]} on {others[0]['date']}: once is the rule"
    return None


def broken_rules(known: Sequence[Mapping[str, Any]]) -> list[str]:
    """Releases that were opened on several commits."""
    commits: dict[str, set[str]] = {}
    for one in known:
        commits.setdefault(one["release"], set()).add(one["commit"])
    several = {release: len(found) for release, found in commits.items() if len(found) > 1}
    return [f"release {release} was opened on {n} commits" for release, n in several.items()]


def opened(release: str, commit: str, ledger: Path = LEDGER) -> bool:
    """Enter an opening into the ledger; False when this release was opened on this commit before, which goes on."""
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
    parser.add_argument("--release", help="the version that the figures are for")
    args, rest = parser.parse_known_args(given)
    if args.do == "check":
        complaints = broken_rules(openings())
        print("\n".join(complaints) or f"{len(openings())} openings, each release once")
        return int(bool(complaints))
    if not args.release:
        parser.error("open needs --release VERSION")
    import oracle
    from peerlib.machine import commit

    at = commit(but=RESULTS) or UNKNOWN  # the ledger itself has a new line when an opening goes on
    if (reason := objection(args.release, at, openings())) is not None:
        print(reason, file=sys.stderr)
        return 1
    opened(args.release, at)
    return oracle.main(["--sealed", "--json", str(RESULTS / f"{args.release}.jsonl"), *rest])


if __name__ == "__main__":
    sys.exit(main())

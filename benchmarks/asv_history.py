"""Put the results of an asv run into the recorded history, `benchmarks/results/asv`.

    make bench                                                  # results in build/asv/results/HOST
    python benchmarks/asv_history.py build/asv/results/HOST --name xeon-2-cores

`--name` is the folder of the history: a kind of machine, not the name of a host. Numbers are rounded to five digits,
and paths and facts of the host are left out. Results of a commit that the history has are replaced one by one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, Final

HISTORY: Final = Path(__file__).resolve().parent / "results" / "asv"
ENVIRONMENT: Final = "existing-python"
PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
KEPT_AS_TEXT: Final = ("version", "params", "started_at")
"""Columns of a result whose values are not measured."""
SIGNIFICANT: Final = 5
"""Number of significant decimal digits of a measured value."""


def rounded(value: Any) -> Any:
    """Round the numbers in nested lists; other values, NaN and infinities are unchanged."""
    if isinstance(value, list):
        return [rounded(one) for one in value]
    is_number = isinstance(value, float) and math.isfinite(value)
    return float(f"{value:.{SIGNIFICANT}g}") if is_number else value


def recorded(run: dict[str, Any], name: str, before: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a run: asv's own without facts of the host, with the results of `before` that it lacks."""
    columns = run["result_columns"]
    results = {
        benchmark: [
            value if column in KEPT_AS_TEXT else rounded(value) for column, value in zip(columns, row, strict=False)
        ]
        for benchmark, row in run["results"].items()
    }
    return {
        **run, "env_name": ENVIRONMENT, "python": PYTHON, "params": {"machine": name, "python": PYTHON},
        "durations": {}, "results": {**before.get("results", {}), **results},
    }  # fmt: skip


def record(source: Path, name: str, history: Path = HISTORY) -> list[Path]:
    """Write the records of all commits in the folder `source`; return the files."""
    folder, written = history / name, []
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text(json.dumps({"machine": name, "version": 1}, indent=4) + "\n", encoding="utf-8")
    for path in sorted(source.glob("*-*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        target = folder / f"{run['commit_hash'][:8]}-{ENVIRONMENT}.json"
        before = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
        target.write_text(json.dumps(recorded(run, name, before)) + "\n", encoding="utf-8")
        written.append(target)
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", type=Path, help="folder of asv's results of one machine")
    parser.add_argument("--name", required=True, help="folder of the history")
    arguments = parser.parse_args()
    written = record(arguments.source, arguments.name)
    print("\n".join(map(str, written)) or f"no results in {arguments.source}")
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())

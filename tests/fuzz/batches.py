"""Runner of fuzz cases by seed in another process: a crash fails the test and names the seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def run_cases(module: str, folder: Path, first: int, n: int) -> int:
    """Run `module` on `n` seeds from `first`, and return the number that it prints."""
    command = [sys.executable, "-m", module, str(folder), str(first), str(n)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    seed = folder / "seed"
    where = seed.read_text() if seed.exists() else "none"
    assert run.returncode == 0, f"seed {where}: status {run.returncode}\n{run.stderr[-3000:]}"
    return int(run.stdout)

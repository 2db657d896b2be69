"""Benchmarks on a cluster: `python -m autosparse bench PATH --scheduler ADDRESS`, a file of times per matrix and kind.

A matrix is sent as the bytes of its file. The worker runs the same command in a separate process, so that the worker's
thread settings and its earlier measurements have no effect.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosparse.config import measuring_environment
from autosparse.core.target import Target
from autosparse.dask.scheduler import Done, Failed, HandOut, alone_on_this_machine, written

if TYPE_CHECKING:
    from distributed import Client

Rows = list[dict[str, Any]]  # Any: the rows of the command's --json


def measure(name: str, contents: bytes, words: Sequence[str], threads: int | None) -> Rows:
    """Run the command ``bench`` with options `words` on a matrix file in a new process, and return its result rows.

    Returns no rows for a matrix that is too small. Raises RuntimeError where the command fails.
    """
    with alone_on_this_machine(), tempfile.TemporaryDirectory(prefix="autosparse-bench-") as folder:
        path, found = Path(folder, name), Path(folder, "times.json")
        path.write_bytes(contents)
        command = [sys.executable, "-m", "autosparse", "bench", str(path), "--json", str(found), *words]
        done = subprocess.run(
            [*command, "--threads", str(threads or Target.host().n_cores)],
            env=measuring_environment(str(Path(folder, "cache"))), cwd=folder, capture_output=True,
            encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
        rows: Rows = json.loads(found.read_text(encoding="utf-8")) if found.exists() else []
        if done.returncode and (rows or not found.exists()):  # an empty file: the matrix is smaller than --min-nnz
            raise RuntimeError(done.stderr.strip() or f"bench ended with status {done.returncode}")
        return rows


@dataclass(slots=True)
class ClusterBench:
    """Benchmark of every file of `paths()` on each kind of machine, into ``out/kind/name-digest.json``.

    Existing files are not measured again. `words`: options of ``bench``; their digest is part of the file's name.
    """

    client: Client
    paths: Callable[[], Iterable[Path]]
    out: Path
    words: Sequence[str] = ()
    threads: int | None = None
    failed: list[Failed[Path]] = field(default_factory=list)  # jobs that `run` left out

    def run(self) -> Iterator[Done[Path]]:
        """Yield one Done per matrix and kind of machine, after storing its result, the rows of times, in a file.

        Raises ConnectionError when there is no worker.
        """
        hand_out = HandOut(self.client, measure, self.paths, self._missing, self.threads, failed=self.failed)
        for done in hand_out.run():
            written(self.path_of(done.kind, done.job), json.dumps(done.result, indent=1).encode() + b"\n")
            yield done

    def path_of(self, kind: str, matrix: Path) -> Path:
        """Return the file for the times of one matrix on one kind of machine."""
        digest = hashlib.blake2b(json.dumps(list(self.words)).encode(), digest_size=4).hexdigest()
        return self.out / kind / f"{matrix.name}-{digest}.json"

    def _missing(self, kind: str, matrix: Path) -> tuple[str, bytes, Sequence[str], int | None] | None:
        if self.path_of(kind, matrix).exists():
            return None
        return matrix.name, matrix.read_bytes(), self.words, self.threads

"""Mutated records of einsum programs, imported as wisdom, and calls that look them up.

Run as a program, it checks a range of seeds. A case passes if the call gives NumPy's answer: a record may be used only
if it names an enumerated program.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps
from autosparse.cache.envelope import Envelope

import autosparse as asp
from autosparse.contraction import remembered

CALLS = ("ij,ij->ij", "ij,jk,k->ik", "ij,ik,kj->ij", "ij,jk,ik->", "ij,j->ij")
PIECES = (
    "∀i", "∀j", "∀ij", "∀kij", "(", ")", "R[i,j]", "R[i]", "T0[i:l,j:s]", "T0[i:s,j:s]", "T0[j:l,i:s]", "T1[i:l,j:s]",
    "T1[j:l,k:s]", "T2[k]", "T9[i]", "w", "w[j]", "w[k]", "w[k:l]", " where ", " += ", " * ", " + ", "0", "\0",
    "x" * 999,
)  # fmt: skip
NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**63, 10**400, float("nan"), float("inf"), "", "R += T0", [], {}, ["T0"], ["T9", "w"], [1],
    "(" * 50_000 + "R += T0" + ")" * 50_000,
)  # fmt: skip


def operands_of(text: str) -> list[Any]:
    """Return the same matrices and vectors at each call."""
    values = np.random.default_rng(7)
    made: list[Any] = []
    for letters in text.split("->", maxsplit=1)[0].split(","):
        dense = values.random((30,) * len(letters)) * (values.random((30,) * len(letters)) < 0.2)
        made.append(sps.csr_array(dense) if len(letters) == 2 else dense)
    return made


def mutated(record: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return the record with another program or another field."""
    record = copy.deepcopy(record)
    if rng.random() < 0.3:
        record[rng.choice(("knobs", "solver", "predicted_s", "candidates", "more"))] = rng.choice(NASTY)
        return record
    tokens = [one for one in record["knobs"].replace("[", " [").split(" ") if one]
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(tokens))
        tokens[at : at + rng.randrange(2)] = [rng.choice((*PIECES, *tokens))]
    record["knobs"] = " ".join(tokens).replace(" [", "[")
    return record


def forget() -> None:
    """Clear what calls left in memory, as in a new process."""
    remembered._choices.clear()
    remembered._bound.clear()


def known_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return, by expression, the entry of a wisdom file that its call wrote."""
    found = {}
    for text in CALLS:
        with asp.options(cache_dir=folder / f"known {len(found)}", runs=1000):
            forget()
            asp.einsum(text, *operands_of(text))
            asp.wisdom_export(folder / "wisdom.json")
        (entry,) = (one for one in json.loads((folder / "wisdom.json").read_text())["entries"] if one["kind"] == "plan")
        found[text] = entry
    return found


def check(seed: int, known: dict[str, dict[str, Any]], folder: Path) -> bool:
    """Import the record of `seed`, make its call, and return whether the record was imported."""
    rng = random.Random(seed)
    text = rng.choice(CALLS)
    entry = known[text]
    try:
        record = mutated(entry["record"], rng)
        sealed = Envelope.seal("plan", entry["key"], record, schema=entry["schema"], saved_at=2e9 + seed)
        document = {"autosparse_wisdom": 1, "library": asp.__version__, "entries": [sealed.to_json()]}
        (folder / "mutant.json").write_text(json.dumps(document))
    except (ValueError, OverflowError):  # JSON cannot represent the value
        return False
    n_kept = asp.wisdom_import(folder / "mutant.json")
    forget()
    given = operands_of(text)
    found = asp.einsum(text, *given)
    dense = [one.toarray() if sps.issparse(one) else one for one in given]
    found = found.toarray() if sps.issparse(found) else found
    np.testing.assert_allclose(found, np.einsum(text, *dense), err_msg=str(record)[:2000])
    return bool(n_kept)


def main(folder: Path, first: int, n: int) -> None:
    """Print the number of mutants that were imported."""
    warnings.simplefilter("ignore")
    known = known_records(folder)
    n_kept = 0
    with asp.options(cache_dir=folder / "cache", runs=1000, effort="estimate"):
        for seed in range(first, first + n):
            (folder / "seed").write_text(str(seed))
            n_kept += check(seed, known, folder)
    print(n_kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

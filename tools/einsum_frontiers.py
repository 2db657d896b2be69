"""Write the frontiers of common einsum expressions, which ship with the package.

python tools/einsum_frontiers.py
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from autosparse.contraction.candidates import Candidates, assignment_of, enumerated, signature
from autosparse.contraction.cost.tasks import bits

NAMED = (
    *("ab,b->a s d", "ab,bc->ac s s", "ab,bc->ac s d", "ab,bc,c->a s s d", "ab,bc,cd->ad s s s", "ab,bc,cd->ad s s d"),
    *("ab,bc,dc->ad s s s", "ab,bc,cd,de->ae s s s s", "ab,ac,cb->ab s s s", "ab,ac,cb->ab s d d"),
    *("ab,ac,bc->ab s s s", "ab,bc,ac-> s s s", "ab,bc,cd,ad-> s s s s", "ab,bc,ca-> s s s", "ab,bc,cd,da-> s s s s"),
    *(
        "abc,bd,cd->ad s s s",
        "abc,bd,cd->ad s d d",
        "abc,db,dc->ad s s s",
        "ab,ca,da->bcd s s s",
        "ab,cb,db->acd s s s",
    ),
)


def as_row(found: Candidates) -> dict[str, Any]:
    """Return the JSON form of a frontier: programs, the query numbers of each program, and the queries by letters."""
    numbers = sorted({number for candidate in found.members for number in bits(candidate.cost)})
    place = {number: n for n, number in enumerate(numbers)}
    queries = []
    for number in numbers:
        query = found.queries[number]
        heads = "".join(found.assignment.indices[bit] for bit in bits(query.heads))
        queries.append([heads, [[tensor, *args] for tensor, args in query.atoms]])
    members = [[str(one), [place[number] for number in bits(one.cost)]] for one in found.members]
    return {"n_programs": found.n_programs, "members": members, "queries": queries}


def _lines(rows: dict[str, dict[str, Any]]) -> str:
    """Format `rows` as JSON with one line per program and query."""
    texts = []
    for key, row in rows.items():
        parts = [f'"n_programs": {row["n_programs"]}']
        for name in ("members", "queries"):
            entries = ",\n  ".join(json.dumps(entry, ensure_ascii=False) for entry in row[name])
            parts.append(f'"{name}": [\n  {entries}\n ]')
        texts.append(f"{json.dumps(key)}: {{\n " + ",\n ".join(parts) + "\n}")
    return "{\n" + ",\n".join(texts) + "\n}\n"


def main() -> None:
    """Enumerate the frontier of each expression and write `frontiers.json.gz`."""
    found = {}
    for row in NAMED:
        text, *kinds = row.split(" ")
        left, output = text.split("->")
        inputs, sparse = tuple(left.split(",")), tuple(kind == "s" for kind in kinds if kind)
        key, _ = signature(inputs, output, sparse)
        found[key] = as_row(enumerated(assignment_of(inputs, output, sparse)))
    target = Path(__file__).resolve().parent.parent / "autosparse" / "contraction" / "frontiers.json.gz"
    target.write_bytes(gzip.compress(_lines(found).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()

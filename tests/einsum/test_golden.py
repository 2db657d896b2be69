"""Tests that compare the emitted C of two einsum programs with golden files, so that a changed emitter shows as a diff.

A file holds the program and its loops, without helpers. After an intended change:

    python -m tests.einsum.test_golden
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from autosparse.contraction.candidates import assignment_of
from autosparse.contraction.cin.nodes import TensorAccess, reads
from autosparse.contraction.cin.parser import parse
from autosparse.contraction.lower.emit import emit
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.programs.protocols import with_protocols

FOLDER: Final = Path(__file__).resolve().parent.parent / "golden" / "programs"
PROGRAMS: Final = {
    "masked_product": "∀i (∀j R[i,j] += T0[i:s,j:s] * w1[j:l] where ∀kj w1[j] += T1[i:l,k:s] * T2[k:l,j:s])",
    "triangles": "∀ijk R += T0[i:l,j:s] * T1[j:l,k:s] * T2[i:l,k:s]",
}
"""Programs in concrete index notation: with a workspace of rank 1 and appended rows; with an intersection and a sum."""


def source(name: str) -> str:
    """Return the program as a comment, and the C lines of its function."""
    program = parse(PROGRAMS[name])
    steps = {TensorAccess(one.tensor, one.indices): one.protocols for one in reads(program) if one.protocols}
    inputs = sorted((one for one in steps if one.tensor[0] == "T"), key=lambda one: one.tensor)
    output = tuple("ij" if "R[" in PROGRAMS[name] else "")
    kernel = assignment_of(tuple("".join(one.indices) for one in inputs), "".join(output), (True,) * len(inputs))
    names = tuple(one.tensor for one in inputs)
    located = frozenset(one.tensor for one in inputs if steps[one][0] == "l")
    bare = with_protocols(program, {})
    whole = emit(
        EinsumPlan(bare, steps, TensorAccess("R", output), not output, names, (), "".join(kernel.indices), located),
        dtype="float64", index_bits=32,
    )  # fmt: skip
    body = whole[whole.index("static int part(") : whole.index("\ntypedef void (*asp_task)")]
    return f"/* {PROGRAMS[name]} */\n{body}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_emitted_programs_are_the_golden_files(name: str) -> None:
    assert source(name) == (FOLDER / f"{name}.c").read_text(encoding="utf-8"), "read the diff, then see the docstring"


if __name__ == "__main__":
    for one in PROGRAMS:
        (FOLDER / f"{one}.c").write_text(source(one), encoding="utf-8")

"""Write `_native/runtime/shipped/shipped_*.c`: kernels of `_native/kernels/shipped.py`, a file per instruction set.

    python tools/shipped_kernels.py

What several kernels of a file declare alike is declared once; names that mean something else in each get its number.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from autosparse._native.c.emit import emit
from autosparse._native.kernels.shipped import ISAS, specs

FOLDER = Path(__file__).resolve().parent.parent / "_native" / "runtime" / "shipped"
TARGETS = {
    "avx2": "avx2,fma,bmi,bmi2,popcnt",
    "avx512": "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt",
}
OWN = re.compile(r"\b(task_context|(?<!asp_task )task|asp_kernel|(?:gather|scatter|four|two)_\w+)\b")

HEAD = """/* Generated kernels for x86-64 with {what}, written by tools/shipped_kernels.py: do not edit. */
#include "common.h"

#if ASP_X86
#include <immintrin.h>

#include "shipped.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("{target}"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("{target}")
#endif

"""
TAIL = """
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
"""


def source(isa: str) -> str:
    """The file of one instruction set."""
    known: dict[str, None] = {}
    numbers: dict[str, int] = {}  # by text: blocks gather nothing, whatever gathers take
    rows = []
    for spec in specs(isa):
        text = emit(spec)
        number = numbers.setdefault(text, len(numbers))
        for block in blocks(text):
            own = OWN.sub(rf"\1_{number}", block)
            known.setdefault(own.replace(f"int asp_kernel_{number}", f"static int asp_kernel_{number}"))
        rows.append(f'    {{"{spec.key()}", (void (*)(void))asp_kernel_{number}}},\n')
    table = f"\nconst asp_shipped asp_shipped_{isa}[] = {{\n{''.join(rows)}    {{NULL, NULL}},\n}};\n"
    what = {"avx2": "AVX2 and FMA", "avx512": "AVX-512 (F, VL, DQ, BW)"}[isa]
    return HEAD.format(what=what, target=TARGETS[isa]) + "".join(known) + table + TAIL


def blocks(text: str) -> list[str]:
    """Declarations and functions, each with the comment before it; lines that include headers are left out."""
    found: list[str] = []
    lines: list[str] = []
    depth = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#include"):
            continue
        lines.append(line)
        code = re.sub(r"/\*.*?\*/", "", line)
        depth += code.count("{") - code.count("}")
        is_comment = line.startswith(("/*", " *"))
        if depth == 0 and not is_comment and code.rstrip().endswith((";", "}")):
            found.append("".join(lines).lstrip("\n"))
            lines = []
    return found


def main() -> int:
    """Write the files."""
    for isa in ISAS:
        path = FOLDER / f"shipped_{isa}.c"
        path.write_text(source(isa), encoding="utf-8")
        sys.stdout.write(f"{path.name}: {len(path.read_text(encoding='utf-8').splitlines())} lines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

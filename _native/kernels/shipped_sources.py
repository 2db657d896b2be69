"""C sources of the shipped kernels, which the build writes and compiles.

There is one file per instruction set, value type and index type, and a header that lists their tables. Names whose
meaning differs between kernels of a file get the kernel's number as a suffix. The text depends on the emitter alone,
not on the machine. Needs no NumPy.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from autosparse._native.c.emit import emit
from autosparse._native.c.types import HELPERS
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.shipped_specs import SHIPPED_ISAS, specs
from autosparse._native.kernels.slice_names import names_of

from autosparse.isa import ISAS

OWN: Final = re.compile(r"\b(task_context|(?<!asp_task )task|asp_kernel|(?:gather|scatter|four|two)_\w+)\b")
"""Names that each kernel of a file defines in its own way."""

HEAD: Final = """/* Generated kernels for {what}: _native/kernels/shipped_sources.py writes this file. */
#include "common.h"
#include "shipped.h"

#if ASP_X86
#include ASP_INTRINSICS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("{target}"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("{target}")
#endif

"""
TAIL: Final = """
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
"""


def sources() -> dict[str, str]:
    """Return the text of every file by its name."""
    found = {}
    for isa in SHIPPED_ISAS:
        for name, group in tables(isa):
            declarations, rows = source(group)
            table = f"\nconst asp_shipped asp_shipped_{name}[] = {{\n{''.join(rows)}    {{NULL, NULL}},\n}};\n"
            head = HEAD.format(what=ISAS[isa].title, target=",".join(ISAS[isa].features))
            found[f"shipped_{name}.c"] = head + "".join(declarations) + table + TAIL
    return {**found, "shipped_list.h": table_list()}


def tables(isa: str) -> Iterator[tuple[str, list[KernelSpec]]]:
    """Yield the name of each table, without the prefix `asp_shipped_`, and the kernels in it."""
    for (dtype, index_dtype), group in itertools.groupby(specs(isa), lambda spec: (spec.dtype, spec.index_dtype)):
        yield f"{isa}_{dtype}_{index_dtype}", list(group)


def table_list() -> str:
    """Return the header that lists the tables of each instruction set."""
    names = {isa: [name for name, _ in tables(isa)] if ISAS[isa].is_shipped else [] for isa in ISAS}
    text = "/* Tables of generated kernels by instruction set (_native/kernels/shipped_sources.py). */\n"
    for isa, its in names.items():
        text += " \\\n    ".join([f"#define ASP_SHIPPED_{isa}(X)", *(f"X({name})" for name in its)]) + "\n"
    return f"{text}enum {{ ASP_SHIPPED_TABLES = {max(map(len, names.values()))} }};\n"


def source(group: Iterable[KernelSpec]) -> tuple[list[str], list[str]]:
    """Return the declarations and functions of one file, and the rows of its table."""
    known: dict[str, None] = {}
    numbers: dict[str, int] = {}  # kernels with equal text share a number: block formats ignore `gathers`
    rows = []
    for spec in group:
        text = emit(spec)
        number = numbers.setdefault(text, len(numbers))
        for block in blocks(text.replace(HELPERS["asp_min"], "")):  # common.h has it
            own = OWN.sub(rf"\1_{number}", block)
            known.setdefault(own.replace(f"int asp_kernel_{number}", f"static int asp_kernel_{number}"))
        keys = (spec.key(), *names_of(spec))
        rows += [f'    {{"{key}", (void (*)(void))asp_kernel_{number}}},\n' for key in keys]
    return list(known), rows


def blocks(text: str) -> list[str]:
    """Split C text into its heading, declarations and functions, each with the comment before it.

    Lines with `#include` are left out.
    """
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
        is_heading = lines[0].startswith("/* autosparse kernel") and line.endswith("*/\n")
        if is_heading or (depth == 0 and not is_comment and code.rstrip().endswith((";", "}"))):
            found.append("".join(lines).lstrip("\n"))
            lines = []
    return found

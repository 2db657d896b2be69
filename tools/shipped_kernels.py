"""Write `_native/runtime/shipped/shipped_*.c` from the kernels that `_native/kernels/shipped.py` lists.

    python tools/shipped_kernels.py

There is one `.c` file per instruction set, dtype, index dtype and kind of format. The two index dtypes share the text
of the kernels in `*_body.h`, in which `POSITION` is the type of row pointers. Declarations that all files of an
instruction set and dtype share are in `*_common.h`. Names whose meaning differs between kernels of a file get the
kernel's number as a suffix.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from autosparse._native.c.emit import emit
from autosparse._native.ir.spec import VALUE_BYTES, KernelSpec
from autosparse._native.kernels.shipped import HIGH_SLICE, SHIPPED_ISAS, specs

from autosparse.isa import ISAS

FOLDER = Path(__file__).resolve().parent.parent / "_native" / "runtime" / "shipped"
OWN = re.compile(r"\b(task_context|(?<!asp_task )task|asp_kernel|(?:gather|scatter|four|two)_\w+)\b")

HEAD = """/* Generated kernels for {what}, written by tools/shipped_kernels.py: do not edit. */
#include "common.h"
#include "shipped.h"

#if ASP_X86
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("{target}"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("{target}")
#endif

"""
NOTE = "/* Generated kernels, written by tools/shipped_kernels.py: do not edit. */\n"
TAIL = """
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
"""


def tables(isa: str) -> Iterator[tuple[str, list[KernelSpec]]]:
    """Yield the name of each table, without the prefix `asp_shipped_`, and the kernels in it."""

    def table_of(spec: KernelSpec) -> tuple[str, str, str, bool]:
        layout = str(spec.schedule.format)
        return spec.dtype, spec.index_dtype, layout, spec.gathers and is_high(layout)

    for (dtype, index_dtype, layout, gathers), group in itertools.groupby(specs(isa), table_of):
        kind = "sorted" if "sigma" in layout else "slices" if ":D" in layout else "blocks"
        kind = "rows" if ":C,i0:U |" in layout else kind
        lanes = ISAS[isa].vector_bytes // VALUE_BYTES[dtype]
        kind = "double" if f"i={2 * lanes} | sigma" in layout else kind
        kind += "_numbered" if "values=numbered" in layout else ""
        if is_high(layout):
            kind = f"high_{'gathered' if gathers else 'loaded'}_numbered"
        value, index = dtype.replace("float", "f"), "" if index_dtype == "int32" else "_i64"
        yield f"{isa}_{value}{index}_{kind}", list(group)


def is_high(layout: str) -> bool:
    """Return whether slices are higher than a vector and have dictionary-encoded values."""
    return f"i={HIGH_SLICE} " in layout and "values=numbered" in layout


def sources() -> dict[str, str]:
    """Return the text of every file by its name."""
    found: dict[str, str] = {}
    for isa in SHIPPED_ISAS:
        files = {name: source(group) for name, group in tables(isa)}
        for name, (text, rows) in files.items():
            narrow, value = name.replace("_i64", ""), "_".join(name.split("_")[:2])
            alike = [one for other, (one, _) in files.items() if other.startswith(f"{value}_")]
            body = [block for block in text if not all(block in one for one in alike)]
            common = [block for block in text if block not in body]
            for file, lines in ((f"{value}_common", common), (f"{narrow}_body", body)):
                written = f"{NOTE}{''.join(lines)}"
                if found.setdefault(f"shipped_{file}.h", written) != written:
                    raise ValueError(f"the kernels of {name} differ from those of {narrow} by more than their types")
            includes = "".join(f'#include "shipped_{file}.h"\n' for file in (f"{value}_common", f"{narrow}_body"))
            position = f"#define POSITION {'int32_t' if name == narrow else 'int64_t'}\n"
            table = f"\nconst asp_shipped asp_shipped_{name}[] = {{\n{''.join(rows)}    {{NULL, NULL}},\n}};\n"
            head = HEAD.format(what=ISAS[isa].title, target=",".join(ISAS[isa].features))
            found[f"shipped_{name}.c"] = head + position + includes + table + TAIL
    return {**found, "shipped_list.h": table_list()}


def table_list() -> str:
    """Return the header that lists the tables of each instruction set."""
    names = {isa: [name for name, _ in tables(isa)] if ISAS[isa].is_shipped else [] for isa in ISAS}
    text = "/* Tables of generated kernels by instruction set, written by tools/shipped_kernels.py: do not edit. */\n"
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
        for block in blocks(text):
            own = OWN.sub(rf"\1_{number}", block)
            own = own.replace(f"int asp_kernel_{number}", f"static int asp_kernel_{number}")
            known.setdefault(without_type(own, spec.index_dtype))
        rows.append(f'    {{"{spec.key()}", (void (*)(void))asp_kernel_{number}}},\n')
    return list(known), rows


def without_type(block: str, index_dtype: str) -> str:
    """Return `block` with `POSITION` for the type of row pointers, and without its name in comments."""
    block = re.sub(rf"\bconst {index_dtype}_t (\*pos|\*weights|\*restrict \w+_pos)\b", r"const POSITION \1", block)
    return block.replace(f", indices {index_dtype},", ",")


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


def main() -> int:
    """Write all files and print their lengths."""
    for name, text in sources().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}: {len(text.splitlines())} lines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Generate the source of one program: its loops in C or Python, with the helper functions that they call.

Loops of a product visit intersections (`products`); loops of programs with additions visit unions (`unions`). A
workspace of rank 1 is an array with a bit set. A larger workspace is a table, which is converted to a tree of levels
before it is stepped through.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from autosparse.contraction.expressions.semirings import PLUS_TIMES, SEMIRINGS
from autosparse.contraction.lower.c_parts import RUN
from autosparse.contraction.lower.c_text import FLUSH, HELPERS, MARKS, PART, TABLE
from autosparse.contraction.lower.dialects import CText, PythonText
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.lower.products import ProductEmitter
from autosparse.contraction.lower.unions import UnionEmitter
from autosparse.scalar import HALF, SCALARS

C_TYPES: Final = {row.name: row.c for row in SCALARS.values() if row.name not in HALF}
"""C type of each value dtype that kernels compute in."""


def sums_dtype(plan: EinsumPlan, dtype: str) -> str:
    """Return the dtype in which a kernel with values of `dtype` accumulates results."""
    return SCALARS[dtype].sums if dtype in SCALARS and plan.semiring == PLUS_TIMES else dtype


def emit(plan: EinsumPlan, *, dtype: str, index_bits: int) -> str:
    """Return the C source of `plan` for values of type `dtype` and indices of `index_bits` bits."""
    semiring = SEMIRINGS[plan.semiring]
    text = CText(semiring)
    emitter = _emitter(plan, text)
    loops = emitter.body()
    tables = [name for name in plan.spaces if plan.workspace_kind(name) == "table"]
    most = max([1, *(len(plan.spaces[name].indices) for name in tables)])
    head = f"/* {plan.program} */\n#define N_MODES {max(1, len(plan.output.indices))}\n#define MAX_RANK {most}\n"
    types = f"typedef {C_TYPES[dtype]} V;\ntypedef {C_TYPES[sums_dtype(plan, dtype)]} W; /* of sums */\n"
    types += f"typedef int{index_bits}_t X;\n"
    types += f"#define ZERO ({_c_number(semiring.zero)})\n"
    types += f"static inline W plus(W a, W b) {{ return {semiring.c_sum}; }}\n"
    parts = [head, HELPERS.replace("TYPES", types), TABLE if tables else "", MARKS if emitter.marked else ""]
    parts.append(FLUSH if plan.output_kind == "row" else "")
    declared = "".join(f"  asp_{kind} {name} = {{0}};\n" for kind, name in emitter.objects)
    freed = "".join(f"  {kind}_free(&{name});\n" for kind, name in emitter.objects)
    entry = f"{PART}\n{{\n  int failed = 0;\n{declared}"
    end = f"\nend: (void)out, (void)result, (void)lo, (void)hi;\n{freed}  return failed;\n}}\n"
    return "".join([*parts, entry, loops, end, RUN])


def emit_python(plan: EinsumPlan) -> str:
    """Return the Python source of `plan`: a function ``part`` that calls the helpers of `python_helpers`."""
    loops = _emitter(plan, PythonText(SEMIRINGS[plan.semiring])).body()
    return f"def part(args, extents, lo, hi, out, result, zero):\n{loops}\n  return out\n"


def _c_number(value: float) -> str:
    """Return the C text of a semiring's zero."""
    return f"{'-' if value < 0 else ''}INFINITY" if np.isinf(value) else str(int(value))


def _emitter(plan: EinsumPlan, text: CText | PythonText) -> ProductEmitter:
    return (UnionEmitter if plan.has_sums else ProductEmitter)(plan, text)

"""Emission of sampled products of whole rows in C: a row of X stays in registers, for one number of columns.

It is the algorithm of the default kernel (``dots_rows_body.h``) for one tile. If X and Y have as many columns as the
tile, each row of A is one call of such a function, without the loops over tiles. `lined` functions divide rows at the
cache lines of Y, so that each load touches one line instead of two; their first and last vectors are partial.
"""

from __future__ import annotations

from typing import Final

from autosparse._native.c.emitting import CEmitter, CScope
from autosparse._native.c.prefetch import CACHE_LINE_BYTES
from autosparse._native.c.types import C_INDICES, C_VALUES, vector_type
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.block import lanes_of
from autosparse._native.ir.spec import KernelSpec, expression_of
from autosparse._native.ir.writer import Writer

from autosparse.isa import ISAS
from autosparse.scalar import C_SIZE

MIN_REGISTERS: Final = 32
"""Number of vector registers that hold a row of X, the sums and a vector of Y."""
LOOPS: Final = ("i1", "k1", "j1", "j0")
MAX_VECTORS: Final = 16
"""Maximum number of vectors of a row of X: with more, these, the sums and a mask exceed the register file."""
MIN_LINED: Final = 4
"""Minimum number of vectors of a row for which dividing it at cache lines pays off."""
ROWS_AHEAD: Final = 2
"""Prefetch distance, in rows of A, of rows of X if A's rows are permuted."""
MAX_FETCHED_BYTES: Final = 512
"""Maximum bytes of a row of Y that are prefetched; the hardware prefetcher loads the rest."""


def whole_rows(spec: KernelSpec) -> int:
    """Return the number of vectors of a row if rows of X can stay in registers in these loops, else 0."""
    one = spec.schedule
    levels = ",".join(map(str, one.format.levels))
    if ISAS[spec.isa].n_registers < MIN_REGISTERS or spec.max_lanes not in spec.masked_lanes:
        return 0
    if not expression_of(one).sampled or one.loop_order != LOOPS or one.parallel != "i1":
        return 0
    tile, lanes = one.dense_split("j"), spec.max_lanes
    if levels not in ("i1:U,k1:C", "i1:C,k1:C") or tile % lanes or lanes_of(tile, lanes) != lanes:
        return 0
    return tile // lanes if tile // lanes <= MAX_VECTORS else 0


def emit_whole_row(emitter: CEmitter, node: ir.ForStored, scope: CScope) -> bool:
    """Emit a call of `row_helpers` for operands as wide as the tile, and ``else``; return False if none applies."""
    spec, out = emitter.spec, scope.out
    n_vectors = whole_rows(spec)
    if not n_vectors:
        return False
    fmt, tile = spec.schedule.format, spec.schedule.dense_split("j")
    emitter.used.rows.add(node.unroll)
    row = "slice_rows[i1]" if fmt.rows else "i1"
    out.line(f"if (n_j == {tile}) {{")
    shift = "0" if fmt.is_csr else "origin && p_k1 < end_k1 ? origin[p_k1] - p_k1 : 0"
    out.line(f"    const {C_SIZE} shift = {shift};")
    if fmt.rows and fmt.levels[0].kind.value == "U":
        _fetch_row(out, spec, tile)
    arguments = f"X_ + {row} * ldX, Y_, ldY, k1_crd, vals + shift, O_ + shift, p_k1, end_k1, last_k1"
    if n_vectors >= MIN_LINED:
        out.line(f"    const {C_SIZE} lead = asp_lead(Y_, ldY);")
        out.line("    if (lead)")
        out.line(f"        sampled_row_lined({arguments}, lead);")
        out.line("    else")
        out.line(f"        sampled_row({arguments}, 0);")
    else:
        out.line(f"    sampled_row({arguments}, 0);")
    out.line("    continue;")
    out.line("}")
    return True


def _fetch_row(out: Writer, spec: KernelSpec, tile: int) -> None:
    """Emit prefetches of everything that a permuted row will read and write."""
    step = CACHE_LINE_BYTES // spec.value_bytes
    out.line(f"    if (i1 + {ROWS_AHEAD} < n_i1) {{")
    out.line(f"        const {C_SIZE} row_ahead = slice_rows[i1 + {ROWS_AHEAD}];")
    out.line(f"        const {C_SIZE} p_ahead = asp_min(k1_pos[i1 + {ROWS_AHEAD}], last_k1);")
    out.line(f"        const {C_SIZE} ahead = origin ? origin[p_ahead] : p_ahead;")
    out.line(f"        for ({C_SIZE} column = 0; column < {tile}; column += {step})")
    out.line("            __builtin_prefetch(X_ + row_ahead * ldX + column);")
    out.line("        __builtin_prefetch(vals + ahead);")
    out.line("        __builtin_prefetch(O_ + ahead, 1);")
    out.line("    }")


def row_helpers(spec: KernelSpec, jam: int) -> str:
    """Return the functions that `emit_whole_row` calls, which compute `jam` entries at a time."""
    n_vectors = whole_rows(spec)
    value = C_VALUES[spec.dtype]
    text = "" if n_vectors < MIN_LINED else _LEAD.format(value=value, line=CACHE_LINE_BYTES)
    kinds = (False, True) if n_vectors >= MIN_LINED else (False,)
    return text + "".join(_row_function(spec, jam, n_vectors, lined=lined) for lined in kinds)


_LEAD: Final = f"""\
/* Values of every row of Y before its first cache line begins; 0 where rows differ in that. */
static inline {C_SIZE} asp_lead(const {{value}} *Y, {C_SIZE} ldY)
{{{{
    const {C_SIZE} before = ({C_SIZE})(-(uintptr_t)Y % {{line}});
    return ldY * ({C_SIZE})sizeof *Y % {{line}} || before % ({C_SIZE})sizeof *Y ? 0 : before / ({C_SIZE})sizeof *Y;
}}}}
"""


def _row_function(spec: KernelSpec, jam: int, n_vectors: int, *, lined: bool) -> str:
    value, name = C_VALUES[spec.dtype], vector_type(spec, spec.max_lanes)
    out = Writer(depth=0)
    out.line(f"/* Results of one row of A, {jam} at a time. */")
    out.line(f"static inline void sampled_row{'_lined' if lined else ''}(")
    out.line(
        f"    const {value} *x, const {value} *restrict Y, {C_SIZE} ldY, const {C_INDICES[spec.coordinate_bits]} *crd,"
    )
    out.line(f"    const {value} *vals, {value} *restrict O, {C_SIZE} p, {C_SIZE} end, {C_SIZE} last, {C_SIZE} lead)")
    with out.block(""):
        out.line("(void)last;")
        if lined:
            ones = f"0x{(1 << spec.max_lanes) - 1:x}u"
            out.line(f"const head_{name} tail = make_head_{name}({spec.max_lanes} - lead);")
            out.line(f"const head_{name} front = (head_{name})({ones} << ({spec.max_lanes} - lead));")
            out.line("x += lead;")
            out.line("Y += lead;")
        else:
            out.line("(void)lead;")
        for v in range(n_vectors + lined):
            out.line(f"const {name} x_{v} = {_part(spec, 'x', v, n_vectors, lined=lined)};")
        with out.block(f"for (; p + {jam} <= end; p += {jam})"):
            _fetch_entries(out, spec, jam)
            _group(out, spec, jam, n_vectors, lined=lined)
        if jam == 8:
            with out.block("if (p + 4 <= end)"):
                _group(out, spec, 4, n_vectors, lined=lined)
                out.line("p += 4;")
        for rest in range(min(jam, 4) - 1, 0, -1):  # one fold for all of them, so that their sums are independent
            with out.block(f"{'' if rest == min(jam, 4) - 1 else 'else '}if (p + {rest} <= end)"):
                _group(out, spec, rest, n_vectors, lined=lined)
    return out.text()


def _part(spec: KernelSpec, row: str, v: int, n_vectors: int, *, lined: bool) -> str:
    """Return the C text of vector `v` of a row that begins, or has its first cache line, at `row`."""
    lanes, name = spec.max_lanes, vector_type(spec, spec.max_lanes)
    if lined and v == n_vectors:
        return f"load_head_{name}({row} - {lanes}, front)"
    if lined and v == n_vectors - 1:
        return f"load_head_{name}({row} + {v * lanes}, tail)"
    return f"load_{name}({row} + {v * lanes})"


def _fetch_entries(out: Writer, spec: KernelSpec, jam: int) -> None:
    ahead, step = spec.schedule.prefetch, CACHE_LINE_BYTES // spec.value_bytes
    most = min(spec.schedule.dense_split("j"), MAX_FETCHED_BYTES // spec.value_bytes)
    for entry in range(jam if ahead else 0):
        out.line(f"const {C_VALUES[spec.dtype]} *a_{entry} = Y + crd[asp_min(p + {ahead + entry}, last)] * ldY;")
        for at in range(0, most, step):
            out.line(f"__builtin_prefetch(a_{entry} + {at});")


def _group(out: Writer, spec: KernelSpec, n: int, n_vectors: int, *, lined: bool) -> None:
    """Emit C that computes `n` consecutive results, those of the entries from position p on."""
    name, width = vector_type(spec, spec.max_lanes), 1 << (n - 1).bit_length()
    for e in range(n):
        out.line(f"const {C_VALUES[spec.dtype]} *y_{e} = Y + ({C_SIZE})crd[p + {e}] * ldY;")
    for v in range(n_vectors + lined):
        for e in range(n):
            product = f"x_{v} * {_part(spec, f'y_{e}', v, n_vectors, lined=lined)}"
            out.line(f"{name} s_{e} = {product};" if v == 0 else f"s_{e} += {product};")
    if n == 1:
        out.line(f"O[p] = vals[p] * sum_{name}(s_0);")
        return
    small = vector_type(spec, width)
    sums = [f"s_{e}" for e in range(n)] + [f"({name}){{0}}"] * (width - n)
    if n == width:
        out.line(f"store_{small}(O + p, load_{small}(vals + p) * fold_{n}_{name}({', '.join(sums)}));")
        return
    out.line(f"const {small} dots = fold_{width}_{name}({', '.join(sums)});")
    for e in range(n):
        out.line(f"O[p + {e}] = vals[p + {e}] * dots[{e}];")


def folds_of(jam: int) -> tuple[int, ...]:
    """Return the numbers of vectors that the fold helpers of `jam` entries sum at once: 2, 4, 8 up to `jam`."""
    return tuple(n for n in (2, 4, 8) if n <= jam)

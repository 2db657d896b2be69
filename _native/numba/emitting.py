"""State of the Python emitter: the kernel being emitted, the position in it, and the layout of the packed operand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from autosparse._native.c.types import OPERAND_STRUCT
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.slice_layout import SIDES
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.ir.writer import PythonWriter

from autosparse.scalar import BY_BITS


def _operand_words(struct: str) -> dict[str, int]:
    """Return the first 8-byte word of each field of the C structure, all of whose fields consist of such words."""
    begin, end = struct.rindex("typedef struct {") + len("typedef struct {"), struct.rindex("}")
    body = re.sub(r"/\*.*?\*/", "", struct[begin:end], flags=re.DOTALL)
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)  # pointers to functions
    words, at = {}, 0
    for declaration in filter(None, (text.strip() for text in body.split(";"))):
        for one in declaration.split(","):
            match = re.search(r"(\w+)(?:\[(\d+)\])?$", one.strip())
            assert match is not None, one
            words[match[1]] = at
            at += int(match[2] or 1)
    return words


OPERAND_WORDS: Final[Mapping[str, int]] = _operand_words(OPERAND_STRUCT)
"""Word at which each field of the packed operand begins."""


INTEGERS: Final = {bits: row.short for bits, row in BY_BITS.items()}


@dataclass(frozen=True)
class NumbaScope:
    """Position of the emitter: the function being written, enclosing loop variables, column tile, accumulators."""

    out: PythonWriter
    variables: tuple[str, ...] = ()  # variables that a task receives
    tile: str | None = None  # index that runs through a tile
    width: str | None = None  # of the tile
    extents: tuple[str, ...] = ()  # of the enclosing sequential loops
    depth: int = 0  # of the innermost workspace

    def binding(self, *names: str) -> NumbaScope:
        """Return the scope inside a loop that binds `names`."""
        return replace(self, variables=(*self.variables, *names))

    def inside(self, depth: int) -> NumbaScope:
        """Return the scope inside a workspace."""
        return replace(self, depth=depth)


@dataclass
class NumbaEmitter:
    """State of one kernel being emitted."""

    spec: KernelSpec
    program: ir.Program
    rules: Mapping[type, Callable[[Any, Any, NumbaScope], None]]  # function that emits each kind of node
    tasks: list[str] = field(default_factory=list)

    @property
    def value(self) -> str:
        """Suffix of the names of the functions that load and store values."""
        return self.spec.types.compute.short

    @property
    def finite_text(self) -> str:
        """Test that `total` is finite; the modulus of a complex number would need the C library."""
        if self.spec.types.compute.kind == "complex":
            return "(abs(total.real) <= MOST and abs(total.imag) <= MOST)"
        return "abs(total) <= MOST"

    @property
    def positions(self) -> str:
        """Suffix of the names of the functions that load from pos arrays."""
        return INTEGERS[self.spec.positions_bits]

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the dense operands, then of the output."""
        return tuple(access.tensor for access in (*self.program.expression.dense, self.program.expression.output))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters of a kernel (see `c.types.call_of`)."""
        if self.program.expression.is_plain_product:
            B, C = self.tensors
            return ("A", B, f"ld{B}", C, f"ld{C}", "n_j", "n_threads", "chunk")
        return ("A", "addresses", "leading", "n_j", "n_threads", "chunk")

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the words of a task's context that precede the variables."""
        names = [name for tensor in self.tensors for name in (tensor, f"ld{tensor}")]
        live = ["vals"] if self.program.expression.sampled else []
        return ("A", *names, *live, "n_j", "n_threads", "chunk", "n", "n_parts", "weights", "bad")

    def split(self, index: str) -> int:
        """Return the split size of an index."""
        return (dict(self.spec.schedule.format.splits) | dict(self.spec.schedule.dense_splits)).get(index, 1)

    def run(self, nodes: Iterable[ir.Node], scope: NumbaScope) -> None:
        """Emit `nodes` in order."""
        for node in nodes:
            self.rules[type(node)](self, node, scope)
            if isinstance(node, ir.Locate):
                scope = scope.binding(f"p_{node.level.name}")
            if isinstance(node, ir.Fetch):
                scope = scope.binding(f"p_{node.level.name}", node.level.name)

    def extent_text(self, extent: ir.Extent) -> str:
        """Return the text of a dense loop's number of iterations."""
        c = extent.coordinate
        if not extent.partner_bound:
            return f"n_{c.name}" if c.is_outer else str(c.split)
        if c.is_outer:
            return f"(n_{c.index} - {c.partner} + {c.split - 1}) // {c.split}"
        return f"min({c.split}, n_{c.index} - {c.partner} * {c.split})"

    def declare(self, body: str, known: Iterable[str], *, in_task: bool) -> str:
        """Return lines that set the names that `body` uses, except for the `known` ones."""
        sources = self._context() if in_task else self._call()
        every = {name: text for name, text in (sources | self._operand()).items() if name not in known}
        wanted: set[str] = set()
        text = body
        for name in reversed(every):  # later ones use earlier ones
            if re.search(rf"\b{name}\b", text):
                wanted.add(name)
                text += f"\n{every[name]}"
        return "".join(f"    {name} = {every[name]}\n" for name in every if name in wanted)

    def _context(self) -> dict[str, str]:
        """Return, by name, the expressions by which a task reads the kernel's arguments from its context."""
        return {name: f"load_i64(x, {slot})" for slot, name in enumerate(self.slots)}

    def _call(self) -> dict[str, str]:
        """Return, by name, the expressions by which a kernel of several dense operands reads its arguments."""
        addresses = [*self.tensors, *(["vals"] if self.program.expression.sampled else [])]
        lines = {name: f"load_i64(addresses, {at})" for at, name in enumerate(addresses)}
        return lines | {f"ld{name}": f"load_i64(leading, {at})" for at, name in enumerate(self.tensors)}

    def _operand(self) -> dict[str, str]:
        """Return, by name, the expressions that read fields of the packed operand."""
        lines: dict[str, str] = {}
        words = OPERAND_WORDS
        for at, index in enumerate(self.program.expression.sparse.indices):
            lines[f"n_{index}"] = f"load_i64(A, {words['size'] + at})"
        for level in self.program.levels:
            for kind in ("pos", "crd"):
                lines[f"{level.name}_{kind}"] = f"load_i64(A, {words[kind] + level.depth})"
        lines |= {f"slice_{name}": f"load_i64(A, {words[kind] + depth})" for name, (kind, depth) in SIDES.items()}
        if self.program.expression.sampled:  # the values are the user's own and come with the call
            lines |= {name: f"load_i64(A, {words[name]})" for name in ("origin", "repeats")}
        else:
            lines["vals"] = f"load_i64(A, {words['vals']})"
        lines["pool"] = f"load_i64(A, {words['parallel']})"
        lines["sorted_levels"] = f"load_i64(A, {words['sorted']})"
        nodes = [node for node in ir.walk(self.program.body) if isinstance(node, ir.ForDense | ir.ForTiles)]
        outer = {level.coordinate for level in self.program.levels} | {node.coordinate for node in nodes}
        for c in sorted((c for c in outer if c.is_outer), key=lambda c: c.name):
            lines[f"n_{c.name}"] = f"n_{c.index}" if c.split == 1 else f"(n_{c.index} + {c.split - 1}) // {c.split}"
        return lines

"""C of one program: loops that step through sparse operands, intersect several, locate in others.

A product is zero where one factor is, so every read that steps at a loop restricts it, and a located one that is
absent skips the body. Workspaces of rank 1 are dense arrays with a bit set and a list of what was touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autosparse.asymptotic.cin.nodes import Access, Assign, Loop, Statement, Where, reads, wheres
from autosparse.asymptotic.cost.model import Steps, concordances
from autosparse.asymptotic.lower.c_text import FLUSH, HELPERS
from autosparse.asymptotic.programs.nests import workspaces

C_TYPES: Final = {
    "float64": "double", "float32": "float", "complex128": "double _Complex", "complex64": "float _Complex",
    "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t",
    "uint64": "uint64_t", "uint32": "uint32_t", "uint16": "uint16_t", "uint8": "uint8_t",
}  # fmt: skip
"""Value types that kernels compute in."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A program, its protocols and where its result goes."""

    program: Statement
    steps: Steps
    output: Access
    is_dense_output: bool
    sparse: tuple[str, ...]  # names of sparse inputs, in the order of arguments
    dense: tuple[Access, ...]  # dense inputs
    indices: str  # in the order in which extents are passed
    dense_levels: frozenset[str]  # sparse inputs whose first level is dense

    def orders(self) -> dict[str, str]:
        """Levels of each sparse input: its indices in the order of loops."""
        found = dict(concordances(self.program))
        return {
            access.tensor: "".join(access.indices[mode] for mode in order)
            for access, order in found.items()
            if access.tensor in self.sparse
        }

    def protocol(self, tensor: str, index: str) -> str:
        """How an input is read at an index."""
        access = next(access for access in self.steps if access.tensor == tensor)
        return self.steps[access][access.indices.index(index)]

    def n_prefix(self) -> int:
        """Modes of a sparse output that are written in order, by the loops around them."""
        order = self.output_order()
        return _n_appended(self.program, order)

    def output_order(self) -> str:
        """Indices of the output in the order of loops."""
        return "".join(i for i in _loops_of_result(self.program) if i in self.output.indices)

    @property
    def output_kind(self) -> str:
        """``dense``, ``append``, ``row`` (the last mode is buffered) or ``entries`` (sorted afterwards)."""
        if self.is_dense_output or not self.output.indices:
            return "dense"
        n_inserted = len(self.output.indices) - self.n_prefix()
        kind = {0: "append", 1: "row"}.get(n_inserted, "entries")
        return "entries" if kind == "row" and not self.n_prefix() else kind


def _loops_of_result(statement: Statement) -> list[str]:
    """Indices bound around the assignment of the result, outermost first."""
    found: list[str] = []
    while not isinstance(statement, Assign):
        if isinstance(statement, Loop):
            found += statement.indices
            statement = statement.body
        else:
            statement = statement.consumer
    return found


def _n_appended(program: Statement, order: str) -> int:
    bound = _loops_of_result(program)
    n = 0
    while n < len(order) and bound[n] == order[n]:
        n += 1
    return n


def emit(plan: Plan, *, dtype: str, index_bits: int) -> str:
    """The C source of `plan`."""
    return _Emitter(plan).source(C_TYPES[dtype], index_bits)


class _Emitter:
    """Writes one kernel."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.orders = plan.orders()
        self.spaces = workspaces(plan.program)
        self.lines: list[str] = []
        self.depth = 1
        self.prefix = plan.output_order()[: plan.n_prefix()]

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> None:
        self.line(text + " {")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.line("}")

    def source(self, value: str, index_bits: int) -> str:
        self._declare()
        self._statement(self.plan.program, ())
        self._release()
        head = f"/* {self.plan.program} */\n#define N_MODES {max(1, len(self.plan.output.indices))}\n"
        types = f"typedef {value} V;\ntypedef int{index_bits}_t X;\n"
        entry = "int asp_einsum(void **args, const int64_t *extents, int64_t lo, int64_t hi, asp_out *out)\n{\n"
        row = FLUSH if self.plan.output_kind == "row" else ""
        return head + HELPERS.replace("TYPES", types) + row + entry + "\n".join(self.lines) + "\n  return 0;\n}\n"

    def _declare(self) -> None:
        """Arguments by name, and memory of workspaces."""
        for n, index in enumerate(self.plan.indices):
            self.line(f"const int64_t n_{index} = extents[{n}]; (void)n_{index};")
        at = 0
        for tensor in self.plan.sparse:
            for depth, _ in enumerate(self.orders[tensor]):
                for kind in ("pos", "crd"):
                    self.line(f"const X *{tensor}_{kind}{depth} = args[{at}]; (void){tensor}_{kind}{depth};")
                    at += 1
            self.line(f"const V *{tensor}_val = args[{at}];")
            at += 1
        for access in self.plan.dense:
            self.line(f"const V *{access.tensor} = args[{at}];")
            at += 1
        self.line(f"V *result = args[{at}]; (void)result;")
        for name, access in self.spaces.items():
            if access.indices:
                self.line(f"asp_space {name}; if (space_new(&{name}, n_{access.indices[0]})) return 1;")
        if self.plan.output_kind == "row":
            self.line(f"asp_space row; if (space_new(&row, n_{self.plan.output_order()[-1]})) return 1;")

    def _release(self) -> None:
        for name, access in self.spaces.items():
            if access.indices:
                self.line(f"space_free(&{name});")
        if self.plan.output_kind == "row":
            self.line("space_free(&row);")

    # --- statements ---

    def _statement(self, node: Statement, bound: tuple[str, ...]) -> None:
        if isinstance(node, Loop):
            index, *rest = node.indices
            self._loop(index, Loop(tuple(rest), node.body) if rest else node.body, bound)
        elif isinstance(node, Where):
            self._where(node, bound)
        else:
            self._assign(node)

    def _where(self, node: Where, bound: tuple[str, ...]) -> None:
        name = node.workspace
        self.open("")
        if self.spaces[name].indices:
            self.line(f"space_clear(&{name});")
            touched = f"{name}.n"
        else:
            self.line(f"V {name} = 0; int {name}_any = 0;")
            touched = f"{name}_any"
        self._statement(node.producer, bound)
        self.open(f"if ({touched})")
        self._statement(node.consumer, bound)
        self.close()
        self.close()

    def _loop(self, index: str, body: Statement, bound: tuple[str, ...]) -> None:
        found = dict.fromkeys(access.tensor for access in reads(body) if index in access.indices)
        inputs = [tensor for tensor in found if tensor in self.plan.sparse]
        spaces = [tensor for tensor in found if tensor in self.spaces]
        steppers = [tensor for tensor in inputs if self.plan.protocol(tensor, index) == "s"]
        located = [tensor for tensor in inputs if tensor not in steppers]
        lead = "" if steppers else next((one for one in spaces if self._steps(one, index)), "")
        if steppers:
            self._merge(index, steppers, is_split=self._is_split(bound))
        elif lead:
            if index in self.prefix:
                self.line(f"space_sort(&{lead});")
            self.open(f"for (X at_{index} = 0; at_{index} < {lead}.n; at_{index}++)")
            self.line(f"const X {index} = {lead}.list[at_{index}];")
        else:
            first, last = ("lo", "hi") if self._is_split(bound) else ("0", f"n_{index}")
            self.open(f"for (X {index} = {first}; {index} < {last}; {index}++)")
        n_open = self._guards(index, located, [one for one in spaces if one != lead])
        self._statement(body, (*bound, index))
        if self.plan.output_kind == "row" and index == self.prefix[-1] and bound == tuple(self.prefix[:-1]):
            at = ", ".join(self._output_coordinates(last="0"))
            self.line(f"if (row.n && flush(out, &row, (X[]){{{at}}}, {self._last_mode()})) return 1;")
        for _ in range(n_open):
            self.close()
        if len(steppers) > 1:
            self.line(" ".join(f"p_{tensor}{self._level(tensor, index)}++;" for tensor in steppers))
        self.close()

    def _is_split(self, bound: tuple[str, ...]) -> bool:
        """Whether this is the loop that threads share."""
        return not bound and isinstance(self.plan.program, Loop)

    def _steps(self, name: str, index: str) -> bool:
        access = self.spaces[name]
        steps = self.plan.steps.get(Access(name, access.indices), "")
        return bool(steps) and steps[access.indices.index(index)] == "s"

    def _level(self, tensor: str, index: str) -> int:
        return self.orders[tensor].index(index)

    def _range(self, tensor: str, level: int) -> tuple[str, str]:
        """First and last child of the node that is bound above `level`; the root's children are in `pos` too."""
        above = f"p_{tensor}{level - 1}" if level else "0"
        return f"{tensor}_pos{level}[{above}]", f"{tensor}_pos{level}[{above} + 1]"

    def _merge(self, index: str, steppers: list[str], *, is_split: bool) -> None:
        """Open the loop over the intersection of what the steppers store."""
        names = []
        for tensor in steppers:
            level = self._level(tensor, index)
            first, last = self._range(tensor, level)
            if is_split:
                first, last = (f"find_from({tensor}_crd{level}, {first}, {last}, {side})" for side in ("lo", "hi"))
            self.line(f"X p_{tensor}{level} = {first}; const X e_{tensor}{level} = {last};")
            names.append((f"p_{tensor}{level}", f"e_{tensor}{level}", f"{tensor}_crd{level}"))
        if len(names) == 1:
            ((p, e, crd),) = names
            self.open(f"for (; {p} < {e}; {p}++)")
            self.line(f"const X {index} = {crd}[{p}];")
            return
        self.open("while (" + " && ".join(f"{p} < {e}" for p, e, _ in names) + ")")
        self.line(f"X {index} = {names[0][2]}[{names[0][0]}];")
        for p, _, crd in names[1:]:
            self.line(f"if ({crd}[{p}] > {index}) {index} = {crd}[{p}];")
        for p, e, crd in names:
            self.line(f"if ({crd}[{p}] < {index}) {{ {p} = gallop({crd}, {p}, {e}, {index}); continue; }}")

    def _guards(self, index: str, located: list[str], spaces: list[str]) -> int:
        """Positions of located reads; the number of blocks opened."""
        for tensor in located:
            level = self._level(tensor, index)
            if level == 0 and tensor in self.plan.dense_levels:
                self.line(f"const X p_{tensor}0 = {index};")
                self.open(f"if ({tensor}_pos1[p_{tensor}0] < {tensor}_pos1[p_{tensor}0 + 1])")
            else:
                first, last = self._range(tensor, level)
                self.line(f"const X p_{tensor}{level} = find({tensor}_crd{level}, {first}, {last}, {index});")
                self.open(f"if (p_{tensor}{level} >= 0)")
        for name in spaces:
            self.open(f"if (space_has(&{name}, {index}))")
        return len(located) + len(spaces)

    # --- assignments ---

    def _assign(self, node: Assign) -> None:
        value = " * ".join(self._value(access) for access in reads(node.rhs))
        lhs = node.lhs
        if lhs.tensor in self.spaces:
            if lhs.indices:
                self.line(f"space_add(&{lhs.tensor}, {lhs.indices[0]}, {value});")
            else:
                self.line(f"{lhs.tensor} += {value}; {lhs.tensor}_any = 1;")
        elif self.plan.output_kind == "dense":
            self.line(f"result[{self._linear(lhs)}] += {value};")
        elif self.plan.output_kind == "row":
            self.line(f"space_add(&row, {self.plan.output_order()[-1]}, {value});")
        else:
            at = ", ".join(self._output_coordinates())
            self.line(f"if (push(out, (X[]){{{at}}}, {value})) return 1;")

    def _output_coordinates(self, last: str | None = None) -> list[str]:
        order = self.plan.output_order()
        names = [index if last is None or index != order[-1] else last for index in self.plan.output.indices]
        return [f"(X){name}" for name in names]

    def _last_mode(self) -> int:
        return self.plan.output.indices.index(self.plan.output_order()[-1])

    def _value(self, access: Access) -> str:
        name = access.tensor
        if name in self.spaces:
            return f"{name}.value[{access.indices[0]}]" if access.indices else name
        if name in self.plan.sparse:
            return f"{name}_val[p_{name}{len(access.indices) - 1}]" if access.indices else f"{name}_val[0]"
        return f"{name}[{self._linear(access)}]"

    def _linear(self, access: Access) -> str:
        """Row-major position of a dense access."""
        text = "0"
        for index in access.indices:
            text = index if text == "0" else f"({text}) * n_{index} + {index}"
        return f"(int64_t){text}" if text.isalnum() else text


def has_small_workspaces(program: Statement) -> bool:
    """Whether every workspace has rank 0 or 1, which is what kernels hold."""
    names = {where.workspace for where in wheres(program)}
    return all(len(access.indices) <= 1 for access in workspaces(program).values() if access.tensor in names)

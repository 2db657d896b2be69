"""Generate the loops of a product: stepped reads restrict a loop, located reads without an entry skip its body."""

from __future__ import annotations

from autosparse.contraction.cin.nodes import Assign, Loop, Statement, TensorAccess, Where, reads
from autosparse.contraction.lower.dialects import CText, PythonText
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.scalar import C_SIZE


class ProductEmitter:
    """Code generator for one kernel without additions other than reductions."""

    def __init__(self, plan: EinsumPlan, text: CText | PythonText) -> None:
        self.plan = plan
        self.text = text
        self.orders = plan.orders
        self.spaces = plan.spaces
        self.prefix = plan.output_order[: plan.n_prefix]
        self.objects: list[tuple[str, str]] = []  # kind and name of each object with memory of its own
        self.marked: list[str] = []
        self._accumulated = ""

    def body(self) -> str:
        """Return the lines of the kernel's function body."""
        self._statement(self.plan.program, ())
        loops, self.text.lines = self.text.lines, []
        self._declare()
        return "\n".join(self.text.lines + loops)

    def _declare(self) -> None:
        """Emit declarations of the arguments and the allocation of workspaces."""
        plan = self.plan
        for n, index in enumerate(plan.indices):
            self.text.let(f"n_{index}", f"extents[{n}]", C_SIZE)
        names: list[tuple[str, str]] = []
        for tensor in plan.sparse:
            depths = range(len(self.orders[tensor]))
            names += [(f"{tensor}_{kind}{depth}", "X") for depth in depths for kind in ("pos", "crd")]
            names.append((f"{tensor}_val", "V"))
        names += [(access.tensor, "V") for access in plan.dense]
        for at, (name, kind) in enumerate(names):
            self._array(name, f"args[{at}]", kind)
        self._make_objects()

    def _make_objects(self) -> None:
        for name, access in self.spaces.items():
            kind = self.plan.workspace_kind(name)
            sizes = [f"n_{index}" for index in self.orders.get(name, access.indices)]
            if kind != "scalar":
                self._make(kind, name, " * ".join(sizes))
        if self.plan.output_kind == "row":
            self._make("space", "row", f"n_{self.plan.output_order[-1]}")
        for name in self.marked:
            self._make("marks", f"m_{name}", f"n_{self.orders[name][-1]}")

    def _array(self, name: str, value: str, kind: str = "X") -> None:
        self.text.let(name, value, f"{kind} *")

    def _make(self, kind: str, name: str, size: str) -> None:
        self.objects.append((kind, name))
        if isinstance(self.text, PythonText):
            self.text.set(name, f"{kind}_new({size}, zero)")
        else:
            self.text.update(f"{kind}_new", name, size)

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
        self.text.block()
        name = node.workspace
        self._empty(name)
        self._statement(node.producer, bound)
        touched = f"{name}_any" if self.plan.workspace_kind(name) == "scalar" else self.text.count(name)
        self.text.if_(touched)
        self._freeze(name)
        self._statement(node.consumer, bound)
        self.text.close()
        self.text.close()

    def _empty(self, name: str) -> None:
        """Emit code that empties a workspace at the start of a `where`."""
        kind = self.plan.workspace_kind(name)
        if kind == "scalar":
            self.text.let(name, self.text.zero(), "W", is_variable=True)
            self.text.let(f"{name}_any", "0", "int", is_variable=True)
        else:
            self.text.call(f"{kind}_clear", name)

    def _freeze(self, name: str) -> None:
        """Emit the conversion of a filled table to a tree of levels, if the table is stepped through."""
        if self.plan.is_frozen(name):
            sizes = [f"n_{index}" for index in self.orders[name]]
            self.text.update("table_freeze", name, str(len(sizes)), self.text.sizes(sizes))
            for level in range(len(sizes)):
                self._array(f"{name}_pos{level}", f"{name}.pos[{level}]")
                self._array(f"{name}_crd{level}", f"{name}.crd[{level}]")
            self._array(f"{name}_val", f"{name}.val", "W")

    def _loop(self, index: str, body: Statement, bound: tuple[str, ...]) -> None:
        trees, spaces, tables = self._read_at(index, body)
        steppers = [tensor for tensor in trees if self.plan.protocol(tensor, index) == "s"]
        located = [tensor for tensor in trees if tensor not in steppers]
        is_summed = isinstance(body, Assign) and index not in body.lhs.indices
        if is_summed:
            self.text.block()
            self.text.let("acc", self.text.zero(), "W", is_variable=True)
            self.text.let("hit", "0", "int", is_variable=True)
            self._accumulated = "acc"
        if not located and not spaces and not tables and self._can_mark(index, steppers, body, bound):
            self._marked(index, steppers, body, bound)
        else:
            self._scan(index, body, bound, (steppers, located, spaces, tables))
        if is_summed:
            assert isinstance(body, Assign)
            self._accumulated = ""
            self.text.if_("hit")
            self._store(body.lhs, "acc")
            self.text.close()
            self.text.close()

    def _read_at(self, index: str, body: Statement) -> tuple[list[str], list[str], list[str]]:
        """Return three lists of the sparse tensors that `body` reads at `index`: trees, rank-1 workspaces, tables."""
        found = dict.fromkeys(access.tensor for access in reads(body) if index in access.indices)
        kinds = {name: self.plan.workspace_kind(name) for name in found if name in self.spaces}
        trees = [name for name in found if name in self.plan.sparse or self._is_tree(name)]
        spaces = [name for name, kind in kinds.items() if kind == "space"]
        tables = [
            name for name, kind in kinds.items()
            if kind == "table" and not self.plan.is_frozen(name) and index == self.orders[name][-1]
        ]  # fmt: skip
        return trees, spaces, tables

    def _is_tree(self, name: str) -> bool:
        return name in self.spaces and self.plan.is_frozen(name)

    def _scan(
        self, index: str, body: Statement, bound: tuple[str, ...],
        found: tuple[list[str], list[str], list[str], list[str]],
    ) -> None:  # fmt: skip
        """Emit the loop over `index`: through stored coordinates, a workspace's coordinates, or the whole extent."""
        steppers, located, spaces, tables = found
        text = self.text
        lead = "" if steppers else next((one for one in spaces if self.plan.protocol(one, index) == "s"), "")
        if steppers:
            self._merge(index, steppers, is_split=self._is_split(bound))
        elif lead:
            if index in self.prefix:
                text.call("space_sort", lead)
            text.for_range(f"at_{index}", "0", text.count(lead))
            text.let(index, f"{lead}.list[at_{index}]")
        else:
            first, last = ("lo", "hi") if self._is_split(bound) else ("0", f"n_{index}")
            text.for_range(index, first, last)
        n_open = self._guards(index, located, [one for one in spaces if one != lead], tables)
        self._statement(body, (*bound, index))
        self._flush(index, bound)
        for _ in range(n_open):
            text.close()
        if len(steppers) > 1:
            text.step([self._place(tensor, index) for tensor in steppers])
        text.close()

    def _flush(self, index: str, bound: tuple[str, ...]) -> None:
        """Emit the write of the buffered last output mode, at the end of the loop of the mode before it (`index`)."""
        if self.plan.output_kind == "row" and index == self.prefix[-1] and bound == tuple(self.prefix[:-1]):
            order = self.plan.output_order
            at = [i if i != order[-1] else "0" for i in self.plan.output.indices]
            self.text.if_(self.text.count("row"))
            arguments = [self.text.tuple(at), str(self.plan.output.indices.index(order[-1]))]
            self._out("flush", "&row" if isinstance(self.text, CText) else "row", *arguments)
            self.text.close()

    def _out(self, function: str, *arguments: str) -> None:
        """Emit a call of a helper that writes to the output."""
        if isinstance(self.text, CText):
            self.text.line(f"if ({function}(out, {', '.join(arguments)})) {{ failed = 1; goto end; }}")
        else:
            self.text.update(function, "out", *arguments)

    def _is_split(self, bound: tuple[str, ...]) -> bool:
        """Return whether this is the outermost loop, whose range is divided among threads."""
        return not bound and isinstance(self.plan.program, Loop)

    def _level(self, tensor: str, index: str) -> int:
        return self.orders[tensor].index(index)

    def _place(self, tensor: str, index: str) -> str:
        return f"p_{tensor}_{self._level(tensor, index)}"

    def _range(self, tensor: str, level: int) -> tuple[str, str]:
        """Return the position of the first child, and that after the last, of the current node above `level`."""
        above = f"p_{tensor}_{level - 1}" if level else "0"
        return f"{tensor}_pos{level}[{above}]", f"{tensor}_pos{level}[{above} + 1]"

    def _bounds(self, tensor: str, index: str, *, is_split: bool) -> tuple[str, str]:
        """Return the first position of a read in the loop over `index`, and that after its last one."""
        level = self._level(tensor, index)
        first, last = self._range(tensor, level)
        if is_split:
            first, last = (f"find_from({tensor}_crd{level}, {first}, {last}, {side})" for side in ("lo", "hi"))
        return first, last

    def _cursor(self, tensor: str, index: str, *, is_split: bool) -> tuple[str, str, str]:
        """Declare variables for a read's position and end; return their names and that of its coordinate array."""
        level = self._level(tensor, index)
        first, last = self._bounds(tensor, index, is_split=is_split)
        self.text.let(f"p_{tensor}_{level}", first, is_variable=True)
        self.text.let(f"e_{tensor}_{level}", last)
        return f"p_{tensor}_{level}", f"e_{tensor}_{level}", f"{tensor}_crd{level}"

    def _merge(self, index: str, steppers: list[str], *, is_split: bool) -> None:
        """Open the loop over the intersection of the steppers' coordinates."""
        text = self.text
        if len(steppers) == 1:
            tensor, level = steppers[0], self._level(steppers[0], index)
            first, last = self._bounds(tensor, index, is_split=is_split)
            text.let(f"e_{tensor}_{level}", last)
            text.for_range(f"p_{tensor}_{level}", first, f"e_{tensor}_{level}")
            text.let(index, f"{tensor}_crd{level}[p_{tensor}_{level}]")
            return
        names = [self._cursor(tensor, index, is_split=is_split) for tensor in steppers]
        text.while_(text.both([f"{p} < {e}" for p, e, _ in names]))
        text.let(index, f"{names[0][2]}[{names[0][0]}]", is_variable=True)
        for p, _, crd in names[1:]:
            text.if_(f"{crd}[{p}] > {index}")
            text.set(index, f"{crd}[{p}]")
            text.close()
        for p, e, crd in names:
            text.again_if(f"{crd}[{p}] < {index}", p, f"gallop({crd}, {p}, {e}, {index})")

    def _found(self, tensor: str, index: str) -> str:
        """Return the text of the position at which a read has the coordinate of `index`, -1 where it has none."""
        level = self._level(tensor, index)
        first, last = self._range(tensor, level)
        return f"find({tensor}_crd{level}, {first}, {last}, {index})"

    def _located(self, tensor: str, index: str) -> str:
        """Declare the position of a located read; return the condition for an entry to be there."""
        place = self._place(tensor, index)
        if self._level(tensor, index) == 0 and tensor in self.plan.dense_levels:
            self.text.let(place, index)
            return f"{tensor}_pos1[{place}] < {tensor}_pos1[{place} + 1]"
        self.text.let(place, self._found(tensor, index))
        return f"{place} >= 0"

    def _guards(self, index: str, located: list[str], spaces: list[str], tables: list[str]) -> int:
        """Emit the lookups of located reads, each opening a block if an entry is found; return the number of blocks."""
        for tensor in located:
            self.text.if_(self._located(tensor, index))
        for name in spaces:
            self.text.if_(self.text.value_of("space_has", name, index))
        for name in tables:
            key = self._key(name)
            self.text.let(f"q_{name}", self.text.value_of("table_find", name, key), C_SIZE)
            self.text.if_(f"q_{name} >= 0")
        return len(located) + len(spaces) + len(tables)

    # --- intersections of one row with many others ---

    def _can_mark(self, index: str, steppers: list[str], body: Statement, bound: tuple[str, ...]) -> bool:
        """Return whether the loop may mark the coordinates of one of two intersected rows, as `_marked` does."""
        if (
            not (self.text.has_marks and self.plan.has_marks)
            or len(steppers) != 2
            or not isinstance(body, Assign)
            or not bound
        ):
            return False
        return index not in self.plan.are_large and bool(self._staying(index, steppers, bound))

    def _staying(self, index: str, steppers: list[str], bound: tuple[str, ...]) -> str:
        """Return the intersected input whose range changes in fewer of the outer loops, or "" if there is none."""
        chosen = []
        for tensor in steppers:
            level = self._level(tensor, index)
            chosen.append(bound.index(self.orders[tensor][level - 1]) if level else -1)
        if chosen[0] == chosen[1]:
            return ""
        staying = steppers[chosen.index(min(chosen))]
        return staying if staying in self.plan.sparse else ""

    def _marked(self, index: str, steppers: list[str], body: Statement, bound: tuple[str, ...]) -> None:
        """Emit an intersection: mark one row and scan the other, or search the other if it is much longer."""
        staying = self._staying(index, steppers, bound)
        other = next(tensor for tensor in steppers if tensor != staying)
        if staying not in self.marked:
            self.marked.append(staying)
        text = self.text
        text.block()
        p, e, crd = self._cursor(staying, index, is_split=False)
        q, end, coords = self._cursor(other, index, is_split=False)
        text.if_(f"{end} - {q} <= ({C_SIZE})8 * ({e} - {p})")
        text.update("marks_set", f"m_{staying}", crd, p, e)
        text.open(f"for (X from_{index} = {q}; from_{index} < {end}; from_{index} += MAX_MET) {{")
        text.let(f"to_{index}", f"{end} - from_{index} < MAX_MET ? {end} : from_{index} + MAX_MET")
        text.line(f"X met_{index}[MAX_MET];")
        text.let(f"n_met_{index}", f"marks_meet(&m_{staying}, {coords}, from_{index}, to_{index}, met_{index})", "int")
        text.for_range(f"at_{index}", "0", f"n_met_{index}")
        text.let(q, f"met_{index}[at_{index}]")
        text.let(index, f"{coords}[{q}]")
        text.let(p, f"m_{staying}.at[{index}] - 1")
        self._statement(body, (*bound, index))
        for _ in range(3):
            text.close()
        text.open("else {")
        text.open(f"for (; {p} < {e} && {q} < {end}; {p}++) {{")
        text.let(index, f"{crd}[{p}]")
        text.line(f"if ({coords}[{q}] < {index}) {q} = gallop({coords}, {q}, {end}, {index});")
        text.if_(f"{q} < {end} && {coords}[{q}] == {index}")
        self._statement(body, (*bound, index))
        for _ in range(4):
            text.close()

    # --- assignments ---

    def _assign(self, node: Assign) -> None:
        value = self._product(node)
        if self._accumulated:
            self.text.accumulate("acc", value)
            self.text.set("hit", "1")
        else:
            self._store(node.lhs, value)

    def _product(self, node: Assign) -> str:
        return f" {self.text.semiring.operator} ".join(self._value(access) for access in reads(node.rhs))

    def _store(self, lhs: TensorAccess, value: str) -> None:
        text = self.text
        if lhs.tensor in self.spaces:
            kind = self.plan.workspace_kind(lhs.tensor)
            if kind == "scalar":
                text.accumulate(lhs.tensor, value)
                text.set(f"{lhs.tensor}_any", "1")
            elif kind == "space":
                text.call("space_add", lhs.tensor, lhs.indices[0], value)
            else:
                text.update("table_add", lhs.tensor, self._key(lhs.tensor), value)
        elif self.plan.output_kind == "dense":
            text.accumulate(f"result[{self._linear(lhs)}]", value)
        elif self.plan.output_kind == "row":
            text.call("space_add", "row", self.plan.output_order[-1], value)
        else:
            self._out("push", text.tuple(self.plan.output.indices), value)

    def _key(self, name: str) -> str:
        """Return the text of a table entry's key: its row-major number by the order of the loops around its read."""
        return self._row_major(self.orders[name])

    def _value(self, access: TensorAccess) -> str:
        name = access.tensor
        if self._is_tree(name) or name in self.plan.sparse:
            return f"{name}_val[p_{name}_{len(access.indices) - 1}]" if access.indices else f"{name}_val[0]"
        if name in self.spaces:
            kind = self.plan.workspace_kind(name)
            at = access.indices[0] if kind == "space" else f"q_{name}"
            return name if kind == "scalar" else f"{name}.value[{at}]"
        return f"{name}[{self._linear(access)}]"

    def _linear(self, access: TensorAccess) -> str:
        """Return the row-major position of a dense access."""
        return self._row_major(access.indices)

    def _row_major(self, indices: tuple[str, ...] | str) -> str:
        text = "0"
        for index in indices:
            text = index if text == "0" else f"({text}) * n_{index} + {index}"
        return self.text.wide(text) if text.isalnum() else text

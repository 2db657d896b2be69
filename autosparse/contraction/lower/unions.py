"""Generate the loops of programs with additions, which visit each coordinate at which the statement is nonzero."""

from __future__ import annotations

import functools

from autosparse.contraction.cin.nodes import Assign, Expression, Loop, OperatorCall, Statement, TensorAccess, Where
from autosparse.contraction.lower.dialects import CText, PythonText
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.lower.products import ProductEmitter


class UnionEmitter(ProductEmitter):
    """Code generator for one kernel with additions: flags say which reads have an entry at the current coordinate."""

    def __init__(self, plan: EinsumPlan, text: CText | PythonText) -> None:
        super().__init__(plan, text)
        self._flags: dict[str, str | bool] = {}

    def _where(self, node: Where, bound: tuple[str, ...]) -> None:
        self.text.block()
        name = node.workspace
        self._empty(name)
        self._statement(node.producer, bound)
        self._freeze(name)
        before = dict(self._flags)
        if self.plan.workspace_kind(name) == "scalar":
            self._flags[name] = f"{name}_any"
        self._statement(node.consumer, bound)
        self._flags = before
        self.text.close()

    def _loop(self, index: str, body: Statement, bound: tuple[str, ...]) -> None:
        text, before = self.text, dict(self._flags)
        trees, _, _ = self._read_at(index, body)
        steppers = [tensor for tensor in trees if self.plan.protocol(tensor, index) == "s"]
        cursors = {tensor: self._cursor(tensor, index, is_split=self._is_split(bound)) for tensor in steppers}
        if steppers and self._alive(body, dict(self._flags, **dict.fromkeys(steppers, False))) is False:
            text.while_(text.either([f"{p} < {e}" for p, e, _ in cursors.values()]))
            text.let(index, f"n_{index}", is_variable=True)
            for p, e, crd in cursors.values():
                text.if_(text.both([f"{p} < {e}", f"{crd}[{p}] < {index}"]))
                text.set(index, f"{crd}[{p}]")
                text.close()
        else:
            first, last = ("lo", "hi") if self._is_split(bound) else ("0", f"n_{index}")
            text.for_range(index, first, last)
        for tensor in trees:
            self._flag(tensor, index, cursors.get(tensor))
        alive = self._alive(body, self._flags)
        text.if_("0" if alive is False else "1" if alive is True else alive)
        self._statement(body, (*bound, index))
        self._flush(index, bound)
        text.close()
        for tensor, (p, _, _) in cursors.items():
            text.add(p, self._name_of_flag(tensor, index))
        text.close()
        self._flags = before

    def _bounds(self, tensor: str, index: str, *, is_split: bool) -> tuple[str, str]:
        """Return the bounds of a read's positions; both are 0 where the levels above have no entry."""
        first, last = super()._bounds(tensor, index, is_split=is_split)
        if isinstance(flag := self._flags.get(tensor, True), str):
            first, last = (self.text.select(flag, side, "0") for side in (first, last))
        return first, last

    def _found(self, tensor: str, index: str) -> str:
        """Return the position of a read's entry, -1 where it or the levels above have none."""
        found, flag = super()._found(tensor, index), self._flags.get(tensor, True)
        return self.text.select(flag, found, "-1") if isinstance(flag, str) else found

    def _flag(self, tensor: str, index: str, cursor: tuple[str, str, str] | None) -> None:
        """Emit a flag variable that says whether `tensor` has an entry at the current coordinate of `index`."""
        text, name = self.text, self._name_of_flag(tensor, index)
        if cursor is None:
            present = self._located(tensor, index)
        else:
            p, e, crd = cursor
            present = text.both([f"{p} < {e}", f"{crd}[{p}] == {index}"])
        text.let(name, text.select(present, "1", "0"), "int")
        self._flags[tensor] = name

    def _name_of_flag(self, tensor: str, index: str) -> str:
        return f"h_{tensor}_{self._level(tensor, index)}"

    def _alive(self, node: Statement | Expression, flags: dict[str, str | bool]) -> str | bool:
        """Return the condition for an expression to be nonzero or a statement to act, as text or a bool."""
        if isinstance(node, Loop):
            return self._alive(node.body, flags)
        if isinstance(node, Where):
            return self._alive(node.consumer, dict(flags, **{node.workspace: self._alive(node.producer, flags)}))
        if isinstance(node, Assign):
            return self._alive(node.rhs, flags)
        if isinstance(node, TensorAccess):
            return flags.get(node.tensor, True)
        parts = [self._alive(arg, flags) for arg in node.args]
        if node.op == "-":
            return parts[0]
        decided = node.op == "+"  # one present part makes a sum nonzero, one absent part a product zero
        if any(part is decided for part in parts):
            return decided
        left = [part for part in parts if isinstance(part, str)]
        if not left:
            return not decided
        return self.text.either(left) if decided else self.text.both(left)

    def _assign(self, node: Assign) -> None:
        alive = self._alive(node, self._flags)
        if isinstance(alive, str):
            self.text.if_(alive)
            self._store(node.lhs, self._expression(node.rhs))
            self.text.close()
        elif alive:
            self._store(node.lhs, self._expression(node.rhs))

    def _expression(self, node: Expression) -> str:
        if isinstance(node, OperatorCall):
            return self._applied(node.op, [self._expression(arg) for arg in node.args])
        flag = self._flags.get(node.tensor, True)
        value = self._value(node)
        return self.text.select(flag, value, self.text.zero()) if isinstance(flag, str) else value

    def _applied(self, op: str, values: list[str]) -> str:
        """Return the text of ⊗ (``*``), ⊕ (``+``) or the negation (``-``) of the texts `values`."""
        semiring = self.text.semiring
        if op == "-":
            return f"(-{values[0]})"
        if op == "*" or semiring.is_ordinary:
            return "(" + f" {semiring.operator if op == '*' else op} ".join(values) + ")"
        return functools.reduce(lambda left, right: f"plus({left}, {right})", values)

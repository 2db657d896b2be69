"""Stage 1: rewrite the expression and choose the subexpressions that are computed into workspaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from autosparse.contraction.cin.nodes import Assign, Expression, OperatorCall, Statement, TensorAccess, Where, replace

WORKSPACE = "w"
"""First letter of every workspace's name; a number follows."""


def bodies(lhs: TensorAccess, op: str, rhs: Expression) -> tuple[Statement, ...]:
    """Return the distinct loop-free statements that compute ``lhs op= rhs``, with and without workspaces."""
    found: dict[Statement, None] = {}
    for expression in rewrites(rhs):
        for statement in groupings(Assign(lhs, op, expression), itertools.count()):
            found[_canonical(statement)] = None
    return tuple(found)


def rewrites(expression: Expression) -> tuple[Expression, ...]:
    """Return the binary trees equal to `expression` by commutativity, associativity and distribution of * over +."""
    start = _sorted(_binary(expression))
    found = {start: None}
    pending = [start]
    while pending:
        for other in map(_sorted, _neighbours(pending.pop())):
            if other not in found:
                found[other] = None
                pending.append(other)
    return tuple(found)


def groupings(assign: Assign, names: itertools.count[int]) -> Iterator[Statement]:
    """Yield the assignment itself, then every way to compute calls of its right-hand side into workspaces first."""
    yield assign
    for call, path in _subcalls(assign.rhs):
        for op in _reductions(assign.op, path):
            workspace = TensorAccess(f"{WORKSPACE}{next(names)}")
            consumer = Assign(assign.lhs, assign.op, replace(assign.rhs, call, workspace))
            producers = list(groupings(Assign(workspace, op, call), names))
            for outer in groupings(consumer, names):
                yield from (Where(outer, producer) for producer in producers)


def _reductions(op: str, path: tuple[str, ...]) -> list[str]:
    """Return the operators that may write a workspace: "" (store), and `op` if it distributes over all calls above."""
    distributes = op == "+" and all(above == "*" for above in path)
    return ["", op] if distributes else [""]


def _subcalls(expression: Expression) -> list[tuple[OperatorCall, tuple[str, ...]]]:
    """Return the distinct proper subcalls of `expression`, each with the operators above it."""
    found: dict[OperatorCall, tuple[str, ...]] = {}

    def visit(node: Expression, path: tuple[str, ...]) -> None:
        if isinstance(node, OperatorCall):
            if path:
                found.setdefault(node, path)
            for arg in node.args:
                visit(arg, (*path, node.op))

    visit(expression, ())
    return list(found.items())


def _binary(expression: Expression) -> Expression:
    if isinstance(expression, TensorAccess):
        return expression
    first, *rest = map(_binary, expression.args)
    for arg in rest:
        first = OperatorCall(expression.op, (first, arg))
    return first


def _neighbours(tree: Expression) -> Iterator[Expression]:
    """Yield the trees that are one rewrite away from `tree`."""
    if isinstance(tree, TensorAccess):
        return
    left, right = tree.args
    for one, other in ((left, right), (right, left)):
        if isinstance(one, OperatorCall):
            a, b = one.args
            if one.op == tree.op:
                yield OperatorCall(tree.op, (a, OperatorCall(tree.op, (b, other))))
                yield OperatorCall(tree.op, (b, OperatorCall(tree.op, (a, other))))
            elif tree.op == "*":
                yield OperatorCall("+", (OperatorCall("*", (a, other)), OperatorCall("*", (b, other))))
        for changed in _neighbours(one):
            yield OperatorCall(tree.op, (changed, other))


def _sorted(expression: Expression) -> Expression:
    if isinstance(expression, TensorAccess):
        return expression
    return OperatorCall(expression.op, tuple(sorted(map(_sorted, expression.args), key=str)))


def flattened(expression: Expression) -> Expression:
    """Return `expression` with nested sums and products merged and operands sorted."""
    if isinstance(expression, TensorAccess):
        return expression
    args: list[Expression] = []
    for arg in map(flattened, expression.args):
        args += arg.args if isinstance(arg, OperatorCall) and arg.op == expression.op else (arg,)
    return OperatorCall(expression.op, tuple(sorted(args, key=str)))


def _canonical(statement: Statement) -> Statement:
    """Return the statement with workspaces numbered from 1, outermost first, and expressions flattened and sorted."""
    names: dict[str, str] = {}

    def collect(node: Statement) -> None:
        if isinstance(node, Where):
            names[node.workspace] = f"{WORKSPACE}{len(names) + 1}"
            collect(node.consumer)
            collect(node.producer)

    def renamed(node: Expression) -> Expression:
        if isinstance(node, TensorAccess):
            return TensorAccess(names.get(node.tensor, node.tensor), node.indices)
        return OperatorCall(node.op, tuple(map(renamed, node.args)))

    def rebuilt(node: Statement) -> Statement:
        if isinstance(node, Where):
            return Where(rebuilt(node.consumer), rebuilt(node.producer))
        assert isinstance(node, Assign)
        lhs = TensorAccess(names.get(node.lhs.tensor, node.lhs.tensor), node.lhs.indices)
        return Assign(lhs, node.op, flattened(renamed(node.rhs)))

    collect(statement)
    return rebuilt(statement)

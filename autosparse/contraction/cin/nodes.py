"""Statements and expressions of protocolized concrete index notation, as immutable values.

W. Ahrens, F. Kjolstad, S. Amarasinghe: Autoscheduling for Sparse Tensor Algebra with an Asymptotic Cost Model, PLDI
2022, section 4. A read of a sparse tensor carries one protocol per mode: ``s`` steps through the stored coordinates,
``l`` locates one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """Tensor access ``tensor[indices]``.

    `protocols` has one letter per mode, ``s`` to step and ``l`` to locate. It is empty for dense tensors and writes.
    """

    tensor: str
    indices: tuple[str, ...] = ()
    protocols: str = ""

    def __str__(self) -> str:
        if not self.indices:
            return self.tensor
        marks = self.protocols or " " * len(self.indices)
        inner = ",".join(f"{i}:{mark}" if mark != " " else i for i, mark in zip(self.indices, marks, strict=True))
        return f"{self.tensor}[{inner}]"


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Operator ``*`` or ``+`` applied to `args`, or ``-`` (negation) to one."""

    op: str
    args: tuple[Expression, ...]

    def __str__(self) -> str:
        parts = [
            f"({arg})" if isinstance(arg, OperatorCall) and arg.op == "+" != self.op else str(arg) for arg in self.args
        ]
        if self.op == "-":
            return f"-{parts[0]}"
        return f" {self.op} ".join(parts)


Expression: TypeAlias = "TensorAccess | OperatorCall"


@dataclass(frozen=True, slots=True)
class Assign:
    """Assignment ``lhs = rhs`` (`op` empty) or ``lhs op= rhs``."""

    lhs: TensorAccess
    op: str
    rhs: Expression

    def __str__(self) -> str:
        return f"{self.lhs} {self.op}= {self.rhs}"


@dataclass(frozen=True, slots=True)
class Loop:
    """Loop nest ``∀ indices body``, the first index outermost."""

    indices: tuple[str, ...]
    body: Statement

    def __str__(self) -> str:
        return f"∀{''.join(self.indices)} {_grouped(self.body)}"


@dataclass(frozen=True, slots=True)
class Where:
    """Statement ``consumer where producer``: the producer fills a zeroed workspace, which the consumer then reads."""

    consumer: Statement
    producer: Statement

    def __str__(self) -> str:
        return f"{_grouped(self.consumer)} where {_grouped(self.producer)}"

    @property
    def workspace(self) -> str:
        """Name of the tensor that the producer writes."""
        return result(self.producer)


Statement: TypeAlias = "Assign | Loop | Where"


def _grouped(statement: Statement) -> str:
    return f"({statement})" if isinstance(statement, Where) else str(statement)


def loop(indices: tuple[str, ...], body: Statement) -> Statement:
    """Return ``∀ indices body``, or the body itself if there are no indices."""
    return Loop(indices, body) if indices else body


def result(statement: Statement) -> str:
    """Return the name of the tensor that `statement` writes; for a `where`, the one its consumer writes."""
    return target(statement).tensor


def target(statement: Statement) -> TensorAccess:
    """Return the write access of the tensor that `statement` writes; for a `where`, that of its consumer."""
    while not isinstance(statement, Assign):
        statement = statement.body if isinstance(statement, Loop) else statement.consumer
    return statement.lhs


def assignments(statement: Statement) -> Iterator[Assign]:
    """Yield every assignment, consumers before producers."""
    if isinstance(statement, Assign):
        yield statement
    elif isinstance(statement, Loop):
        yield from assignments(statement.body)
    else:
        yield from assignments(statement.consumer)
        yield from assignments(statement.producer)


def wheres(statement: Statement) -> Iterator[Where]:
    """Yield every `where` statement, outer before inner."""
    if isinstance(statement, Loop):
        yield from wheres(statement.body)
    elif isinstance(statement, Where):
        yield statement
        yield from wheres(statement.consumer)
        yield from wheres(statement.producer)


def reads(node: Expression | Statement) -> Iterator[TensorAccess]:
    """Yield every access that is read, from left to right, consumers before producers."""
    if isinstance(node, TensorAccess):
        yield node
    elif isinstance(node, OperatorCall):
        for arg in node.args:
            yield from reads(arg)
    else:
        for assign in assignments(node):
            yield from reads(assign.rhs)


def loops(statement: Statement) -> Iterator[str]:
    """Yield the index of every loop in `statement`; an index that several loops have is repeated."""
    if isinstance(statement, Loop):
        yield from statement.indices
        yield from loops(statement.body)
    elif isinstance(statement, Where):
        yield from loops(statement.consumer)
        yield from loops(statement.producer)


def depth(statement: Statement) -> int:
    """Return the largest number of loops around an assignment."""
    if isinstance(statement, Loop):
        return len(statement.indices) + depth(statement.body)
    if isinstance(statement, Where):
        return max(depth(statement.consumer), depth(statement.producer))
    return 0


def mapped(
    node: Statement, read: Callable[[TensorAccess], TensorAccess],
    write: Callable[[TensorAccess], TensorAccess] = lambda access: access, names: Mapping[str, str] | None = None,
) -> Statement:  # fmt: skip
    """Return `node` with accesses replaced by `read` and `write`, and loop indices by `names`."""
    if isinstance(node, Loop):
        indices = node.indices if names is None else tuple(names[index] for index in node.indices)
        return Loop(indices, mapped(node.body, read, write, names))
    if isinstance(node, Where):
        return Where(mapped(node.consumer, read, write, names), mapped(node.producer, read, write, names))
    return Assign(write(node.lhs), node.op, _mapped(node.rhs, read))


def _mapped(node: Expression, read: Callable[[TensorAccess], TensorAccess]) -> Expression:
    if isinstance(node, OperatorCall):
        return OperatorCall(node.op, tuple(_mapped(arg, read) for arg in node.args))
    return read(node)


def replace(expression: Expression, old: Expression, new: Expression) -> Expression:
    """Return `expression` with every occurrence of `old` replaced by `new`."""
    if expression == old:
        return new
    if isinstance(expression, OperatorCall):
        return OperatorCall(expression.op, tuple(replace(arg, old, new) for arg in expression.args))
    return expression

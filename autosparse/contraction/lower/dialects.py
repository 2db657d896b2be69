"""Text of emitted loops in two languages: C, and Python that numba compiles or the interpreter runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from autosparse.contraction.expressions.semirings import PLUS_TIMES, SEMIRINGS, Semiring
from autosparse.scalar import C_SIZE


class Dialect:
    """Emitter of lines in one language, indented by the number of open blocks."""

    has_marks: ClassVar[bool] = False
    end: ClassVar[str] = ""  # of a statement
    reference: ClassVar[str] = ""  # operator by which helpers get workspaces and outputs
    words: ClassVar[tuple[str, str]] = ("and", "or")

    def __init__(self, semiring: Semiring = SEMIRINGS[PLUS_TIMES]) -> None:
        self.semiring = semiring
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        """Emit one line unchanged."""
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> None:
        """Emit the line `text`, which opens a block, and indent the following lines."""
        self.line(text)
        self.depth += 1

    def set(self, name: str, value: str) -> None:
        """Emit an assignment to a variable or element."""
        self.line(f"{name} = {value}{self.end}")

    def add(self, name: str, value: str) -> None:
        """Emit ``name += value``."""
        self.line(f"{name} += {value}{self.end}")

    def accumulate(self, name: str, value: str) -> None:
        """Emit ``name = name ⊕ value``."""
        if self.semiring.is_ordinary:
            self.add(name, value)
        else:
            self.set(name, f"plus({name}, {value})")

    def call(self, function: str, target: str, *arguments: str) -> None:
        """Emit a call of a helper that changes the workspace or output `target` and cannot fail."""
        self.line(f"{self.value_of(function, target, *arguments)}{self.end}")

    def value_of(self, function: str, target: str, *arguments: str) -> str:
        """Return the text of a helper's call, an expression."""
        return f"{function}({', '.join((f'{self.reference}{target}', *arguments))})"

    def both(self, conditions: Sequence[str]) -> str:
        """Return the conjunction of conditions."""
        return f" {self.words[0]} ".join(conditions)

    def either(self, conditions: Sequence[str]) -> str:
        """Return the disjunction of conditions."""
        return f"({f' {self.words[1]} '.join(conditions)})"

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self.lines)


class CText(Dialect):
    """Emitter of C: `X` is the type of coordinates, `V` of values, `W` of sums."""

    has_marks, end, reference, words = True, ";", "&", ("&&", "||")

    def let(self, name: str, value: str, kind: str = "X", *, is_variable: bool = False) -> None:
        """Emit the declaration of a local variable or constant of type `kind` with an initial value."""
        self.line(f"{'' if is_variable else 'const '}{kind} {name} = {value}; (void){name};")

    def step(self, names: Sequence[str]) -> None:
        """Emit code that increments each of the variables `names` by one."""
        self.line(" ".join(f"{name}++;" for name in names))

    def for_range(self, name: str, first: str, last: str) -> None:
        """Open a loop over ``first … last - 1``."""
        self.open(f"for (X {name} = {first}; {name} < {last}; {name}++) {{")

    def while_(self, condition: str) -> None:
        """Open a while loop."""
        self.open(f"while ({condition}) {{")

    def if_(self, condition: str) -> None:
        """Open a block that runs if `condition` holds."""
        self.open(f"if ({condition}) {{")

    def block(self) -> None:
        """Open a block scope without a condition."""
        self.open("{")

    def close(self) -> None:
        """Close a block."""
        self.depth -= 1
        self.line("}")

    def again_if(self, condition: str, name: str, value: str) -> None:
        """Emit a branch that, if `condition` holds, sets `name` and continues with the loop's next iteration."""
        self.line(f"if ({condition}) {{ {name} = {value}; continue; }}")

    def update(self, function: str, target: str, *arguments: str) -> None:
        """Emit a call ``function(&target, *arguments)``; the kernel ends as failed if the helper lacks memory."""
        self.line(f"if ({self.value_of(function, target, *arguments)}) {{ failed = 1; goto end; }}")

    def count(self, target: str) -> str:
        """Return the expression for the number of entries of the workspace `target`."""
        return f"{target}.n"

    def select(self, condition: str, value: str, other: str) -> str:
        """Return an expression for `value` if `condition` holds, else `other`; only one of them is evaluated."""
        return f"({condition} ? {value} : {other})"

    def tuple(self, items: Sequence[str]) -> str:
        """Return the text that passes coordinates to a helper as one array argument."""
        return f"(X[]){{{', '.join(f'(X){item}' for item in items)}}}"

    def sizes(self, items: Sequence[str]) -> str:
        """Return the text that passes extents to a helper as one array argument."""
        return f"(const {C_SIZE}[]){{{', '.join(items)}}}"

    def zero(self) -> str:
        """Return the expression of the semiring's zero."""
        return "(W)ZERO" if self.semiring.zero else "(W)0"

    def wide(self, expression: str) -> str:
        """Return an index expression converted to 64 bits."""
        return f"({C_SIZE}){expression}"


class PythonText(Dialect):
    """Emitter of Python: workspaces and outputs are named tuples of arrays, replaced by larger ones to grow."""

    def let(self, name: str, value: str, kind: str = "X", *, is_variable: bool = False) -> None:
        """Emit the assignment of a local variable."""
        self.line(f"{name} = {value}")

    def step(self, names: Sequence[str]) -> None:
        """Emit code that increments each of the variables `names` by one."""
        for name in names:
            self.line(f"{name} += 1")

    def for_range(self, name: str, first: str, last: str) -> None:
        """Open a loop over ``first … last - 1``."""
        self.open(f"for {name} in range({first}, {last}):")

    def while_(self, condition: str) -> None:
        """Open a while loop."""
        self.open(f"while {condition}:")

    def if_(self, condition: str) -> None:
        """Open a block that runs if `condition` holds."""
        self.open(f"if {condition}:")

    def block(self) -> None:
        """Open a branch that is always taken, as Python has no block scopes."""
        self.open("if True:")

    def close(self) -> None:
        """Close a block."""
        self.depth -= 1

    def again_if(self, condition: str, name: str, value: str) -> None:
        """Emit a branch that, if `condition` holds, sets `name` and continues with the loop's next iteration."""
        self.if_(condition)
        self.line(f"{name} = {value}")
        self.line("continue")
        self.close()

    def update(self, function: str, target: str, *arguments: str) -> None:
        """Emit a call of a helper that returns `target`, or a larger one."""
        self.set(target, self.value_of(function, target, *arguments))

    def count(self, target: str) -> str:
        """Return the expression for the number of entries of the workspace `target`."""
        return f"{target}.n[0]"

    def select(self, condition: str, value: str, other: str) -> str:
        """Return an expression for `value` if `condition` holds, else `other`; only one of them is evaluated."""
        return f"({value} if {condition} else {other})"

    def tuple(self, items: Sequence[str]) -> str:
        """Return the text that passes coordinates to a helper as one tuple."""
        return f"({', '.join(items)},)"

    def sizes(self, items: Sequence[str]) -> str:
        """Return the text that passes extents to a helper as one tuple."""
        return self.tuple(items)

    def zero(self) -> str:
        """Return the expression of the semiring's zero."""
        return "zero[0]"

    def wide(self, expression: str) -> str:
        """Return an index expression unchanged, as Python's integers do not overflow."""
        return expression

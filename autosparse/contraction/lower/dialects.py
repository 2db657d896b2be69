"""How emitted loops are written: as C, or as Python that numba compiles (and that Python runs as it is)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class Dialect:
    """Lines of one language, indented by the blocks that are open."""

    has_marks: ClassVar[bool] = False

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        """One line as it is."""
        self.lines.append("  " * self.depth + text)

    def open(self, text: str) -> None:
        """A line that opens a block."""
        self.line(text)
        self.depth += 1

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)


class CText(Dialect):
    """C: `X` is the type of coordinates, `V` of values, `W` of sums."""

    has_marks = True

    def let(self, name: str, value: str, kind: str = "X", *, is_variable: bool = False) -> None:
        """A local, named once in its block."""
        self.line(f"{'' if is_variable else 'const '}{kind} {name} = {value}; (void){name};")

    def set(self, name: str, value: str) -> None:
        """A new value of a variable or element."""
        self.line(f"{name} = {value};")

    def add(self, name: str, value: str) -> None:
        """``name += value``."""
        self.line(f"{name} += {value};")

    def step(self, names: Sequence[str]) -> None:
        """Each one further."""
        self.line(" ".join(f"{name}++;" for name in names))

    def for_range(self, name: str, first: str, last: str) -> None:
        """Open a loop over ``first … last - 1``."""
        self.open(f"for (X {name} = {first}; {name} < {last}; {name}++) {{")

    def while_(self, condition: str) -> None:
        """Open a loop."""
        self.open(f"while ({condition}) {{")

    def if_(self, condition: str) -> None:
        """Open a branch."""
        self.open(f"if ({condition}) {{")

    def block(self) -> None:
        """Open a scope."""
        self.open("{")

    def close(self) -> None:
        """Close a block."""
        self.depth -= 1
        self.line("}")

    def again_if(self, condition: str, name: str, value: str) -> None:
        """Where `condition` holds: set `name` and begin the loop's next turn."""
        self.line(f"if ({condition}) {{ {name} = {value}; continue; }}")

    def call(self, function: str, target: str, *arguments: str) -> None:
        """A helper that cannot fail and changes `target`."""
        self.line(f"{function}({', '.join((f'&{target}', *arguments))});")

    def update(self, function: str, target: str, *arguments: str) -> None:
        """A helper that changes `target` and may need memory."""
        self.line(f"if ({function}({', '.join((f'&{target}', *arguments))})) {{ failed = 1; goto end; }}")

    def value_of(self, function: str, target: str, *arguments: str) -> str:
        """Result of a helper."""
        return f"{function}({', '.join((f'&{target}', *arguments))})"

    def count(self, target: str) -> str:
        """Entries of a workspace."""
        return f"{target}.n"

    def both(self, conditions: Sequence[str]) -> str:
        """Conjunction."""
        return " && ".join(conditions)

    def either(self, conditions: Sequence[str]) -> str:
        """Disjunction."""
        return f"({' || '.join(conditions)})"

    def select(self, condition: str, value: str, other: str) -> str:
        """`value` where `condition` holds, else `other`, which only then is computed."""
        return f"({condition} ? {value} : {other})"

    def tuple(self, items: Sequence[str]) -> str:
        """Coordinates as one argument."""
        return f"(X[]){{{', '.join(f'(X){item}' for item in items)}}}"

    def sizes(self, items: Sequence[str]) -> str:
        """Extents as one argument."""
        return f"(const int64_t[]){{{', '.join(items)}}}"

    def zero(self) -> str:
        """The value 0."""
        return "(W)0"

    def wide(self, expression: str) -> str:
        """An index in 64 bits."""
        return f"(int64_t){expression}"


class PythonText(Dialect):
    """Python; workspaces and outputs are named tuples of arrays, new ones where they grow."""

    def let(self, name: str, value: str, kind: str = "X", *, is_variable: bool = False) -> None:
        """A local."""
        self.line(f"{name} = {value}")

    def set(self, name: str, value: str) -> None:
        """A new value of a variable or element."""
        self.line(f"{name} = {value}")

    def add(self, name: str, value: str) -> None:
        """``name += value``."""
        self.line(f"{name} += {value}")

    def step(self, names: Sequence[str]) -> None:
        """Each one further."""
        for name in names:
            self.line(f"{name} += 1")

    def for_range(self, name: str, first: str, last: str) -> None:
        """Open a loop over ``first … last - 1``."""
        self.open(f"for {name} in range({first}, {last}):")

    def while_(self, condition: str) -> None:
        """Open a loop."""
        self.open(f"while {condition}:")

    def if_(self, condition: str) -> None:
        """Open a branch."""
        self.open(f"if {condition}:")

    def block(self) -> None:
        """Open a scope: Python has none."""
        self.open("if True:")

    def close(self) -> None:
        """Close a block."""
        self.depth -= 1

    def again_if(self, condition: str, name: str, value: str) -> None:
        """Where `condition` holds: set `name` and begin the loop's next turn."""
        self.if_(condition)
        self.line(f"{name} = {value}")
        self.line("continue")
        self.close()

    def call(self, function: str, target: str, *arguments: str) -> None:
        """A helper that changes arrays of `target`."""
        self.line(f"{function}({', '.join((target, *arguments))})")

    def update(self, function: str, target: str, *arguments: str) -> None:
        """A helper that returns a larger `target` where that is needed."""
        self.line(f"{target} = {function}({', '.join((target, *arguments))})")

    def value_of(self, function: str, target: str, *arguments: str) -> str:
        """Result of a helper."""
        return f"{function}({', '.join((target, *arguments))})"

    def count(self, target: str) -> str:
        """Entries of a workspace."""
        return f"{target}.n[0]"

    def both(self, conditions: Sequence[str]) -> str:
        """Conjunction."""
        return " and ".join(conditions)

    def either(self, conditions: Sequence[str]) -> str:
        """Disjunction."""
        return f"({' or '.join(conditions)})"

    def select(self, condition: str, value: str, other: str) -> str:
        """`value` where `condition` holds, else `other`, which only then is computed."""
        return f"({value} if {condition} else {other})"

    def tuple(self, items: Sequence[str]) -> str:
        """Coordinates as one argument."""
        return f"({', '.join(items)},)"

    def sizes(self, items: Sequence[str]) -> str:
        """Extents as one argument."""
        return self.tuple(items)

    def zero(self) -> str:
        """The value 0."""
        return "zero[0]"

    def wide(self, expression: str) -> str:
        """An index: Python's are wide."""
        return expression

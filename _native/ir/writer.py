"""Writers of indented lines for the body of one emitted function, with blocks of C or of Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autosparse.core.values import dataclass, field


@dataclass
class Writer:
    """Writer of lines of C."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def line(self, text: str) -> None:
        """Append one line at the current depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Write ``head { ... }`` around the lines of the context."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def text(self) -> str:
        """Return all lines as text."""
        return "".join(f"{line}\n" for line in self.lines)


class PythonWriter(Writer):
    """Writer of lines of Python, for Numba and Triton."""

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """Write ``head:`` before the lines of the context, or ``pass`` if there are none."""
        self.line(f"{head}:")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

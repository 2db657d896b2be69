"""Writers: indented lines of the body of one emitted function, with C's blocks or Python's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autosparse.core.values import dataclass, field


@dataclass
class Writer:
    """Lines of C."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """``head { ... }``."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def text(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for line in self.lines)


class PythonWriter(Writer):
    """Lines of Python, for Numba and Triton."""

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """``head:`` and what is written inside, or ``pass``."""
        self.line(f"{head}:")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

"""Writer: indented C lines, and what a function's body made necessary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Writer:
    """Lines of one C function's body."""

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

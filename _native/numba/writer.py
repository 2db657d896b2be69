"""Writer of Python lines, and where the emitted functions find what they work on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from autosparse._native.c.types import OPERAND_STRUCT


@dataclass
class Writer:
    """Lines of one function's body."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head:`` and what is written inside."""
        self.line(f"{head}:")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def text(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for line in self.lines)


def _operand_words(struct: str) -> dict[str, int]:
    """First 8-byte word of each field of the C structure: there are no others in it."""
    begin, end = struct.rindex("typedef struct {") + len("typedef struct {"), struct.rindex("}")
    body = re.sub(r"/\*.*?\*/", "", struct[begin:end], flags=re.DOTALL)
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)  # pointers to functions
    words, at = {}, 0
    for declaration in filter(None, (text.strip() for text in body.split(";"))):
        for one in declaration.split(","):
            match = re.search(r"(\w+)(?:\[(\d+)\])?$", one.strip())
            assert match is not None, one
            words[match[1]] = at
            at += int(match[2] or 1)
    return words


OPERAND_WORDS: Final[Mapping[str, int]] = _operand_words(OPERAND_STRUCT)
"""Word at which each field of the packed operand begins."""

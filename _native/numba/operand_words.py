"""Layout of the packed operand as words of eight bytes, by which emitted functions read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from autosparse._native.c.types import OPERAND_STRUCT


def _operand_words(struct: str) -> dict[str, int]:
    """Return the first 8-byte word of each field of the C structure, all of whose fields consist of such words."""
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

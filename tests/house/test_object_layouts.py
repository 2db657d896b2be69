"""Tests that the layout of Python's, NumPy's and PyTorch's objects is not guessed: C APIs read them (`_extension`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.house.sources import library

GUESSES: Final = {
    "from_address": r"\bfrom_address\b",
    "ctypes.py_object": r"\bpy_object\b",
    "address of an object": r"\bcast\(.*\bid\(|\bid\([^()]*\) *\+|\+ *id\(",
    "size of an object's header": r"__basicsize__|__weakrefoffset__|__dictoffset__|\btp_\w*(?:offset|size)\b",
    "field of an object's header": r"\bob_(?:refcnt|type|size|base|fval|item|sval)\b",
    "memory of the process": r"/proc/self/(?:mem|maps)\b",
}
"""Kinds of guesses and regular expressions for lines that contain one."""

PROC: Final = Counter({
    ("autosparse/dispatch/accounts.py", "stat"): 1,  # start of the process
    ("autosparse/operands/room.py", "cgroup"): 1,  # limit of memory
    ("autosparse/operands/room.py", "statm"): 1,  # memory in use
    ("autosparse/torch/team.py", "exe"): 1,  # whether the parent is a Python of the same program
    ("autosparse/torch/team.py", "stat"): 1,
    ("cache/trust.py", "uid_map"): 1,  # whether root here is root of the machine
    ("_native/runtime/hooks.h", "cgroup"): 1,  # limit of processors
    ("_native/runtime/threads/limits.c", "cgroup"): 1,
    ("_native/runtime/threads/waiting.c", "task"): 2,  # delays of the threads of the pool
    ("_native/runtime/threads/waiting.h", "task"): 1,
})  # fmt: skip
"""(File, name below /proc/self) -> number of times that it is named; none of these is memory of the process."""


def files() -> Iterator[tuple[str, str]]:
    """Return path and text of every module of the library, and of every C and C++ file of runtime and extensions."""
    for source in library():
        name = source.name.split(".")
        root = name[1] if name[1:2] and name[1] in {"_native", "cache", "tuner"} else "autosparse"
        path = source.path.resolve()
        begin = len(path.parts) - 1 - path.parts[::-1].index(root)
        yield "/".join(path.parts[begin:]), source.text
    native = Path(next(one.path for one in library() if one.name == "autosparse._native.runtime_api")).parent
    for folder in ("runtime", "extension", "torch_extension"):
        for path in sorted([*(native / folder).rglob("*.[ch]"), *(native / folder).rglob("*.cpp")]):
            yield f"_native/{path.relative_to(native)}", path.read_text(encoding="utf-8")


def guesses(text: str) -> set[str]:
    """Return the kinds of guesses in a text."""
    return {name for name, pattern in GUESSES.items() if re.search(pattern, text)}


def test_no_layout_of_objects_is_guessed() -> None:
    found = {path: named for path, text in files() if (named := guesses(text))}
    assert not found


def test_files_below_proc_self_are_no_memory() -> None:
    found = Counter((path, name) for path, text in files() for name in re.findall(r"/proc/self/(\w+)", text))
    assert found == PROC


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("from_address", "ctypes.c_size_t.from_address(at).value"),
        ("ctypes.py_object", "ctypes.PYFUNCTYPE(ctypes.py_object)(address)"),
        ("address of an object", 'state.rows = ffi.cast("void *", id(rows))'),
        ("address of an object", "at = id(array) + 16"),
        ("size of an object's header", "HEADER = object.__basicsize__"),
        ("size of an object's header", "slot = type->tp_weaklistoffset;"),
        ("field of an object's header", "n = object->ob_refcnt;"),
        ("memory of the process", 'os.open("/proc/self/mem", os.O_RDONLY)'),
    ],
)
def test_guesses_are_found(kind: str, line: str) -> None:
    assert guesses(line) == {kind}
    assert guesses("memo[id(self)] = copied; found = Py_REFCNT(object)") == set()

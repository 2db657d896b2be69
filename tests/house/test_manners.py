"""House rules that a reader would otherwise have to check: sizes, one door to the environment, no print."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.sources import IN_CHECKOUT, REPOSITORY, Source, library, sources

MAX_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_POSITIONAL = 5
POSITIONAL_BY_CONTRACT = {
    ("autosparse._native.kernels.kernel", "run"),  # called for every product: keywords would cost as much as the rest
    ("autosparse._native.kernels.composite", "run"),
    ("autosparse._native.numba.intrinsics", "run_parallel"),  # numba types an intrinsic's arguments by position
    ("autosparse.torch.autograd.attention", "forward"),  # autograd.Function.apply passes by position only
    ("autosparse.torch.dispatcher.reductions", "mm_reduce_backward"),  # the dispatcher passes by position only
    ("autosparse.cuda.reductions", "mm_reduce_backward"),
}
ENVIRONMENT = {"environ", "environb", "getenv", "putenv", "unsetenv"}
WIDE = {"Exception", "BaseException"}


def every_file() -> list[Path]:
    """Python and C of the package, and in a checkout those of tests, benchmarks and tools."""
    found = {source.path for source in sources()}
    found |= {file for source in sources() for file in source.path.parent.rglob("*.[ch]")}
    if IN_CHECKOUT:
        for folder in ("tests", "benchmarks", "tools", "examples"):
            found |= set((REPOSITORY / folder).rglob("*.py"))
    return sorted(found)


def functions(source: Source) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its decorators and docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", every_file(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_module_size(path):
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert n_lines <= MAX_LINES, f"{path} has {n_lines} lines: split it by noun"


@pytest.mark.parametrize("source", library(), ids=lambda source: source.name)
def test_functions_are_short(source):
    long = {f.name: lines_of_code(f) for f in functions(source) if lines_of_code(f) > MAX_FUNCTION_LINES}
    assert not long, f"{source.name}: {long}"


@pytest.mark.parametrize("source", library(), ids=lambda source: source.name)
def test_few_positional_parameters(source):
    def n_positional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        return len(names) - (names[:1] in (["self"], ["cls"]))

    known = {name for module, name in POSITIONAL_BY_CONTRACT if module == source.name}
    checked = [function for function in functions(source) if function.name not in known]
    many = {f.name: n_positional(f) for f in checked if n_positional(f) > MAX_POSITIONAL}
    assert not many, f"{source.name}: {many}: make the rest keyword-only"


@pytest.mark.parametrize("source", library(), ids=lambda source: source.name)
def test_only_config_reads_the_environment(source):
    if source.name == "autosparse.config":
        return
    for node in ast.walk(source.tree):
        reads = isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and ast.dump(node.value).find("'os'") > 0
        takes = isinstance(node, ast.ImportFrom) and node.module == "os" and ENVIRONMENT & {a.name for a in node.names}
        touches = reads or takes
        assert not touches, f"{source.where(node)}: settings have one door, config.py"


@pytest.mark.parametrize("source", library(), ids=lambda source: source.name)
def test_no_print_outside_the_command_line(source):
    if source.name.startswith("autosparse.cli"):
        return
    for node in ast.walk(source.tree):
        prints = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        assert not prints, f"{source.where(node)}: print"


@pytest.mark.parametrize("source", library(), ids=lambda source: source.name)
def test_no_wide_except(source):
    """`except Exception` hides mistakes; one that only cleans up and raises again is fine."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            wide = node.type is None or (isinstance(node.type, ast.Name) and node.type.id in WIDE)
            raises = isinstance(node.body[-1], ast.Raise)
            assert raises or not wide, f"{source.where(node)}: catch the class you expect"

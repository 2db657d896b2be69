"""Tests of house rules: sizes of modules and functions, one reader of the environment, no print."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.sources import IN_CHECKOUT, REPOSITORY, Source, library, sources

MAX_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_POSITIONAL = 5
POSITIONAL_BY_CONTRACT = {
    # called for every product, where keywords would cost as much as the rest of the call
    ("autosparse._native.kernels.kernel", "run"),
    ("autosparse._native.kernels.composite", "run"),
    ("autosparse._native.numba.intrinsics", "run_parallel"),  # numba types an intrinsic's arguments by position
    ("autosparse.torch.autograd.attention", "forward"),  # autograd.Function.apply passes by position only
    ("autosparse.torch.autograd.operators", "csr_product"),  # operators of PyTorch have arguments by position
    ("autosparse.torch.autograd.operators", "csr_sampled_product"),
    ("autosparse.torch.autograd.operators", "_product_of_shapes"),
    ("autosparse.torch.autograd.operators", "_sampled_of_shapes"),
    ("autosparse.torch.autograd.functions", "vmap"),
    ("autosparse.torch.dispatcher.reductions", "mm_reduce_backward"),  # the dispatcher passes by position only
    ("autosparse.cuda.reductions", "mm_reduce_backward"),
    ("autosparse.linalg.block_eigenvalues", "lobpcg"),  # SciPy's signatures
    ("autosparse.linalg.exponential", "expm_multiply"),
    ("autosparse.linalg.least_squares.fong_saunders", "lsmr"),
    ("autosparse.linalg.least_squares.paige_saunders", "lsqr"),  # SciPy's signature
    ("autosparse.linalg.triangular.substitution", "spsolve_triangular"),
}
ENVIRONMENT = {"environ", "environb", "getenv", "putenv", "unsetenv"}
WIDE = {"Exception", "BaseException"}


def every_file() -> list[Path]:
    """Return the Python and C files of the package, and in a checkout those of tests, benchmarks and tools."""
    found = {source.path for source in sources()}
    found |= {file for source in sources() for file in source.path.parent.rglob("*.[ch]")}
    if IN_CHECKOUT:
        for folder in ("tests", "benchmarks", "tools", "examples"):
            found |= set((REPOSITORY / folder).rglob("*.py"))
    return sorted(found)


def functions(source: Source) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in source.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of a function without its decorators and docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_module_size():
    n_lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in every_file()}
    long = {str(path): n for path, n in n_lines.items() if n > MAX_LINES}
    assert not long, f"more than {MAX_LINES} lines, split by noun: {long}"


def test_functions_are_short():
    sizes = [(source.where(f), f.name, lines_of_code(f)) for source in library() for f in functions(source)]
    long = [one for one in sizes if one[-1] > MAX_FUNCTION_LINES]
    assert not long, long


def n_positional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of parameters that may be given by position, without `self`."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_few_positional_parameters():
    every = [(source, function) for source in library() for function in functions(source)]
    many = [
        (source.where(function), function.name, n_positional(function))
        for source, function in every
        if n_positional(function) > MAX_POSITIONAL and (source.name, function.name) not in POSITIONAL_BY_CONTRACT
    ]
    assert not many, f"make the rest keyword-only: {many}"


def reads_environment(node: ast.AST) -> bool:
    reads = isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and ast.dump(node.value).find("'os'") > 0
    takes = isinstance(node, ast.ImportFrom) and node.module == "os" and ENVIRONMENT & {a.name for a in node.names}
    return bool(reads or takes)


def prints(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def catches_everything(node: ast.AST) -> bool:
    """Return whether the node is an `except Exception`, which hides programming errors.

    One that cleans up and raises again is allowed.
    """
    if not isinstance(node, ast.ExceptHandler):
        return False
    wide = node.type is None or (isinstance(node.type, ast.Name) and node.type.id in WIDE)
    return wide and not isinstance(node.body[-1], ast.Raise)


def decodes_by_locale(node: ast.AST) -> bool:
    """Return whether the node reads or writes text in the encoding of the user's locale."""
    if not isinstance(node, ast.Call):
        return False
    n_contents = {"read_text": 0, "write_text": 1}.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
    named = {one.arg for one in node.keywords}
    starts = isinstance(node.func, ast.Attribute) and ast.dump(node.func.value).find("'subprocess'") > 0
    return (len(node.args) == n_contents or (starts and "text" in named)) and "encoding" not in named


@pytest.mark.parametrize(
    ("is_bad", "but_for", "why"),
    [
        (reads_environment, "autosparse.config", "settings have one door, config.py"),
        (prints, "autosparse.cli", "only the command line prints"),
        (catches_everything, "nowhere", "catch the class you expect"),
        (decodes_by_locale, "nowhere", "name the encoding: locales differ, and -X warn_default_encoding warns"),
    ],
)
def test_no_module_uses_forbidden_constructs(is_bad, but_for, why):
    checked = [source for source in library() if not source.name.startswith(but_for)]
    bad = [source.where(node) for source in checked for node in source.nodes if is_bad(node)]
    assert not bad, f"{why}: {bad}"


@pytest.mark.parametrize(
    ("is_bad", "text"),
    [
        (reads_environment, "os.environ['HOME']"),
        (reads_environment, "from os import getenv"),
        (prints, "print(1)"),
        (catches_everything, "try:\n    pass\nexcept Exception:\n    pass"),
        (catches_everything, "try:\n    pass\nexcept:\n    pass"),
        (decodes_by_locale, "path.read_text()"),
        (decodes_by_locale, "path.write_text('text')"),
        (decodes_by_locale, "subprocess.run(command, text=True, errors='replace')"),
    ],
)
def test_forbidden_constructs_are_detected(is_bad, text):
    assert any(map(is_bad, ast.walk(ast.parse(text))))

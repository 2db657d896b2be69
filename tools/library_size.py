"""Print the tables of benchmarks/results/size_of_the_library.md: lines of the library at given commits.

    python tools/library_size.py 4430c2c HEAD

The first table counts lines of .py, .c, .cpp and .h files by capability, including blank lines and comments. `RULES`
assign a file to a capability by its path, in the folder layouts of all commits. A file that no rule matches is counted
as "everything else". The second table counts hand-written lines by language, without blank lines, comments, docstrings
and the C text that is generated (`GENERATED`).
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter

LIBRARY = re.compile(r"(autosparse|_native|tuner|cache)/.*\.(py|c|cpp|h)$")
GENERATED = re.compile(r"runtime/shipped/.*\.c$")
"""Sources that the generator wrote, where a commit contains them."""
C_TOKENS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
NOT_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)
ELSE = "everything else"
RULES = (
    ("kernels compiled at installation", r"runtime/(write_)?shipped|kernels/shipped"),
    ("GPU kernels: Triton, CUDA tensors, their space and model", r"autosparse/(gpu|cuda)/|_native/triton/|tuner/gpu/"),
    ("Dask", r"autosparse/dask/"),
    ("`einsum` over several sparse operands", r"/contraction/|ops/einsum|autograd/einsum|explain/program"),
    (
        "composite plans: parts, tiles, blocks, their space and costs",
        r"composite|hybrid|spmm/near|parts|/tiles|_native/tiles|tile_lists|blocks|sweeps|part_times|cost_table|calibration/primitives",
    ),
    ("values by number", r"numbered"),
    (
        "target hardware: accelerators, transfer, calibration",
        r"tuner/(targets|transfer|calibration)/|autosparse/calibration|accelerator|cli/(calibrate|transfer)|calibrating",
    ),
    ("thread pool and call-interval tuner", r"threads/(call_intervals|concurrent_callers|pool)"),
    ("command line, pages and reports", r"autosparse/cli/|explain/(page|cache_report)|arrays/page"),
    (
        "training and collecting",
        r"tuner/(collect|training|networks)|collecting|generators|tuner/(.*/)?(coordinates|ranking|boosting|pool|steps)\.py",
    ),
)
"""Capabilities and the regular expressions of their paths; the first match decides."""


def capability_of(path: str) -> str:
    """Return the capability of the file at `path`."""
    return next((name for name, pattern in RULES if re.search(pattern, path)), ELSE)


def texts_of(commit: str) -> dict[str, str]:
    """Return the text of each file of the library at `commit`, by path."""
    packed = subprocess.run(["git", "archive", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        members = [one for one in files if one.isfile() and LIBRARY.match(one.name)]
        return {one.name: files.extractfile(one).read().decode() for one in members}  # type: ignore[union-attr]


def python_lines(text: str) -> int:
    """Return the number of lines of Python code, without comments and docstrings."""
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        for one in getattr(node, "body", []) if isinstance(getattr(node, "body", None), list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                described.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - described)


def c_lines(text: str) -> int:
    """Return the number of lines of C or C++ without comments."""
    bare = C_TOKENS.sub(lambda found: found[0] if found[0][0] in "\"'" else " " + "\n" * found[0].count("\n"), text)
    return sum(bool(line.strip()) for line in bare.splitlines())


def print_table(head: str, commits: list[str], rows: dict[str, list[int]]) -> None:
    """Print a table with a column for each commit."""
    print(f"| {head} | {' | '.join(commits)} |\n|---|{'---|' * len(commits)}")
    for name, counts in rows.items():
        print(f"| {name} | {' | '.join(f'{one:,}' for one in counts)} |")


def main(commits: list[str]) -> None:
    """Print both tables of `commits`."""
    texts = [texts_of(commit) for commit in commits]
    lines, code = [Counter[str]() for _ in commits], [Counter[str]() for _ in commits]
    for at, files in enumerate(texts):
        for path, text in files.items():
            lines[at][capability_of(path)] += text.count("\n")
            if not GENERATED.search(path):
                is_python = path.endswith(".py")
                code[at]["Python" if is_python else "C and C++"] += (python_lines if is_python else c_lines)(text)
    names = [name for name, _ in RULES[1:]] + [ELSE]
    rows = {name: [one[name] for one in lines] for name in names}
    rows["**total without generated code**"] = [sum(one[name] for name in names) for one in lines]
    rows[RULES[0][0]] = [one[RULES[0][0]] for one in lines]
    print_table("capability", commits, rows)
    print()
    print_table("code", commits, {name: [one[name] for one in code] for name in ("Python", "C and C++")})
    print(f"| total | {' | '.join(f'{sum(one.values()):,}' for one in code)} |")


if __name__ == "__main__":
    main(sys.argv[1:])

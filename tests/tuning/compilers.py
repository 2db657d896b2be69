"""Fake compilers that exit with 0 but produce kernels that compute something else."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from autosparse._native.c import build as c_build

MATMUL = (
    "const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t t, int64_t chunk"
)
OTHERS = "const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j, int64_t t, int64_t chunk"

HONEST = "int status = honest_kernel(A, B, ldB, C, ldC, n_j, t, chunk); REAL *out = (REAL *)C; int64_t m = A->size[0];"
HONEST_OTHER = (
    "int n = {n}; int status = honest_kernel(A, at, ld, n_j, t, chunk); REAL *out = (REAL *)at[n];"
    "int64_t m = A->size[0], ldC = ld[n]; (void)m, (void)ldC;"
)

WRONG_PRODUCTS = {
    "nothing": "return 0;",
    "zeros": f"{HONEST} for (int64_t e = 0; e < m * n_j; e++) out[e / n_j * ldC + e % n_j] = 0; return status;",
    "last row": f"{HONEST} for (int64_t j = 0; j < n_j; j++) out[(m - 1) * ldC + j] *= (REAL)1.001; return status;",
    "last row unwritten": (
        "REAL *last = (REAL *)C + (A->size[0] - 1) * ldC; REAL kept = last[0];"
        f"{HONEST} last[0] = kept; (void)m, (void)out; return status;"
    ),
    "last column": f"{HONEST} for (int64_t i = 0; i < m; i++) out[i * ldC + n_j - 1] += 1; return status;",
    "adds": (f"REAL *C0 = (REAL *)C; REAL before = C0[0];{HONEST} out[0] += before; (void)m; return status;"),
    "looks spoilt": f"{HONEST} (void)m, (void)out, (void)status; return 1;",
}
"""Bodies of wrong kernels for A @ B, by name of the error."""
WRONG_SAMPLES = {
    "nothing": "return 0;",
    "first entry": f"{HONEST_OTHER.format(n=2)} out[0] += 1; return status;",
}
WRONG_MTTKRP = {
    "nothing": "return 0;",
    "last row": f"{HONEST_OTHER.format(n='N_FACTORS')} out[(m - 1) * ldC] *= (REAL)1.001; return status;",
}

LIAR = """#!{python}
import pathlib, subprocess, sys
arguments = sys.argv[1:]
at = next(n for n, one in enumerate(arguments) if one.endswith(".c"))
source = pathlib.Path(arguments[at])
text = source.read_text()
real = "double" if "float64" in text[:2000] else "float"
head = {others!r} if "const uintptr_t *at" in text else {matmul!r}
body = {body!r}.replace("REAL", real)
honest = text.replace("asp_kernel(", "honest_kernel(") if "honest_kernel" in body else {alone!r}
wrong = source.with_name("wrong.c")
wrong.write_text(honest + "\\nint asp_kernel(" + head + ")\\n{{\\n" + body + "\\n}}\\n")
arguments[at] = str(wrong)
code = subprocess.run([*{command!r}, *arguments, "-O0"]).returncode
wrong.unlink()
with open({calls!r}, "a") as file:
    file.write("call\\n")
sys.exit(code)
"""


def liar(folder: Path, body: str, *, n_factors: int = 2) -> str:
    """Write a compiler into `folder` whose kernels run the C code `body`; return its path.

    Within `body`, `honest_kernel` is the kernel that was to be compiled.
    """
    command = list(c_build.Compiler.find().command)
    text = LIAR.format(
        python=sys.executable, others=OTHERS, matmul=MATMUL, command=command, calls=str(folder / "calls"),
        alone="#include <stdint.h>\ntypedef void asp_operand;", body=body.replace("N_FACTORS", str(n_factors)),
    )  # fmt: skip
    return executable(folder / "cc", text)


def executable(path: Path, text: str) -> str:
    """Write `text` to `path`, make it executable, and return the path."""
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def n_compilations(folder: Path) -> int:
    """Return the number of completed runs of the compiler in `folder`."""
    calls = folder / "calls"
    return len(calls.read_text().splitlines()) if calls.exists() else 0

"""Format numbers, plans and command errors for the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

from autosparse.core.composite import Composite
from autosparse.core.formats import CSR
from autosparse.core.plan import Plan
from autosparse.errors import AutosparseError

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


class CommandError(AutosparseError):
    """Error that ends a sub-command, printed with a hint and without a traceback."""

    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(f"{what}\n  Hint: {hint}")


def seconds(time_s: float) -> str:
    """Return a time with three digits and a unit, such as ``1.23 ms``."""
    for size, unit in _UNITS:
        if time_s >= size:
            return f"{time_s / size:.3g} {unit}"
    return f"{time_s / 1e-6:.2f} us"


def size(n_bytes: float) -> str:
    """Return a number of bytes in binary units, such as ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.4g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.4g} GiB"


def factor(ours_s: float, theirs_s: float) -> str:
    """Return the speed-up of `ours_s` over `theirs_s`, such as ``3.10x``."""
    return f"{theirs_s / ours_s:.2f}x"


def count(runs: float | None) -> str:
    """Return a number of products, rounded up, or ``never`` for None and infinity."""
    return "never" if runs is None or not math.isfinite(runs) else f"{math.ceil(runs):,}"


def left_out(failed: Iterable[tuple[str, str, str]]) -> int:
    """Print each failed (name, kind of machine, reason) on stderr; return the exit status, 1 if there is any."""
    status = 0
    for name, kind, reason in failed:
        print(f"not measured: {name} on {kind}: {reason}", file=sys.stderr)
        status = 1
    return status


def product(n_columns: int, *, transposed: bool = False) -> str:
    """Return the text of a product: ``A @ x``, or ``A @ B`` with the number of columns of B."""
    left = "A.T" if transposed else "A"
    return f"{left} @ x" if n_columns == 1 else f"{left} @ B, B of {n_columns} columns"


def schedule(plan: Plan) -> str:
    """Return the plan's schedule as one line, naming only what differs from plain CSR."""
    if plan.served_by is not None:
        return f"{plan.served_by}'s own code"
    if not plan.is_default and plan.schedule is None:
        return f"solver {plan.solver}"
    if plan.schedule is None:
        return "default kernel (CSR, compiled at install)"
    chosen = plan.schedule
    if isinstance(chosen, Composite):
        return str(chosen)
    tiles = [f"{index} in tiles of {n}" for index, n in chosen.dense_splits if n > 1]
    details = [
        "CSR" if chosen.format == CSR else str(chosen.format),
        *tiles,
        f"parallel {chosen.parallel} by {chosen.partition}",
        *([f"chunk {chosen.chunk}"] if chosen.partition == "dynamic" else []),
        *([f"at most {chosen.threads} threads"] if chosen.threads else []),
        *([f"unroll {chosen.unroll}"] if chosen.unroll > 1 else []),
        *([f"prefetch {chosen.prefetch} ahead"] if chosen.prefetch else []),
    ]
    return "; ".join(details)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned table: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        return "  ".join([cells[0].ljust(widths[0]), *padded[1:]]).rstrip()

    return "\n".join(map(line, (header, *rows)))

"""Put STile's Table 7 and Figures 7 to 14 beside the committed tables of two GPUs and planned costs; no GPU is needed.

    python benchmarks/hybrid_figures.py [--quick] [--table PAGE.md]

Times are those of `benchmarks/gpu.py --hybrid` on an H100 and an H200, float16 (archive `gpu`). Depths of Table 7 and
the tiles of Figures 11 to 13 come from the greedy search on costs that were fitted to these tables. Bytes of Figures 8
and 10 are those of the index and value arrays of the fastest schedule, counted on the pattern.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from hybrid_gpu import DEVICES, FAMILIES, counts
from peerlib import hybrid_cases as made
from peerlib.archives import members
from peerlib.environment import matrices_folder
from peerlib.table import markdown

DTYPE: Final = "float16"
ITEM, INDEX = 2, 4  # bytes of a value and of an index
PAPER_7: Final = {
    "LogSparse": 2.3, "Strided": 3.8, "unstructured": 3.1, "structured": 7.6, "cora": 2.4, "citeseer": 3.3,
    "pubmed": 2.5, "NotreDame_www": 4.5,
}  # fmt: skip
"""Figure 7: speedups of SpMM over cuSPARSE."""
PAPER_8: Final = {
    "LogSparse": 0.9, "Strided": 1.5, "unstructured": 0.8, "structured": 0.7, "cora": 0.8, "citeseer": 0.8,
    "pubmed": 0.7, "NotreDame_www": 0.7,
}  # fmt: skip
"""Figure 8: memory of SpMM over cuSPARSE's."""
PAPER_9: Final = {
    "LogSparse": 3.3, "Strided": 7.5, "unstructured": 2.4, "structured": 4.3, "cora": 1.5, "citeseer": 1.5,
    "pubmed": 2.6, "NotreDame_www": 4.7,
}  # fmt: skip
"""Figure 9: speedups of SDDMM over DGL."""
PAPER_10: Final = {"unstructured": 0.9, "structured": 0.6, "Strided": 0.6}
"""Figure 10: memory of SDDMM over DGL's; 1.0 for the other matrices."""
PAPER_ALONE: Final = {
    ("NotreDame_www", "spmm"): "1.1, 1.3", ("NotreDame_www", "sddmm"): "1.6, 1.1", ("LogSparse", "spmm"): "1.0, 1.0",
    ("LogSparse", "sddmm"): "2.1, 1.0", ("Strided", "spmm"): "1.0, 2.0", ("Strided", "sddmm"): "2.6, 1.4",
}  # fmt: skip
"""Table 7: latency of blocks alone, and of ELL (SpMM) or 1D (SDDMM) alone, over that of both."""
PAPER_DEPTHS: Final = {"NotreDame_www": "1.7 1.4 1.6 1.0", "LogSparse": "1.0 1.0 1.0 1.0", "Strided": "1.0 1.0 1.0 1.0"}
"""Table 7: latency at depth 1, 2, 10 and 100 over the default."""
WIDTH_OF_TABLE_7: Final = {"spmm": 64, "sddmm": 256}
ALONE: Final = ("blocks only", "ELL only", "1D only")
DEPTHS: Final = (1, 2, 10, 100)


@functools.cache
def lines(device: str) -> Mapping[tuple[str, str, int], Mapping[str, Any]]:
    """Return (operation, matrix, columns) -> the record of `device` in float16."""
    found = {}
    for text in members("gpu")[f"{device}/hybrid.jsonl"].splitlines():
        one = json.loads(text)
        operation, rest = one["case"].removeprefix("hybrid ").split(" ", 1)
        name, columns, dtype = rest.rsplit(" ", 2)
        if dtype == DTYPE:
            found[operation, name, int(columns)] = one
    return found


def best(one: Mapping[str, Any]) -> tuple[str, float]:
    """Return the kind of the fastest schedule, and its seconds."""
    kinds = [kind for kind in ("single", "composite") if kind in one["seconds"]]
    kind = min(kinds, key=lambda name: one["seconds"][name])
    return kind, one["seconds"][kind]


def names() -> list[str]:
    """Return the names of the measured matrices."""
    return list(dict.fromkeys(name for _, name, _ in lines("h200")))


def speedups(operation: str, paper: Mapping[str, float]) -> list[list[str]]:
    """Return a table of geometric means over the widths of torch's time over the best schedule's (Figures 7 and 9)."""
    rows = [["matrix", *(device.upper() for device in DEVICES), "paper"]]
    for name in names():
        cells = []
        for device in DEVICES:
            mine = [one for (op, matrix, _), one in lines(device).items() if (op, matrix) == (operation, name)]
            ratios = [one["seconds"]["torch"] / best(one)[1] for one in mine if "torch" in one["seconds"]]
            cells.append(f"{statistics.geometric_mean(ratios):.1f}" if ratios else "-")
        rows.append([name, *cells, str(paper.get(name, "-"))])
    return rows


def stored_bytes(A: Any, schedule: Mapping[str, Any]) -> float:
    """Return the bytes of the arrays of a schedule; parts with a rule are counted as rows."""
    lengths, total, least = np.diff(A.indptr), 0.0, 0
    for part in schedule["parts"]:
        layout, at_most = part["layout"], part["at_most"] or int(lengths.max(initial=0))
        taken = lengths[(lengths > least) & (lengths <= at_most)]
        if layout == "ell":
            total += taken.size * (at_most * (ITEM + INDEX) + INDEX)
        elif layout in ("windows", "blocks") and "select" not in part and part["at_least"] == 1:
            side = part["rows"] if layout == "windows" else part["step"]
            total += dense_bytes(A, part["rows"], side, squeezed=layout == "windows")
        elif layout == "entries":
            total += taken.sum() * (ITEM + 2 * INDEX)
        elif layout != "fill":
            total += taken.sum() * (ITEM + INDEX) + taken.size * INDEX
        if layout != "fill":
            least = at_most
        if "select" in part:
            least = 0
            return float(A.nnz * (ITEM + INDEX) + lengths.size * INDEX)
    return total


def dense_bytes(A: Any, height: int, width: int, *, squeezed: bool) -> float:
    """Return the bytes of dense blocks, or of windows of rows without their empty columns, with their column lists."""
    rows = np.repeat(np.arange(A.shape[0], dtype=np.int64), np.diff(A.indptr)) // height
    across = A.indices if squeezed else A.indices // width
    n = np.unique(rows * (A.shape[1] + 1) + across).size
    return float(n * ((height * ITEM + INDEX) if squeezed else (height * width * ITEM + INDEX)))


def memory(matrices: Mapping[str, Any]) -> list[list[str]]:
    """Return the table of bytes over CSR's, mean over the widths (Figures 8 and 10)."""
    rows = [["matrix", "SpMM", "paper, over cuSPARSE", "SDDMM", "paper, over DGL"]]
    for name, A in matrices.items():
        cells = []
        for operation in ("spmm", "sddmm"):
            base = A.nnz * (ITEM + (INDEX if operation == "spmm" else 2 * INDEX)) + (A.shape[0] + 1) * INDEX
            mine = [one for (op, matrix, _), one in lines("h200").items() if (op, matrix) == (operation, name)]
            shares = [stored_bytes(A, json.loads(one["schedules"][best(one)[0]])) / base for one in mine]
            cells.append(f"{statistics.mean(shares):.2f}" if shares else "-")
        known = name in PAPER_7
        sampled = str(PAPER_10.get(name, 1.0)) if known else "-"
        rows.append([name, cells[0], str(PAPER_8.get(name, "-")), cells[1], sampled])
    return rows


def alone() -> list[list[str]]:
    """Return the table of single kinds of tiles over the best schedule (Table 7, basic formats)."""
    rows = [["matrix", "operation", *(f"{kind}, {device.upper()}" for device in DEVICES for kind in ALONE), "paper"]]
    for name in names():
        for operation, columns in WIDTH_OF_TABLE_7.items():
            cells = []
            for device in DEVICES:
                one = lines(device)[operation, name, columns]
                cells += [
                    f"{one['seconds'][kind] / best(one)[1]:.1f}" if kind in one["seconds"] else "-" for kind in ALONE
                ]
            rows.append([name, f"{operation}, {columns}", *cells, PAPER_ALONE.get((name, operation), "-")])
    return rows


def plan(A: Any, columns: int, **options: Any) -> Any:
    """Return the greedy search's plan on an H100's fitted costs."""
    from autosparse.tuner.gpu.space import GpuSetting
    from autosparse.tuner.research.hybrid.gpu_plan import planned
    from autosparse.tuner.research.hybrid.greedy import GreedyOptions

    from autosparse.core.pattern import Pattern
    from autosparse.gpu.target import targets

    asked = GpuSetting(operation="matmul", n_dense_cols=columns, dtype=DTYPE, vector=8)
    pattern = Pattern(*A.shape, A.indptr, A.indices)
    return planned(pattern, asked, targets()[DEVICES["h100"]], GreedyOptions(**options)).plan


def depths(matrices: Mapping[str, Any]) -> list[list[str]]:
    """Return planned costs by depth over the default's, and the tiles of each plan (Table 7; Figures 11 to 13)."""
    head = ["matrix", "depth 1 2 10 100", "paper", "entries in blocks: default, depth 1", "tiles: default, depth 1",
            "iterations: default, depth 1"]  # fmt: skip
    rows = [head]
    for name, A in matrices.items():
        default = plan(A, 64)
        made_of = {depth: plan(A, 64, levels=depth) for depth in DEPTHS}
        ratios = " ".join(f"{one.cost / default.cost:.2f}" for one in made_of.values())
        shares = [
            sum(share for op, share in one.shares().items() if op.family == "block") for one in (default, made_of[1])
        ]
        rows.append([
            name, ratios, PAPER_DEPTHS.get(name, "-"), f"{shares[0]:.0%}, {shares[1]:.0%}",
            f"{default.n_tiles:,}, {made_of[1].n_tiles:,}", f"{default.n_iterations}, {made_of[1].n_iterations}",
        ])  # fmt: skip
    return rows


def slots() -> list[list[str]]:
    """Return the stored values per entry of the formats that the primitives make (Table 2), on small matrices."""
    from autosparse.tuner.research.hybrid.primitives import FORMATS, apply

    from autosparse.core.pattern import Pattern

    sizes = {"block": (16, 16), "ell": (0, 32), "hyb": (128, 32), "1d": (0, 32)}
    rows = [["matrix", "entries", *(f"{name} {sizes[name]}" for name in FORMATS)]]
    small = {"LogSparse": made.log_sparse(512), "Strided": made.strided(512, 16), "power law": made.power_law(n=2000)}
    for name, A in small.items():
        pattern = Pattern(*A.shape, A.indptr, A.indices)
        pieces = [apply(pattern, *make(*sizes[kind])) for kind, make in FORMATS.items()]
        rows.append([name, f"{A.nnz:,}", *(f"{sum(one.slots for one in some) / A.nnz:.2f}" for some in pieces)])
    return rows


def correlation(matrices: Mapping[str, Any]) -> list[list[str]]:
    """Return the table of Pearson correlations of planned and measured seconds (Figure 14)."""
    from autosparse.tuner.research.hybrid.gpu_plan import FITTED

    rows = [["device", "tiles", "products", "Pearson", "Pearson of logarithms", "median error", "paper"]]
    tiles = {name: (counts(A), A.shape[0]) for name, A in matrices.items()}
    for device, target in DEVICES.items():
        for family, layouts in FAMILIES.items():
            pairs = []
            for (operation, name, columns), one in lines(device).items():
                own = [s for key, s in one["times_s"].items() if key[:1].isdigit() and "+" not in key
                       and key.partition(" ")[2].startswith(layouts)]  # fmt: skip
                if operation == "spmm" and own and name in tiles:
                    n, n_rows = tiles[name][0][family], tiles[name][1]
                    pairs.append((FITTED[target, DTYPE][family].seconds(n, n_rows, columns), min(own)))
            planned_s, took_s = np.array(pairs).T
            values = [np.corrcoef(planned_s, took_s)[0, 1], np.corrcoef(np.log(planned_s), np.log(took_s))[0, 1]]
            error = float(np.median(np.abs(planned_s / took_s - 1)))
            rows.append([device.upper(), family, str(len(pairs)), *(f"{one:.3f}" for one in values), f"{error:.0%}",
                         "ELL .924, 1D 1.000"])  # fmt: skip
    return rows


def all_matrices(*, quick: bool) -> dict[str, Any]:
    """Return the measured matrices that can be had here; generated ones, and real ones where their files are."""
    found: dict[str, Any] = {
        "LogSparse": made.log_sparse(4096), "Strided": made.strided(4096, 64), "unstructured": made.pruned(1024),
        "structured": made.pruned(1024, block=32), "case study": made.case_study(64),
    }  # fmt: skip
    if not quick and (folder := matrices_folder()) is not None:
        found |= {name: made.real(name) for name in names() if (folder / f"{name}.npz").exists()}
    if not quick:
        found["power law"] = made.power_law(n=200_000)
        found["planted 16x16 + 25 % scatter"] = made.planted_blocks(n=16_384, side=16, per_row=4)
    return found


def page(matrices: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of the page."""
    yield "# STile's Table 7 and Figures 7 to 14 on committed measurements"
    yield (
        "Written by `python benchmarks/hybrid_figures.py`, whose docstring explains the tables, from the committed\n"
        "tables of an H100 and an H200. The paper has an A100, and compares with cuSPARSE and DGL; this page compares\n"
        "with torch. New times need a GPU: `python benchmarks/gpu.py --hybrid`."
    )
    for title, rows in sections(matrices):
        yield f"## {title}"
        yield markdown(rows).strip()


def sections(matrices: Mapping[str, Any]) -> Sequence[tuple[str, list[list[str]]]]:
    """Return titles and tables."""
    published = {name: A for name, A in matrices.items() if name in PAPER_7 or name == "case study"}
    return (
        ("Table 2: stored values per entry of the formats that the six primitives make", slots()),
        ("Figure 7: SpMM, speedup, geometric mean of four widths", speedups("spmm", PAPER_7)),
        ("Figure 9: SDDMM, speedup; torch computes float16 in float32", speedups("sddmm", PAPER_9)),
        (
            "Figures 8 and 10: bytes of the fastest schedule over CSR (SpMM) and over coordinates (SDDMM)",
            memory(matrices),
        ),
        ("Table 7, basic formats: time of one kind of tiles over the best schedule's", alone()),
        ("Table 7, depths, and Figures 11 to 13: planned cost over the default's, SpMM, 64 columns", depths(published)),
        ("Figure 14: planned and measured seconds of whole products", correlation(matrices)),
    )


def main() -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="only the small generated matrices")
    parser.add_argument("--table", type=Path, help="write the page as Markdown")
    args = parser.parse_args()
    text = "\n\n".join(page(all_matrices(quick=args.quick))) + "\n"
    print(text)
    if args.table:
        args.table.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write `results/transfer.md` from the lines of `results/transfer.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.transfer.source import PER_PATTERN

Line = Mapping[str, Any]

PRICE: Final = 1000
"""Price of a sample of an accelerator, in samples of a CPU (DASH, appendix A.3)."""
PAPERS_SPMM: Final = {
    ("DASH", 5): "1.40 / 1.47", ("DASH, zero-shot", 0): ".71", ("DASH, no transfer", 5): "1.29",
    ("WACO+FA", 5): "1.04", ("WACO+FM", 5): "1.09", ("DASH without IFE", 5): "1.26", ("DASH without FM", 5): "1.16",
    ("DASH without LE", 5): "1.01", ("oracle", 5): "1.55", ("DASH, Transformer predictor", 5): "1.36",
}  # fmt: skip
JUDGED_BY_PAPER: Final = {"spmm": PAPERS_SPMM, "sddmm": {("DASH", 5): "1.27 / 1.39"}}
"""Operation -> (method, k) -> the paper's top 1 and top 5 on SPADE."""
RIVALS: Final = ("pattern-blind", "zero-shot trees", "no-transfer trees", "static of the source")
OURS: Final = ("source + residual", "source + trees with counts", "DASH", "DASH (100)")
SAMPLED_METHODS: Final = (
    "pattern-blind",
    "no-transfer trees",
    "source + residual",
    "mean of two sources + residual",
    "source + trees with counts",
    "DASH",
    "DASH, all layers",
    "DASH (100)",
    "DASH, all layers (100)",
)
HEADER: Final = """# Transfer of cost models to simulated accelerators

Written by `python benchmarks/transfer.py` from `transfer.jsonl`. Cycles are those of the simulator in
`tuner/research/targets/simulation.py`; nothing here is a claim about SPADE. Of 172 real matrices with 5,000 to 260,000
entries, 64 form the pool of samples (34 groups) and 108 the test set (72 groups). Each draw samples k matrices of the
pool, 100 distinct configurations each. Speedups are geometric means over the default configuration, medians (quartiles)
over draws; "share" is top 1 and top 5 over the exhaustive optimum. Networks see 1,024 entries of a pattern. Their
source has 300 patterns of `benchmarks/data`, or as many as the name says, for 100 epochs with the featurizer (the
paper: 100 for 100), eight patterns in a step. The featurizer is frozen on the target but for "all layers", which has
the paper's settings there: rate 1e-4, batches of 32, 100 epochs. Ablations and other predictors share the whole
network's featurizer.
"""
SOURCE_PATTERNS: Final = 300
"""Number of source patterns of networks, of which the names say nothing."""
PAPERS: Final = " (100)"
"""Suffix of networks that were trained on as many source patterns as the paper's."""
FIGURES: Final = {
    "Figure 2": ("DASH", "WACO+FA", "WACO+FM"),
    "Figure 7": ("DASH", "DASH without IFE", "DASH without FM", "DASH without LE"),
    "Figure 8": ("DASH", "DASH, Transformer predictor", "DASH, LSTM predictor", "DASH, GRU predictor"),
    "Figure 9": ("DASH", "DASH, latent by PCA", "DASH, latent by autoencoder", "WACO+FA"),
    "Figure 10": ("DASH", "DASH, no transfer"),
    "Figure 11": ("DASH, zero-shot", "DASH, zero-shot (100)", "DASH (20)", "DASH (100)", "DASH"),
}
"""Rows of the paper's figures at k = 5; Figure 12 and Table 2 are the table by sampled matrices."""
SCRATCH: Final = "DASH, no transfer"
"""Row of the network that is trained on the target alone."""


def labelled(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with the number of source patterns behind the names of networks, unless it is the usual one.

    A network without transfer has no source.
    """
    networks = ("DASH", "WACO")
    found = []
    for one in lines:
        has_source = one["method"].startswith(networks) and one["method"] != SCRATCH
        is_usual = not has_source or one["patterns"] == SOURCE_PATTERNS
        found.append(one if is_usual else {**one, "method": f"{one['method']} ({one['patterns']})"})
    return found


def report(lines: Sequence[Line]) -> str:
    """Return the whole page."""
    parts, lines = [HEADER], labelled(lines)
    for key in dict.fromkeys((one["target"], one["source"], one["operation"]) for one in lines):
        mine = [one for one in lines if (one["target"], one["source"], one["operation"]) == key]
        parts.append(f"\n## {key[2]} on `{key[0]}`, source `{key[1]}`\n\n{_table(mine)}\n{_comparisons(mine)}")
        parts += [_samples(mine), _figures(mine), _by_matrix(mine)]
    return "".join(parts)


def _table(lines: Sequence[Line]) -> str:
    rows = [
        "| method | k | draws | top 1 | top 5 | share | APE % | tau | samples, 10^6 | runs of top 5, 10^6 | paper |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, k in dict.fromkeys((one["method"], one["k"]) for one in lines):
        some = [one for one in lines if (one["method"], one["k"]) == (name, k)]
        needs = not name.startswith(("oracle", "random", "zero-shot", "static of the source")) and k > 0
        price = k * PER_PATTERN * PRICE / 1e6 if needs else 0.0
        share = [np.median([one[top] / one["optimum"] for one in some]) for top in ("top1", "top5")]
        rows.append(
            f"| {name} | {k if needs else '-'} | {len(some)} | {_spread(some, 'top1')} | {_spread(some, 'top5')} "
            f"| {share[0]:.3f} / {share[1]:.3f} | {np.median([one['ape'] for one in some]):.1f} "
            f"| {np.median([one['tau'] for one in some]):.2f} | {price:.2f} | {108 * 5 * PRICE / 1e6:.2f} "
            f"| {_of_paper(some[0]['operation'], name, k)} |"
        )
    return "\n".join(rows) + "\n"


def _of_paper(operation: str, name: str, k: int) -> str:
    """Return the paper's top 1 and top 5; empty where it gives none."""
    return JUDGED_BY_PAPER[operation].get((name.removesuffix(PAPERS), k), "")


def _samples(lines: Sequence[Line]) -> str:
    """Format top 1 and APE by the number of sampled matrices; empty if only one number was tried."""
    sampled = sorted({one["k"] for one in lines if one["k"] > 0})
    names = [name for name in SAMPLED_METHODS if any(one["method"] == name for one in lines)]
    if len(sampled) < 2:
        return ""
    price = f"{PER_PATTERN * PRICE / 1e6:.1f}"
    rows = [
        f"\nTop 1 / APE % by sampled matrices k, medians (Table 2, Figures 10 to 12). Price: {price} k 10^6.\n",
        "| method | " + " | ".join(f"k = {k}" for k in sampled) + " |",
        "|---|" + "---|" * len(sampled),
    ]
    for name in names:
        cells = []
        for k in sampled:
            some = [one for one in lines if (one["method"], one["k"]) == (name, k)]
            middle = [np.median([one[value] for one in some]) for value in ("top1", "ape")] if some else []
            cells.append("{:.3f} / {:.1f}".format(*middle) if some else "-")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _figures(lines: Sequence[Line]) -> str:
    """Format top 1 and top 5 of the networks by figure of the paper; empty without the whole network."""
    by = {(name, k): [] for name in dict.fromkeys(name for row in FIGURES.values() for name in row) for k in (0, 5)}
    for one in lines:
        by.get((one["method"], one["k"]), []).append(one)
    if not by["DASH", 5]:
        return ""
    rows = ["\nFigures of the paper, medians of top 1 / top 5 (the paper's).\n", "| figure | rows |", "|---|---|"]
    for figure, names in FIGURES.items():
        cells = []
        for name in names:
            k = 0 if "zero-shot" in name else 5
            some = by[name, k]
            middle = [np.median([one[top] for one in some]) for top in ("top1", "top5")] if some else []
            paper = _of_paper(lines[0]["operation"], name, k)
            reached = "{:.2f} / {:.2f}".format(*middle) if some else "-"
            cells.append(f"{name} {reached}" + (f" ({paper})" if paper else ""))
        rows.append(f"| {figure} | {'; '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _by_matrix(lines: Sequence[Line]) -> str:
    """Format the range of single matrices' speedups; empty without lines that have it."""
    found = [one for one in lines if "least" in one and one["k"] in (0, 5)]
    if not found:
        return ""
    rows = [
        "\nSpeedups of single matrices at k = 5, top 1 (Figures 5 and 14), medians over the draws.\n",
        "| method | draws | least | geometric mean | most | slower than the default |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(one["method"] for one in found):
        some = [one for one in found if one["method"] == name]
        least, mean, most, slower = (np.median([one[of] for one in some]) for of in ("least", "top1", "most", "slower"))
        rows.append(f"| {name} | {len(some)} | {least:.2f} | {mean:.2f} | {most:.2f} | {slower:.0%} |")
    return "\n".join(rows) + "\n"


def _spread(lines: Sequence[Line], top: str) -> str:
    low, middle, high = np.quantile([one[top] for one in lines], [0.25, 0.5, 0.75])
    return f"{middle:.3f} ({low:.3f}, {high:.3f})"


def _comparisons(lines: Sequence[Line]) -> str:
    """Format the ratio of our methods' top 1 to their competitors', per draw, at k = 5."""
    by = {(one["method"], one["k"], one["draw"]): one["top1"] for one in lines}
    rows = ["\nDraw by draw at k = 5, top 1: median ratio, share of the draws above 1.\n",
            "| over | " + " | ".join(OURS) + " |", "|---|" + "---|" * len(OURS)]  # fmt: skip
    scratch = [SCRATCH] if any(one["method"] == SCRATCH for one in lines) else []
    for rival in (*RIVALS, *scratch):
        cells = []
        for mine in OURS:
            ratios = [
                by[mine, 5, draw] / by[rival, 5, draw]
                for draw in range(100)
                if (mine, 5, draw) in by and (rival, 5, draw) in by
            ]
            cells.append(f"{np.median(ratios):.3f}, {np.mean(np.array(ratios) > 1):.0%}" if ratios else "-")
        rows.append(f"| {rival} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"

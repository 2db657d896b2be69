"""Contract pairs of operands along a contraction path until the program search accepts the rest."""

from __future__ import annotations

import importlib.util
import itertools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from autosparse.contraction.candidates import is_searchable
from autosparse.contraction.expressions.arrays import contract_arrays
from autosparse.contraction.expressions.semirings import PLUS_TIMES
from autosparse.contraction.operands import Dense, Operand, Sparse
from autosparse.contraction.results import is_dense_by_default
from autosparse.contraction.subscripts import Subscripts

MAX_OPERANDS: Final = 4
"""Maximum number of operands for which programs are enumerated."""


def is_short(operands: Sequence[Operand], output: str) -> bool:
    """Return whether the programs of these operands can be enumerated: few operands and not too many programs."""
    if len(operands) > MAX_OPERANDS:
        return False
    sparse = tuple(isinstance(operand, Sparse) for operand in operands)
    return len(operands) < 2 or is_searchable(tuple(operand.indices for operand in operands), output, sparse)


def shortened(operands: list[Operand], subscripts: Subscripts, execute: Callable[..., Sparse | Any]) -> list[Operand]:
    """Contract pairs by `execute` until the rest can be enumerated or two are left; return the remaining operands."""
    operands = list(operands)
    if is_short(operands, subscripts.output):
        return operands
    for pair in contraction_path([operand.indices for operand in operands], subscripts):
        if len(operands) <= 2 or is_short(operands, subscripts.output):
            break
        chosen = [operands[n] for n in pair]
        operands = [operand for n, operand in enumerate(operands) if n not in pair]
        operands.append(_contracted(chosen, operands, subscripts, execute))
    return operands


def _contracted(
    chosen: list[Operand], others: Sequence[Operand], subscripts: Subscripts, execute: Callable[..., Sparse | Any]
) -> Operand:
    needed = subscripts.output + "".join(operand.indices for operand in others)
    letters = dict.fromkeys("".join(operand.indices for operand in chosen))
    output = "".join(index for index in letters if index in needed)
    inner = subscripts._replace(inputs=tuple(operand.indices for operand in chosen), output=output)
    arrays = [operand.array for operand in chosen if isinstance(operand, Dense)]
    if len(arrays) == len(chosen) and subscripts.semiring != PLUS_TIMES:
        return Dense(output, contract_arrays([one for one in chosen if isinstance(one, Dense)], inner))
    if len(arrays) == len(chosen):
        return Dense(output, np.ascontiguousarray(np.einsum(_plain(inner), *arrays, optimize=True)))
    bound = {index for operand in chosen if isinstance(operand, Sparse) for index in operand.indices}
    is_dense = not bound >= set(output) if output else True
    result = execute(chosen, inner, is_dense=is_dense or is_dense_by_default(output, bound))
    return result if isinstance(result, Sparse) else Dense(output, np.ascontiguousarray(result))


def _plain(subscripts: Subscripts) -> str:
    """Return subscripts text for NumPy: letters only, and only output indices that some input has."""
    used = "".join(subscripts.inputs)
    letters = dict(zip(dict.fromkeys(used + subscripts.output), string.ascii_letters, strict=False))
    output = "".join(letters[index] for index in subscripts.output if index in used)
    return ",".join("".join(map(letters.__getitem__, indices)) for indices in subscripts.inputs) + "->" + output


def contraction_path(inputs: Sequence[str], subscripts: Subscripts) -> list[tuple[int, int]]:
    """Return pairs of positions to contract; each result is appended last. Each step minimises the growth in size.

    This is the greedy rule of `opt_einsum`, which is called if installed. Only extents are read, so operands need not
    fit into dense arrays as ``np.einsum_path`` requires.
    """
    if importlib.util.find_spec("opt_einsum"):
        import opt_einsum

        shapes = [tuple(subscripts.extents[index] for index in indices) for indices in inputs]
        text = _plain(subscripts._replace(inputs=tuple(inputs)))
        found = opt_einsum.contract_path(text, *shapes, shapes=True, optimize="greedy")[0]
        return [tuple(sorted(pair)) for pair in found if len(pair) == 2]
    left = [frozenset(one) for one in inputs]
    path = []
    while len(left) > 1:
        pairs = list(itertools.combinations(range(len(left)), 2))
        sharing = [(m, n) for m, n in pairs if left[m] & left[n]] or pairs
        best = min(sharing, key=lambda pair: _growth(pair, left, subscripts))
        made = _kept(best, left, subscripts)
        left = [one for n, one in enumerate(left) if n not in best] + [made]
        path.append(best)
    return path


def _kept(pair: tuple[int, int], left: Sequence[frozenset[str]], subscripts: Subscripts) -> frozenset[str]:
    """Return the indices that the product of a pair keeps: those that the output or another operand in `left` has."""
    needed = frozenset(subscripts.output).union(*(one for n, one in enumerate(left) if n not in pair))
    return (left[pair[0]] | left[pair[1]]) & needed


def _growth(pair: tuple[int, int], left: Sequence[frozenset[str]], subscripts: Subscripts) -> float:
    """Return the dense size of the contraction of a pair minus the dense sizes of its two operands."""

    def places(indices: frozenset[str]) -> float:
        return math.prod(float(subscripts.extents[index]) for index in indices)

    return places(_kept(pair, left, subscripts)) - sum(places(left[n]) for n in pair)

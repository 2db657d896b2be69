"""More operands than the scheduler takes at once: pairs are contracted first, in the order of a contraction path."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from autosparse.asymptotic.operands import Dense, Operand, Sparse
from autosparse.asymptotic.results import default_format
from autosparse.asymptotic.subscripts import Subscripts

MOST_OPERANDS: Final = 4
"""Operands whose programs are enumerated."""


def shortened(operands: list[Operand], subscripts: Subscripts, execute: Callable[..., Sparse | Any]) -> list[Operand]:
    """At most `MOST_OPERANDS` operands with the same einsum: pairs replaced by their contraction."""
    operands = list(operands)
    for pair in contraction_path([operand.indices for operand in operands], subscripts):
        if len(operands) <= MOST_OPERANDS:
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
    inner = Subscripts(tuple(operand.indices for operand in chosen), output, subscripts.extents)
    bound = {index for operand in chosen if isinstance(operand, Sparse) for index in operand.indices}
    is_dense = not bound >= set(output) if output else True
    result = execute(chosen, inner, is_dense=is_dense or default_format(output, bound) == "dense")
    return result if isinstance(result, Sparse) else Dense(output, np.ascontiguousarray(result))


def contraction_path(inputs: Sequence[str], subscripts: Subscripts) -> list[tuple[int, ...]]:
    """Pairs of positions to contract; opt_einsum's where it is installed, else NumPy's greedy path."""
    used = "".join(inputs)
    letters = {index: chr(ord("a") + n) for n, index in enumerate(dict.fromkeys(used + subscripts.output))}
    output = "".join(letters[index] for index in subscripts.output if index in used)
    text = ",".join("".join(map(letters.__getitem__, indices)) for indices in inputs) + "->" + output
    shapes = [tuple(subscripts.extents[index] for index in indices) for indices in inputs]
    if importlib.util.find_spec("opt_einsum"):
        import opt_einsum

        path = opt_einsum.contract_path(text, *shapes, shapes=True, optimize="greedy")[0]
    else:
        path = np.einsum_path(text, *(np.broadcast_to(0.0, shape) for shape in shapes), optimize="greedy")[0][1:]
    return [tuple(pair) for pair in path if len(pair) == 2]

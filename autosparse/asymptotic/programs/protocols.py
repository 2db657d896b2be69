"""Stage 3: protocols of the reads of sparse tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from autosparse.asymptotic.cin.nodes import Access, Assign, Call, Expression, Loop, Statement, Where, assignments, reads
from autosparse.asymptotic.cost.model import Steps, concordances
from autosparse.asymptotic.kernels import Kernel


def open_reads(kernel: Kernel, program: Statement) -> list[Access]:
    """Reads that carry protocols, without them, each once."""
    bare = (Access(access.tensor, access.indices) for access in reads(program))
    return [access for access in dict.fromkeys(bare) if kernel.is_sparse(access.tensor)]


def all_protocols(kernel: Kernel, program: Statement) -> Iterator[Steps]:
    """Every choice: step or locate at each mode of each read."""
    chosen = open_reads(kernel, program)
    letters = [list(map("".join, itertools.product("ls", repeat=len(access.indices)))) for access in chosen]
    for protocols in itertools.product(*letters):
        yield dict(zip(chosen, protocols, strict=True))


def taco_protocols(kernel: Kernel, program: Statement) -> Iterator[Steps]:
    """Choices of the TACO compiler: all step, or locate at the first mode that loops bind and step at the others.

    As in the published code a scalar workspace has both, which are the same.
    """
    order = dict(concordances(program))
    chosen = open_reads(kernel, program)
    letters = [["s" * len(access.indices), _locate_first(order[access])] for access in chosen]
    for protocols in itertools.product(*letters):
        yield dict(zip(chosen, protocols, strict=True))


def _locate_first(order: Sequence[int]) -> str:
    return "".join("l" if order and mode == order[0] else "s" for mode in range(len(order)))


def with_protocols(program: Statement, steps: Mapping[Access, str]) -> Statement:
    """`program` with protocols on its reads."""
    if isinstance(program, Loop):
        return Loop(program.indices, with_protocols(program.body, steps))
    if isinstance(program, Where):
        return Where(with_protocols(program.consumer, steps), with_protocols(program.producer, steps))
    return Assign(program.lhs, program.op, _marked(program.rhs, steps))


def _marked(node: Expression, steps: Mapping[Access, str]) -> Expression:
    if isinstance(node, Call):
        return Call(node.op, tuple(_marked(arg, steps) for arg in node.args))
    return Access(node.tensor, node.indices, steps.get(Access(node.tensor, node.indices), ""))


def fits_taco(kernel: Kernel, program: Statement, steps: Steps) -> bool:
    """Whether the TACO compiler can run it (section 7 of the published code's rules; docs/adr/0034)."""
    return is_shaped_for_taco(kernel, program) and all(
        _reads_workspaces_as_taco(assign, steps) for assign in assignments(program)
    )


def is_shaped_for_taco(kernel: Kernel, program: Statement) -> bool:
    """The conditions on loops and workspaces: rank at most 1, one insert mode, one buffer."""
    inserted = dict(_insert_modes(kernel, program))
    buffers = sum(n_modes > 0 for access, n_modes in inserted.items() if len(access.indices) > 1)
    n_wheres = sum(access.tensor[0] == "w" for access in inserted)
    ranks = [len(access.indices) for access in inserted if access.tensor[0] == "w"]
    return max(ranks, default=0) <= 1 and max(inserted.values(), default=0) <= 1 and n_wheres + buffers <= 1


def _insert_modes(kernel: Kernel, program: Statement, outer: tuple[str, ...] = ()) -> Iterator[tuple[Access, int]]:
    """Writes of sparse tensors with their number of insert modes: those from the first that no loop prefix fixes."""
    if isinstance(program, Loop):
        yield from _insert_modes(kernel, program.body, outer + program.indices)
    elif isinstance(program, Where):
        yield from _insert_modes(kernel, program.consumer, outer)
        yield from _insert_modes(kernel, program.producer, outer)
    elif kernel.is_sparse(program.lhs.tensor):
        written = sorted(program.lhs.indices, key=outer.index)
        n_appended = 0
        while n_appended < len(written) and written[n_appended] == outer[n_appended]:
            n_appended += 1
        yield program.lhs, len(written) - n_appended


def _reads_workspaces_as_taco(assign: Assign, steps: Steps) -> bool:
    """A workspace of rank 1 is located beside another read, stepped through when it is the only one."""
    found = list(reads(assign.rhs))
    wanted = "l" if len(found) > 1 else "s"
    return all(
        steps[Access(access.tensor, access.indices)] == wanted
        for access in found
        if access.tensor[0] == "w" and len(access.indices) == 1
    )

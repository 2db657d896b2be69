"""Composite schedules of a structure on a GPU: candidates, and the entries that their parts receive."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from autosparse import config
from autosparse._native.triton.entries import DeviceEntries, select
from autosparse.core.composite import Selection
from autosparse.core.dtypes import WideIndex
from autosparse.core.pattern import Pattern as HostPattern
from autosparse.cuda.structure import CudaPattern
from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import DeviceTarget
from autosparse.log import event
from autosparse.tuner import registry
from autosparse.tuner.gpu import composites, space
from autosparse.tuner.gpu.facts import DevicePattern, facts_of
from autosparse.tuner.hybrid.partitions import MIN_COLUMNS, MIN_NNZ

Given = Mapping[Selection, DevicePattern]


class Offered(NamedTuple):
    """Composite schedule: its name, counts of the entries of each rule, and whether the greedy search decided it."""

    name: str
    schedule: DeviceSchedule
    given: Given
    is_planned: bool


def is_wanted(structure: CudaPattern, asked: space.GpuSetting) -> bool:
    """Return whether composites are candidates: as `hybrid` says; by default, for large products at effort "full"."""
    options = config.get_options()
    if options.hybrid is not None or asked.kind not in composites.OFFERS:
        return bool(options.hybrid) and asked.kind in composites.OFFERS
    is_large = structure.nnz > MIN_NNZ and asked.n_dense_cols >= MIN_COLUMNS
    return options.effort is config.Effort.FULL and is_large


def offered(
    structure: CudaPattern, transposed: bool, asked: space.GpuSetting, target: DeviceTarget
) -> Iterator[Offered]:
    """Yield the composite schedules; copies the pattern to the host.

    With ``hybrid=True`` the greedy search divides the matrix: where its planned cost is trusted, its partition is the
    only one. Otherwise rules propose several.
    """
    pattern = host_pattern(structure.entries(transposed))
    proposed, suffix, is_planned = composites.partitions(pattern, asked, target), "", False
    if config.get_options().hybrid:
        plan = registry.load("partitioner", "greedy")(pattern, asked, target)
        event("divide", plan.reason or f"{plan.partition}: planned time {plan.ratio:.2f} of one layout")
        if is_planned := plan.is_trusted:
            proposed, suffix = [plan.partition], f", planned {plan.ratio:.2f} of one layout"
    for partition in proposed:
        given = given_by(structure, transposed, partition.selections)
        for name, schedule in composites.schedules(asked, partition.selections):
            yield Offered(name + suffix, schedule, given, is_planned)


def given_by(structure: CudaPattern, transposed: bool, selections: Sequence[Selection]) -> Given:
    """Return {rule: counts of the entries it takes from those that earlier rules left}; cached; waits for the GPU."""
    key = (transposed, tuple(selections))
    known = structure.known.given
    if key not in known:
        left, found = structure.entries(transposed), {}
        for rule in selections:
            own, others = select(rule, left)
            found[rule] = _facts(own)
            left = own if others is None else others
        known[key] = found
    return known[key]


def _facts(entries: DeviceEntries) -> DevicePattern:
    _, at = entries.listed()
    ends = torch.cumsum(entries.grid_lengths(), 0)
    return facts_of(torch.cat([ends.new_zeros(1), ends]), entries.cols[at].long(), entries.n_cols)


def host_pattern(entries: DeviceEntries) -> HostPattern:
    """Copy the rows of op(A) to the host."""
    _, at = entries.listed()
    ends = torch.cumsum(entries.lengths, 0).cpu().numpy()
    indptr = np.concatenate([np.zeros(1, dtype=WideIndex), ends])
    return HostPattern(entries.n_rows, entries.n_cols, indptr, entries.cols[at].long().cpu().numpy())


def told(structure: CudaPattern, transposed: bool, schedule: DeviceSchedule) -> Iterator[str]:
    """Yield a line of text for each part of a composite schedule: rule, share of the entries, and layouts."""
    given = given_by(structure, transposed, schedule.selections)
    for rule in schedule.selections:
        own, layouts = given[rule], ", ".join(schedule.layouts_of(rule))
        share = own.nnz / max(1, structure.nnz)
        yield f"{rule}: {share:.1%} of the entries, in {own.used_rows:,} rows, by {layouts}"

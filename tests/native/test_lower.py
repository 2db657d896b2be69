"""Tests of lowering: every legal schedule gives a program of one shape, or a reason for refusal."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native.ir import nodes as ir
from autosparse._native.ir.lower import lower

from autosparse import _native
from autosparse.errors import ScheduleError
from tests.native import cases


def programs(n: int) -> list[tuple[_native.KernelSpec, ir.Program]]:
    rng = np.random.default_rng(1)
    specs = [cases.spec(made) for made in cases.FAMILY]
    specs += [cases.spec(cases.random_schedule(rng)) for _ in range(n)]
    return [(of, lower(of)) for of in specs]


def loop_names(program: ir.Program) -> list[str]:
    """Return the coordinates bound by loops and by the block, in order."""
    names: list[str] = []
    for node in ir.walk(program.body):
        if isinstance(node, ir.ForDense | ir.ForTiles):
            names.append(node.coordinate.name)
        elif isinstance(node, ir.ForStored):
            names.append(node.level.name)
        elif isinstance(node, ir.Block):
            names += [coordinate.name for coordinate in node.coordinates]
    return names


def test_loops_are_those_of_the_schedule_in_its_order() -> None:
    for of, program in programs(400):
        tiles_of_one = {f"{index}0" for index, size in of.schedule.dense_splits if size == 1}
        assert loop_names(program) == [name for name in of.schedule.loop_order if name not in tiles_of_one]


def test_every_level_is_resolved_once_after_its_parent() -> None:
    for _, program in programs(400):
        resolved: list[str] = []
        for node in ir.walk(program.body):
            if isinstance(node, ir.ForStored | ir.Locate | ir.CoordinateSearch):
                resolved.append(node.level.name)
            elif isinstance(node, ir.Block):
                resolved += [level.name for level in node.levels]
        assert resolved == [level.name for level in program.levels]


def test_one_workspace_one_block_one_parallel_loop() -> None:
    for _, program in programs(400):
        nodes = list(ir.walk(program.body))
        assert sum(isinstance(node, ir.Workspace) for node in nodes) == 1
        assert sum(isinstance(node, ir.Block) for node in nodes) == 1
        assert sum(getattr(node, "parallel", False) for node in nodes) == 1


def test_partial_sums_load_the_previous_value() -> None:
    for _, program in programs(400):
        workspace = next(node for node in ir.walk(program.body) if isinstance(node, ir.Workspace))
        zeroed = any(isinstance(node, ir.Zero) for node in program.body)
        assert zeroed == (workspace.init == "load")
        assert (workspace.init == "first") == bool(workspace.first)


def test_only_padded_formats_look_for_values_that_are_not_finite() -> None:
    for of, program in programs(100):
        checks = any(
            isinstance(node, ir.SumSlots) or (isinstance(node, ir.Workspace) and node.check)
            for node in ir.walk(program.body)
        )
        assert checks == of.schedule.format.has_padding


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"parallel": "k1"}, "sums"),
        ({"parallel": "j0"}, "inside a column tile"),
        ({"operation": "transmogrify"}, "no index expression"),
    ],
)
def test_schedules_that_cannot_be_lowered_have_a_reason(fields: dict[str, str], reason: str) -> None:
    made = cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 8, **fields)
    assert reason in str(_native.supports(made.operation, made))
    with pytest.raises(ScheduleError, match=reason):
        lower(_native.KernelSpec(made.operation, made, "float32", "int32", "baseline"))


def test_formats_of_other_operands_are_refused() -> None:
    made = cases.schedule("i1:U,k1:C,l1:C", "i1 k1 l1")
    assert "is wanted" in str(_native.supports("matmul", made))


def test_supported_schedules_have_no_reason() -> None:
    assert all(_native.supports("matmul", made) is None for made in cases.FAMILY)


def test_key_depends_on_the_code_only() -> None:
    base = {"fmt": "i1:U,k1:C", "loops": "i1 j1 k1 j0", "tile": 8}
    one = cases.spec(cases.schedule(**base, partition="nnz", chunk=32))
    other = cases.spec(cases.schedule(**base, partition="dynamic", chunk=4))
    assert one.key() == other.key()
    different = [
        cases.spec(cases.schedule(**base, unroll=2)),
        cases.spec(cases.schedule(**base, prefetch=4)),
        cases.spec(cases.schedule(**{**base, "tile": 16})),
        cases.spec(cases.schedule(**base), "float64"),
        cases.spec(cases.schedule(**base), "float32", "int64"),
        cases.spec(cases.schedule(**base), isa="baseline" if one.isa != "baseline" else "avx2"),
    ]
    assert len({of.key() for of in (one, *different)}) == 1 + len(different)


def test_printing_is_a_function_of_the_spec() -> None:
    for of, program in programs(50):
        assert str(program) == str(lower(of))
        assert program == lower(of)


@pytest.mark.parametrize(("n", "split"), [(0, 4), (1, 4), (7, 4), (8, 4), (5, 1)])
def test_extents_cover_an_index_exactly_once(n: int, split: int) -> None:
    """Check that both orders of the two loops of an index visit 0 .. n-1 exactly once."""
    outer, inner = ir.Coordinate("i1", split), ir.Coordinate("i0", split)
    whole = [
        o * split + i
        for o in range(ir.Extent(outer, partner_bound=False).value(n, 0))
        for i in range(ir.Extent(inner, partner_bound=True).value(n, o))
    ]
    assert whole == list(range(n))
    turned = [
        o * split + i
        for i in range(ir.Extent(inner, partner_bound=False).value(n, 0))
        for o in range(ir.Extent(outer, partner_bound=True).value(n, i))
    ]
    assert sorted(turned) == list(range(n))

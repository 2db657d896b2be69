"""Tests that `core.values.dataclass` behaves as the standard library's decorator for the parameters it accepts."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field

import pytest

from autosparse.core import values

DECORATORS = {"standard": dataclasses.dataclass, "ours": values.dataclass}
SETTINGS = [
    {},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {"eq": False},
    {"frozen": True, "eq": False},
]


def made_by(decorator, settings):
    @decorator(**settings)
    class Point:
        """A point."""

        x: int
        y: int = 2
        tags: list = field(default_factory=list)
        hidden: int = field(default=7, repr=False, compare=False)
        total: int = field(init=False, default=0)

        def __post_init__(self):
            object.__setattr__(self, "total", self.x + self.y)

    return Point


def tried(action):
    """Return the result of `action`, or the class of the exception that it raises."""
    try:
        return action()
    except (TypeError, AttributeError) as err:
        return type(err)


def facts(Point):
    a, b = Point(x=1), Point(x=1, hidden=8)
    return [
        repr(a).replace(Point.__qualname__, "Point"),
        a == b, a != Point(x=2), a == 1, a.tags is not b.tags, a.total,
        tried(lambda: hash(Point(x=1, tags=())) == hash(Point(x=1, tags=()))),
        tried(lambda: setattr(a, "x", 3)), tried(lambda: delattr(b, "x")),
        tried(lambda: Point(1, 5).y), tried(lambda: Point()), tried(lambda: Point(x=1, total=3)),
        dataclasses.asdict(Point(x=4)), dataclasses.replace(Point(x=4), y=9).total,
        [one.name for one in dataclasses.fields(Point)], hasattr(a, "__dict__"), Point.__match_args__,
        list(inspect.signature(Point).parameters), copy.deepcopy(Point(x=5)).x, Point.__doc__,
    ]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_fact_is_the_standard_decorators(settings):
    wanted, found = (facts(made_by(decorator, settings)) for decorator in DECORATORS.values())
    assert found == wanted


@pytest.mark.parametrize("n_before", [0, values.FIRST_INSTANCES])
@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS)
@pytest.mark.parametrize(
    "wrong", [((), {}), ((1, 2, [], 3, 4, 5), {}), ((1,), {"x": 2}), ((1,), {"unknown": 2}), ((1,), {"total": 2})]
)
def test_wrong_arguments_are_refused(decorator, n_before, wrong):
    Point = made_by(decorator, {})
    for _ in range(n_before):
        Point(1)
    args, kwargs = wrong
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        Point(*args, **kwargs)


@values.dataclass(frozen=True, slots=True)
class Kept:
    x: int
    y: tuple = ()


def test_instances_are_pickled():
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS)
@pytest.mark.parametrize("settings", [{}, {"frozen": True, "slots": True}], ids=str)
def test_subclasses_add_fields(decorator, settings):
    Point = made_by(decorator, settings)

    @decorator(**settings)
    class Named(Point):
        name: str = ""

    assert Named(1, name="a") == Named(1, name="a") != Named(1, name="b")
    assert [one.name for one in dataclasses.fields(Named)][-1] == "name"
    assert Named(1) != Point(1)


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS)
def test_methods_of_the_class_are_kept(decorator):
    @decorator(frozen=True)
    class Loud:
        x: int

        def __repr__(self):
            return "loud"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 5

    assert (repr(Loud(1)), Loud(1) == Loud(2), hash(Loud(1))) == ("loud", True, 5)
    with pytest.raises(FrozenInstanceError, match="'x'"):
        Loud(1).x = 3


def test_methods_are_written_when_they_are_first_used():
    Point = made_by(values.dataclass, {"frozen": True})
    for _ in range(values.FIRST_INSTANCES):
        assert Point(1, hidden=5).total == 3
    assert type(Point.__dict__["__init__"]) is values._InitLate
    assert Point(1, hidden=5).total == 3
    assert inspect.isfunction(Point.__dict__["__init__"])
    late = Point.__dict__["__repr__"]
    assert repr(Point(1)) == repr(Point(1))
    assert Point.__dict__["__repr__"] is not late


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RecursionError])
@pytest.mark.parametrize("use", [hash, repr, lambda point: point == copy.copy(point)], ids=["hash", "repr", "eq"])
def test_an_error_while_a_method_is_written_is_raised_and_the_method_written_later(use, error, monkeypatch):
    standard, point = (made_by(decorator, {"frozen": True})(1) for decorator in DECORATORS.values())
    for made in (standard, point):
        object.__setattr__(made, "tags", ())

    def interrupted(cls):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(values, "_fields", interrupted)
        with pytest.raises(error):
            use(point)
    assert use(point) == use(standard)


def test_an_override_calls_the_method_that_is_written_late():
    class Named(made_by(values.dataclass, {"frozen": True})):
        def __repr__(self):
            return f"<{super().__repr__()}>"

    first, later = repr(Named(1)), repr(Named(1))
    assert first == later
    assert not first.startswith("<<")

"""Variant of `dataclasses.dataclass` that generates a class's methods when they are first used.

The standard decorator compiles up to six methods per class, 0.2 to 0.45 ms each time a process imports it. The modules
of tuning define more than a hundred such classes, and most processes use the methods of a few. The decorator here has
the same meaning for the parameters that it takes. `fields`, `replace` and `asdict` of the standard library work on its
classes; they collect a class's fields when they are first used. Not supported: ``InitVar``, ``KW_ONLY``, ``order``, and
a frozen base class made by the standard decorator.

`computed_once` is `functools.cached_property` without its lock.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

__all__ = ["computed_once", "dataclass", "field"]

T = TypeVar("T")

FIRST_INSTANCES: Final = 8
"""Number of instances of a class that are made without compiling its `__init__`, which takes as long as 50 of them."""
_UNSET: Final = object()
"""Default of arguments whose field has a factory."""


class computed_once(Generic[T]):  # noqa: N801  # used as a decorator, like functools.cached_property
    """`functools.cached_property` without its lock (Python < 3.12): several threads may compute the value.

    That lock belongs to the class: a thread that hashes a large pattern would block all others, and a forked child for
    ever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> computed_once[T] | T:
        if instance is None:
            return self
        value = self._compute(instance)
        found: T = instance.__dict__.setdefault(self._name, value)
        return found


class _Late:
    """Base class of descriptors that are replaced by the attribute `_name` of the class `cls` when it is looked up."""

    __slots__ = ("_name", "cls")

    cls: type  # set once the class has been made

    def __init__(self, name: str) -> None:
        self._name = name


def _installed(cls: type, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return `method` after making it the method `name` of the class."""
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    setattr(cls, name, method)
    return method


def _written_late(name: str, write: Callable[[type], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a method that compiles the method `name` and replaces itself by it when it is first called.

    It is a function because Python discards errors of descriptors, KeyboardInterrupt among them, when it looks up these
    methods: objects would be unhashable, and equal objects different.
    """
    written: list[Callable[..., Any]] = []

    def method(self: Any, *others: Any) -> Any:
        owner = next((base for base in type(self).__mro__ if base.__dict__.get(name) is method), None)
        if owner is not None:  # None: another thread has replaced this method
            written.append(write(owner))
            _installed(owner, name, written[-1])
        return written[-1](self, *others)

    return method


class _InitLate(_Late):
    """Descriptor for `__init__` that makes the first instances without compiling it: most classes have only a few."""

    __slots__ = ("_facts", "_n_left", "_positional")

    def __init__(self) -> None:
        super().__init__("__init__")
        self._n_left = FIRST_INSTANCES
        self._facts: list[tuple[str, tuple[bool, Any, Any]]] | None = None
        self._positional: tuple[str, ...] = ()

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # Any: a function or a bound method
        self._n_left -= 1
        if instance is None or self._n_left < 0:
            return self._compiled(instance)
        return functools.partial(self._make, instance)

    def _compiled(self, instance: object) -> Any:  # Any: a function or a bound method
        return _installed(self.cls, "__init__", _write_init(self.cls)).__get__(instance, self.cls)

    def _make(self, instance: Any, *args: Any, **kwargs: Any) -> None:
        facts = self._facts
        if facts is None:
            fields = _fields(self.cls)
            self._positional = tuple(one.name for one in fields if one.init and not one.kw_only)
            facts = self._facts = [(one.name, (one.init, one.default, one.default_factory)) for one in fields]
        given = kwargs | dict(zip(self._positional, args, strict=False))
        n_given = len(given)
        values = [(name, _value(name, *rest, given)) for name, rest in facts]
        if n_given != len(kwargs) + len(args) or given or any(value is _UNSET for _, value in values):
            self._compiled(instance)(*args, **kwargs)  # raises the right error, or sets fields
            return
        for name, value in values:
            object.__setattr__(instance, name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _value(name: str, is_argument: bool, default: Any, make: Any, given: dict[str, Any]) -> Any:
    """Return a field's initial value: taken out of `given` if it is an argument, else its default, else _UNSET."""
    if is_argument and name in given:
        return given.pop(name)
    if make is not dataclasses.MISSING:
        return make()
    return _UNSET if default is dataclasses.MISSING else default


def _compiled(name: str, source: str, names: dict[str, Any]) -> Callable[..., Any]:
    exec(source, names)  # noqa: S102  # names of fields, as in the standard library
    made: Callable[..., Any] = names[name]
    return made


def _write_init(cls: type) -> Callable[..., Any]:
    is_frozen = getattr(cls, "__setattr__", None) is _refuse_to_set
    names: dict[str, Any] = {"_set": object.__setattr__, "_UNSET": _UNSET}
    positional, by_keyword, body = ["self"], list[str](), list[str]()
    for one in _fields(cls):
        argument, value = _argument(one, names)
        if one.init:
            (by_keyword if one.kw_only else positional).append(argument)
        if value:
            body.append(f" _set(self, {one.name!r}, {value})" if is_frozen else f" self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    arguments = [*positional, *(["*", *by_keyword] if by_keyword else [])]
    made = _compiled("__init__", f"def __init__({', '.join(arguments)}):\n" + ("\n".join(body) or " pass"), names)
    made.__annotations__ = {one.name: one.type for one in _fields(cls) if one.init} | {"return": "None"}
    return made


def _argument(one: dataclasses.Field[Any], names: dict[str, Any]) -> tuple[str, str]:
    """Return the text of the field's argument of `__init__`, and of its value there ("": `__post_init__` sets it).

    Defaults and factories that the texts refer to are added to `names`.
    """
    name = one.name
    if one.default is not dataclasses.MISSING:
        names[f"_default_{name}"] = one.default
        return f"{name}=_default_{name}", name if one.init else f"_default_{name}"
    if one.default_factory is not dataclasses.MISSING:
        names[f"_make_{name}"] = one.default_factory
        made = f"_make_{name}()"
        return f"{name}=_UNSET", f"{made} if {name} is _UNSET else {name}" if one.init else made
    return name, name if one.init else ""


def _compared(cls: type, whose: str) -> str:
    names = [one.name for one in _fields(cls) if one.compare]
    return f"({''.join(f'{whose}.{name}, ' for name in names)})"


def _write_eq(cls: type) -> Callable[..., Any]:
    source = (
        "def __eq__(self, other):\n"
        " if other.__class__ is not self.__class__:\n"
        "  return NotImplemented\n"
        f" return {_compared(cls, 'self')} == {_compared(cls, 'other')}"
    )
    return _compiled("__eq__", source, {})


def _write_hash(cls: type) -> Callable[..., Any]:
    return _compiled("__hash__", f"def __hash__(self):\n return hash({_compared(cls, 'self')})", {})


def _write_repr(cls: type) -> Callable[..., Any]:
    shown = [one.name for one in _fields(cls) if one.repr]

    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return __repr__


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in _fields(type(self))]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(_fields(type(self)), state, strict=True):
        object.__setattr__(self, one.name, value)


@functools.cache
def _sample() -> Any:  # Any: a class
    """Return a class that the standard decorator made."""
    return dataclasses.make_dataclass("_Sample", ["value"], init=False, repr=False, eq=False)


_KIND: Final = "_field_type"
"""Attribute by which the standard library tells fields from class variables; an object of its own is the value."""


class _Reflected(_Late):
    """Descriptor for `__dataclass_fields__` and `__dataclass_params__`, the standard library's view of a class.

    `fields` are the class's fields, inherited ones first, for this module.
    """

    __slots__ = ("fields",)

    def __init__(self, name: str, fields: tuple[dataclasses.Field[Any], ...]) -> None:
        super().__init__(name)
        self.fields = fields

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # Any: of the standard library
        sample = _sample()
        for one in self.fields:
            setattr(one, _KIND, getattr(dataclasses.fields(sample)[0], _KIND))
        self.cls.__dataclass_fields__ = {one.name: one for one in self.fields}  # type: ignore[attr-defined]
        self.cls.__dataclass_params__ = sample.__dataclass_params__  # type: ignore[attr-defined]
        return getattr(self.cls, self._name)


def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    """Return what `dataclasses.fields` returns, without the standard library's work for a class of this module."""
    held = next(one for base in cls.__mro__ if (one := base.__dict__.get("__dataclass_fields__")) is not None)
    return held.fields if type(held) is _Reflected else dataclasses.fields(cls)


def _is_unhashable(cls: type) -> bool:
    """Return whether ``cls.__hash__`` is None, without looking it up, which would write the method of a class here."""
    return next(base.__dict__["__hash__"] for base in cls.__mro__ if "__hash__" in base.__dict__) is None


def _own_fields(cls: type, *, kw_only: bool) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields that the body of `cls` annotates, by name."""
    found = {}
    for name, annotation in cls.__annotations__.items():
        if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            default = cls.__dict__.get(name, dataclasses.MISSING)
            if _is_unhashable(default.__class__):
                raise ValueError(f"mutable default {default!r} of the field {name}: use a factory")
            one: Any = default if isinstance(default, dataclasses.Field) else field(default=default)
            one.name, one.type = name, annotation
            one.kw_only = kw_only if one.kw_only is dataclasses.MISSING else one.kw_only
            found[name] = one
    return found


def _with_slots(cls: type, contents: dict[str, Any], names: Iterable[str]) -> type:
    """Return `cls` made again, with the contents and with a slot for each name that no base class has a slot for."""
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    slots = tuple(name for name in names if name not in inherited)
    contents = {k: v for k, v in cls.__dict__.items() if k not in {*names, "__dict__", "__weakref__"}} | contents
    made: type = type(cls)(cls.__name__, cls.__bases__, contents | {"__slots__": slots})
    made.__qualname__ = cls.__qualname__
    return made


def _with_contents(cls: type, contents: dict[str, Any], names: Iterable[str]) -> type:
    """Return `cls` with the contents, and with the defaults of the named fields as attributes."""
    for name in names:
        default = cls.__dict__.get(name)
        if isinstance(default, dataclasses.Field):
            contents[name] = default.default
    for name, value in contents.items():
        if value is not dataclasses.MISSING:
            setattr(cls, name, value)
        else:
            delattr(cls, name)
    return cls


def _late(cls: type, *, eq: bool, frozen: bool) -> dict[str, Any]:
    """Return the methods that the body of `cls` does not define; None: the class shall not have the method."""
    own = cls.__dict__
    late: dict[str, Any] = {} if "__repr__" in own else {"__repr__": _write_repr}
    if eq:
        late |= {} if "__eq__" in own else {"__eq__": _write_eq}
        if own.get("__hash__") is None and ("__hash__" not in own or "__eq__" in own):
            late["__hash__"] = _write_hash if frozen else None  # equal by value and mutable: not hashable
    return {name: write and _written_late(name, write) for name, write in late.items()} | {"__init__": _InitLate()}


def _process(cls: type, *, eq: bool, frozen: bool, slots: bool, kw_only: bool) -> type:
    own = _own_fields(cls, kw_only=kw_only)
    inherited = [base for base in cls.__mro__[:0:-1] if "__dataclass_fields__" in base.__dict__]
    fields = {one.name: one for base in inherited for one in _fields(base)} | own
    placed: dict[str, Any] = _late(cls, eq=eq, frozen=frozen)  # Any: methods and descriptors
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        placed[name] = _Reflected(name, tuple(fields.values()))
    placed["__match_args__"] = tuple(name for name, one in fields.items() if one.init and not one.kw_only)
    if sys.version_info >= (3, 13):
        placed["__replace__"] = dataclasses.replace
    if frozen:
        placed |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots and not {"__getstate__", "__setstate__"} & cls.__dict__.keys():
            placed |= {"__getstate__": _state, "__setstate__": _set_state}
    made = _with_slots(cls, placed, fields) if slots else _with_contents(cls, placed, own)
    for one in placed.values():
        if isinstance(one, _Late):
            one.cls = made
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, slots=False, kw_only=False):
        """Make `cls` a dataclass; the parameters have the meaning of `dataclasses.dataclass`."""
        if cls is not None:
            return _process(cls, eq=eq, frozen=frozen, slots=slots, kw_only=kw_only)
        return lambda decorated: _process(decorated, eq=eq, frozen=frozen, slots=slots, kw_only=kw_only)

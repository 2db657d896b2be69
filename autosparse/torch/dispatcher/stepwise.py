"""Decorator that enters a context manager only while code of the decorated function runs.

Generators, coroutines and asynchronous generators return control to their caller in between. The context is left
before each of these moments and entered again after it, as ``torch.no_grad`` does for generators.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
Context = AbstractContextManager[Any]


def decorated(function: AnyFunction, context: Context) -> AnyFunction:
    """Return `function` with `context` active around each part of it that runs without interruption."""
    if inspect.isasyncgenfunction(function):
        made = _async_generator(function, context)
    elif inspect.iscoroutinefunction(function):
        made = _coroutine(function, context)
    elif inspect.isgeneratorfunction(function):
        made = _generator(function, context)
    else:
        made = _plain(function, context)
    return cast("AnyFunction", functools.wraps(function)(made))


def _plain(function: Callable[..., Any], context: Context) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with context:
            return function(*args, **kwargs)

    return call


def _generator(function: Callable[..., Generator[Any, Any, Any]], context: Context) -> Callable[..., Any]:
    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _Steps(function(*args, **kwargs), context))

    return generate


def _coroutine(function: Callable[..., Awaitable[Any]], context: Context) -> Callable[..., Any]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await _awaited(function(*args, **kwargs), context)

    return run


def _async_generator(function: Callable[..., AsyncGenerator[Any, Any]], context: Context) -> Callable[..., Any]:
    def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        return _AsyncSteps(function(*args, **kwargs), context)

    return generate


class _Steps(Generator[Any, Any, Any]):
    """Generator, or iterator of an awaitable, with a context around each of its steps."""

    def __init__(self, steps: Generator[Any, Any, Any], context: Context) -> None:
        self._steps, self._context = steps, context

    def send(self, value: Any) -> Any:
        """Run to the next step."""
        with self._context:
            return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the generator and run to the next step."""
        with self._context:
            return self._steps.throw(*error)

    def close(self) -> None:
        """Close the generator."""
        with self._context:
            self._steps.close()


class _AsyncSteps(AsyncGenerator[Any, Any]):
    """Asynchronous generator with a context around each part that runs between two awaits."""

    def __init__(self, steps: AsyncGenerator[Any, Any], context: Context) -> None:
        self._steps, self._context = steps, context

    async def asend(self, value: Any) -> Any:
        """Run to the next value."""
        return await _awaited(self._steps.asend(value), self._context)

    async def athrow(self, *error: Any) -> Any:
        """Raise an exception in the generator and run to the next value."""
        return await _awaited(self._steps.athrow(*error), self._context)

    async def aclose(self) -> None:
        """Close the generator."""
        await _awaited(self._steps.aclose(), self._context)


@types.coroutine
def _awaited(awaitable: Awaitable[Any], context: Context) -> Generator[Any, Any, Any]:
    return (yield from _Steps(awaitable.__await__(), context))

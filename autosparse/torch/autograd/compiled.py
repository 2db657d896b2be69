"""Marker for functions that torch.compile must not trace: they run in Python between compiled parts of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def run_as_is(function: AnyFunction) -> AnyFunction:
    """Exclude `function`, and all that it calls, from tracing by torch.compile: the graph breaks at the call.

    ``torch.compiler.disable`` does the same, but imports the compiler (1.5 s) and wraps every call. On a PyTorch
    version without this private switch, torch.compile traces the function and gives a warning of its own.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # calls from traced code
    function._torchdynamo_disable_msg = None  # type: ignore[attr-defined]
    try:
        from torch._C._dynamo import eval_frame

        skip = eval_frame._FrameAction.SKIP
        # Also excludes frames that PyTorch's dispatcher starts while compiled code runs, and their callees.
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    except (ImportError, AttributeError, TypeError):
        return function
    return function

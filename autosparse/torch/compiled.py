"""torch.compile and our functions: they are run as they are, between the compiled parts of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def run_as_is(function: AnyFunction) -> AnyFunction:
    """`function`, not traced by torch.compile, nor anything it calls: the graph breaks there.

    ``torch.compiler.disable`` would do the same, at the price of importing the compiler (1.5 s) and of a wrapper at
    every call. Where PyTorch keeps the switch elsewhere the function is merely traced, with a warning of PyTorch's.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]  # calls from traced code
    function._torchdynamo_disable_msg = None  # type: ignore[attr-defined]
    try:
        from torch._C._dynamo import eval_frame

        skip = eval_frame._FrameAction.SKIP
        # Frames that PyTorch's dispatcher starts while compiled code runs: this one, and those below it.
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    except (ImportError, AttributeError, TypeError):
        return function
    return function

"""Serve einsum calls by an existing product or elementwise operation until a faster compiled kernel is available."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosparse.config import get_options
from autosparse.contraction.routes import paid
from autosparse.contraction.routes.existing import Direct, is_finite
from autosparse.contraction.subscripts import Subscripts


def serve(direct: Direct, operands: Sequence[Any], subscripts: Subscripts, *, is_dense: bool) -> Any:
    """Compute an einsum by its route or a compiled kernel; None if the general contraction must compute it."""
    route, arguments = direct.route, direct.arguments(operands)
    if not takes(direct, arguments):
        return None
    if not route.begins or get_options().deterministic:
        result = route.run(*arguments)
    else:
        result = _paid(direct, arguments, operands, subscripts, is_dense=is_dense)
    if result is None:
        return None
    if route.finite_result and not is_finite(result):
        return None
    return result


def takes(direct: Direct, arguments: Sequence[Any]) -> bool:
    """Return whether the route computes these arguments: it supports them, and no kernel is to be compiled at once."""
    return direct.route.fits(arguments) and not (direct.route.begins and paid.is_sure() and not paid.has_failed())


def _paid(
    direct: Direct, arguments: Sequence[Any], operands: Sequence[Any], subscripts: Subscripts, *, is_dense: bool
) -> Any:
    """Compute and count a call, by the route or a kernel; compile one once calls have taken as long as that."""
    account = account_of(arguments, subscripts)
    if account.prefers_kernel:
        from autosparse.contraction.execution import compute

        return account.tried(lambda: compute(operands, subscripts, direct.dtype, is_dense=is_dense, by_kernel=True))
    result = account.timed(lambda: direct.route.run(*arguments))
    if account.is_paid and account is not _whole(arguments, subscripts):
        from autosparse.contraction import execution

        copies, dtype = execution.copies_of(operands), direct.dtype
        account.compile_in_background(lambda: execution.compile_arguments(copies, subscripts, dtype, is_dense=is_dense))
    return result


def account_of(arguments: Sequence[Any], subscripts: Subscripts) -> paid.ExpressionCalls:
    """Return the counts of calls of this expression or, once these pay for a compilation, of it with these patterns."""
    whole = _whole(arguments, subscripts)
    if not whole.is_paid:
        return whole
    from autosparse.contraction.routes.patterns import of_arguments

    return paid.account_of((_name(arguments, subscripts), of_arguments(arguments)))


def _whole(arguments: Sequence[Any], subscripts: Subscripts) -> paid.ExpressionCalls:
    return paid.account_of(_name(arguments, subscripts))


def _name(arguments: Sequence[Any], subscripts: Subscripts) -> tuple[object, ...]:
    return (str(subscripts), *((one.shape, one.dtype.str) for one in arguments))

"""Tests of the scope of the override: threads, nested blocks, decorated functions, the whole process."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.processes import run_with_torch
from tests.torch.samples import assert_close, compressed, counted, dense, numbers, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch.dispatcher import extension, fallback, registration, scope  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*[Oo]verrid")


@pytest.fixture(autouse=True, params=["module", "Python"])
def switched_off(request, monkeypatch):
    """Restore PyTorch's own kernels before and after every test, with and without the C++ module."""
    asp.uninstall()
    if request.param == "Python":
        monkeypatch.setattr(extension, "library", None)
    elif extension.library is None:
        pytest.skip("the C++ module for PyTorch is not built")
    yield
    asp.disable()
    while asp.installed():
        asp.uninstall()
    asp.uninstall()
    if request.param == "Python":
        fallback.aten_fallbacks.clear()  # the C++ module looks kernels up in another way
    assert not scope.is_on_anywhere()


def in_thread(function):
    """Return the result of `function` in another thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def n_ours():
    """Return how many of our kernels run in one product."""
    D, B = dense(5, 5), numbers(5, 2)
    with counted() as calls:
        assert_close(compressed(D) @ B, D @ B)
    return len(calls)


def sparse_gradient():
    """Return whether the gradient of a CSR tensor in ``A @ B`` is a CSR tensor."""
    A = compressed(dense(5, 5)).requires_grad_()
    (A @ numbers(5, 2)).sum().backward()
    return A.grad.layout is torch.sparse_csr


def test_nothing_is_registered_before_the_first_block_nor_after_the_last_uninstall():
    assert not registration.is_registered(sparse_gradients=False)
    with asp.override():
        asp.uninstall()  # the block still needs the kernels
        assert registration.is_registered(sparse_gradients=False)
        assert n_ours() == 1
    assert registration.is_registered(sparse_gradients=False)
    assert n_ours() == 0
    asp.uninstall()
    assert not registration.is_registered(sparse_gradients=False)
    with asp.override():
        assert n_ours() == 1


def test_an_object_is_entered_again_and_within_itself():
    block = asp.override()
    for _ in range(2):
        with block, block:
            assert n_ours() == 1
            with block:
                assert n_ours() == 1
            assert n_ours() == 1
        assert n_ours() == 0
    assert not asp.installed()


def test_an_override_block_affects_only_its_thread():
    with asp.override(sparse_gradients=True):
        assert not in_thread(asp.installed)
        assert in_thread(n_ours) == 0
        assert not in_thread(sparse_gradient)
        assert sparse_gradient()

    def inside():
        with asp.override():
            return asp.installed(), sparse_gradient()

    assert in_thread(inside) == (True, False)
    assert not asp.installed()


def test_blocks_that_overlap_end_each_for_itself():
    a, b = asp.override(), asp.override(sparse_gradients=True)
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    assert sparse_gradient()
    assert n_ours() == 1
    b.__exit__(None, None, None)
    assert not asp.installed()


def test_enable_and_install_hold_for_every_thread():
    asp.enable()
    asp.enable()
    assert in_thread(n_ours) == 1
    asp.install(sparse_gradients=True)
    assert in_thread(sparse_gradient)
    asp.disable()
    assert in_thread(n_ours) == 1
    asp.uninstall()
    assert in_thread(n_ours) == 0
    assert not asp.installed()
    asp.enable(sparse_gradients=True)
    asp.uninstall()
    assert in_thread(sparse_gradient)
    asp.disable()
    assert n_ours() == 0


class Nested(torch.autograd.Function):
    """Backward pass that runs another one, `depth` times; from some depth on PyTorch uses threads of its own."""

    @staticmethod
    def forward(ctx, X, depth, look):
        ctx.depth, ctx.look = depth, look
        return X.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.depth == 0:
            ctx.look()
        else:
            with torch.enable_grad():
                Nested.apply(torch.ones(1, requires_grad=True), ctx.depth - 1, ctx.look).sum().backward()
        return grad, None, None


def test_threads_of_autograd_inherit_the_block():
    seen = []

    def look():
        inside = threading.get_ident(), asp.installed(), scope.has_sparse_gradients(), n_ours()
        with asp.override():
            nested = asp.installed()
        seen.append((*inside, nested, asp.installed()))

    def run():
        Nested.apply(torch.ones(1, requires_grad=True), 70, look).sum().backward()

    with asp.override(sparse_gradients=True):
        run()
    with asp.override():
        run()
    run()
    threads, *found = zip(*seen, strict=True)
    assert threading.get_ident() not in threads
    assert found == [(True, True, False), (True, False, False), (1, 1, 0), (True, True, True), (True, True, False)]


def test_hooks_of_a_backward_pass_see_the_block():
    seen = []
    A, X = compressed(dense(5, 5)), numbers(5, 2).requires_grad_()
    with asp.override():
        Y = A @ X
        Y.register_hook(lambda grad: seen.append(asp.installed()))
        with counted() as calls:
            Y.sum().backward()
    assert seen == [True]
    assert len(calls) == 1


def test_functions_and_generators_are_decorated():
    @asp.override()
    def plain(a, *, b):
        """Doc."""
        return a, b, asp.installed()

    @asp.override
    def steps():
        received = []
        try:
            received.append((yield asp.installed()))
            received.append((yield asp.installed()))
        except KeyError:
            yield asp.installed()
        finally:
            received.append(asp.installed())
        return received

    assert plain(1, b=2) == (1, 2, True)
    assert plain.__name__ == "plain"
    assert plain.__doc__ == "Doc."
    running = steps()
    assert next(running)
    assert not asp.installed()
    assert running.send("x")
    with pytest.raises(StopIteration) as end:
        running.send("y")
    assert end.value.value == ["x", "y", True]
    running = steps()
    next(running)
    assert running.throw(KeyError())
    running.close()
    assert not asp.installed()
    with pytest.raises(ZeroDivisionError):
        asp.override()(lambda: 1 // 0)()
    assert not asp.installed()


def test_coroutines_and_asynchronous_generators_are_decorated():
    closed = []

    @asp.override()
    async def step():
        before = asp.installed()
        await asyncio.sleep(0)
        return before, asp.installed()

    @asp.override()
    async def values():
        try:
            for _ in range(3):
                await asyncio.sleep(0)
                yield asp.installed()
        except KeyError:
            yield "thrown"
        finally:
            closed.append(asp.installed())

    async def other():
        seen = []
        for _ in range(20):
            seen.append(asp.installed())
            await asyncio.sleep(0)
        return seen

    async def main():
        first, second, beside = await asyncio.gather(step(), step(), other())
        assert first == second == (True, True)
        assert not any(beside)
        seen = []
        async for value in values():
            seen += [value, asp.installed()]
        assert seen == [True, False] * 3
        running = values()
        assert await anext(running)
        assert await running.athrow(KeyError()) == "thrown"
        await running.aclose()
        running = values()
        assert await running.asend(None)
        await running.aclose()
        return asp.installed()

    assert not asyncio.run(main())
    assert closed == [True] * 3


def test_stock_products_outside_a_block_are_pytorchs():
    D, B, x = dense(6, 5), numbers(5, 3), numbers(5)
    A, base = compressed(D), numbers(6, 3)
    calls = (
        lambda: A @ B, lambda: A @ x, lambda: torch.addmm(base, A, B, beta=0.5, alpha=2), lambda: torch.mv(A, x),
        lambda: torch.addmm(base[0], A, B), lambda: A.to_sparse_csc() @ B, lambda: A.to_sparse_coo() @ B,
        lambda: A @ B.t().contiguous().t(), lambda: A @ B.conj(), lambda: A @ torch._neg_view(B),
        lambda: torch.sparse.sampled_addmm(A, numbers(6, 2), numbers(2, 5)), lambda: torch.sparse.mm(A, B, "amax"),
        lambda: A @ B[1:], lambda: A @ x.double(), lambda: torch.addmm(base[1:], A, B), lambda: A @ torch.ones(5, 2, 2),
        lambda: torch.mm(A, B, out=torch.empty(6, 3)), lambda: torch.addmv(numbers(6), A, x, beta=2),
    )  # fmt: skip
    outcomes = []
    for _ in range(2):
        for call in calls:
            try:
                result = call()
                outcomes.append(result.to_dense() if result.layout is not torch.strided else result)
            except (RuntimeError, ValueError) as error:
                outcomes.append(str(error).split("\n", 1)[0])
        with asp.override(), counted() as counts:
            pass
    for want, got in zip(outcomes[: len(calls)], outcomes[len(calls) :], strict=True):
        if isinstance(want, str):
            assert got == want
        else:
            assert torch.equal(got, want)
    assert counts == []


def test_kernels_of_pytorch_are_asked_for_once(monkeypatch):
    """Check that `get_kernel`, which leaks 1 kB inside PyTorch, is not called again."""
    with asp.override():
        pass
    kept = dict(fallback.aten_fallbacks)

    def asked(*given):
        raise AssertionError(given)

    monkeypatch.setattr(torch.library, "get_kernel", asked)
    for _ in range(3):
        with asp.override():
            assert n_ours() == 1
        asp.uninstall()
    assert fallback.aten_fallbacks == kept


def test_threads_multiply_while_another_one_enters_and_leaves():
    """Run in another process, which a crash would end."""
    code = """
import sys, threading, torch, autosparse as asp, autosparse.torch
from autosparse.torch.dispatcher import extension
if sys.argv[1] == "Python": extension.library = None
torch.set_num_threads(1)
sys.setswitchinterval(1e-5)
T, X, wrong, done = torch.eye(8).to_sparse_csr(), torch.randn(8, 2), [], threading.Event()
def stock():
    while not done.is_set():
        if not torch.equal(T @ X, X): wrong.append("stock")
def ours():
    for _ in range(2000):
        with asp.torch.override():
            if not torch.equal(T @ X, X): wrong.append("ours")
threads = [threading.Thread(target=stock) for _ in range(3)]
for thread in threads: thread.start()
ours()
done.set()
for thread in threads: thread.join()
sys.exit(len(wrong))
"""
    way = "module" if extension.library is not None else "Python"
    done = run_with_torch(code, way)
    assert done.returncode == 0, done.stderr[-2000:]


def test_another_library_of_kernels_before_and_over_ours():
    """Check that the last registration serves, and that the earlier one is back when it is removed."""
    asp.uninstall()
    A, B = compressed(dense(4, 4)), numbers(4, 4)
    bits = A.to(torch.int32), B.int()
    want = A.to_dense() @ B

    def theirs(keys, a, b):
        return torch.full((4, 4), 7.0)

    def register():
        library = torch.library.Library("aten", "IMPL")
        library.impl("mm", theirs, "SparseCsrCPU", with_keyset=True)
        return library

    library = register()
    asp.install()
    assert_close(A @ B, want)
    assert_close(bits[0] @ bits[1], theirs(None, *bits))  # not ours: passed to the kernels registered before
    asp.uninstall()
    assert_close(A @ B, theirs(None, A, B))
    library._destroy()
    asp.install()
    assert_close(A @ B, want)
    with pytest.raises(RuntimeError, match="not implemented"):
        bits[0] @ bits[1]
    library = register()
    assert_close(A @ B, theirs(None, A, B))
    library._destroy()
    assert_close(A @ B, want)


def test_a_child_of_a_fork_has_the_blocks_of_its_own_thread():
    """Run in another process: the child must not count blocks of threads that it does not have."""
    code = """
import os, sys, threading, torch, autosparse as asp, autosparse.torch
from autosparse.torch.dispatcher import extension, scope
if sys.argv[1] == "Python": extension.library = None
entered, done = threading.Event(), threading.Event()
def other():
    with asp.torch.override():
        entered.set(), done.wait()
thread = threading.Thread(target=other)
thread.start(), entered.wait()
def forked():
    child = os.fork()
    if not child: os._exit(2 * asp.torch.installed() + scope.is_on_anywhere())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
found = [forked()]
with asp.torch.override(): found.append(forked())
done.set(), thread.join()
sys.exit(found != [0, 3])
"""
    way = "module" if extension.library is not None else "Python"
    done = run_with_torch(code, way)
    assert done.returncode == 0, done.stderr[-2000:]

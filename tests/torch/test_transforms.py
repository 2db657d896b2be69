"""Tests of products inside torch.func's transforms, autocast, graphs of torch.compile and torch.export, and modules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import autosparse as asp  # noqa: E402
from autosparse.errors import InputError  # noqa: E402

D = torch.tensor(
    [[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [4.0, 5.0, 6.0, 7.0]], dtype=torch.float64
)
A = asp.torch.csr(D.to_sparse_csr())
MASK = D != 0
COUNTS = MASK.sum(1, keepdim=True).clamp(min=1)
ROWS, COLUMNS = MASK.nonzero(as_tuple=True)


def random(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def filled(values: Any) -> Any:
    """Return the dense matrix of these values at the entries of A."""
    return torch.zeros_like(D).index_put((ROWS, COLUMNS), values)


def masked_softmax(scores: Any) -> Any:
    """Return the softmax over the entries of each row; its derivatives are finite in rows without entries."""
    powers = torch.where(MASK, scores.exp(), 0.0)
    return powers / powers.sum(1, keepdim=True).clamp(min=1e-30)


def dense_softmax(scores: Any) -> Any:
    return masked_softmax(filled(scores))[ROWS, COLUMNS]


def dense_extreme(values: Any, X: Any) -> Any:
    terms = torch.where(MASK.unsqueeze(2), filled(values).unsqueeze(2) * X.unsqueeze(0), -torch.inf)
    return torch.where(MASK.any(1, keepdim=True), terms.amax(1), 0.0)


def dense_attention(Q: Any) -> Any:
    return masked_softmax(Q @ Q.T * Q.shape[1] ** -0.5) @ Q


def dense_gat(q: Any) -> Any:
    return masked_softmax(torch.nn.functional.leaky_relu(q[:, :1] + q[:, 1], 0.2)) @ q


PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "A x": (lambda x: A @ x, lambda x: D @ x, random(4)),
    "A X": (lambda x: A @ x, lambda x: D @ x, random(4, 3)),
    "A.T X": (lambda x: A.T @ x, lambda x: D.T @ x, random(4, 3)),
    "X A": (lambda x: x @ A, lambda x: x @ D, random(3, 4)),
    "values": (lambda v: A.with_values(v) @ D, lambda v: filled(v) @ D, random(7)),
    "transposed values": (lambda v: A.with_values(v).T @ D[0], lambda v: filled(v).T @ D[0], random(7)),
    "mean": (lambda x: asp.torch.spmm(A, x, "mean"), lambda x: D @ x / COUNTS, random(4, 2)),
    "max": (lambda x: asp.torch.spmm(A, x, "max"), lambda x: dense_extreme(D[ROWS, COLUMNS], x), random(4, 2)),
    "sddmm": (lambda x: asp.torch.sddmm(A, x, x.T).values, lambda x: (D * (x @ x.T))[ROWS, COLUMNS], random(4, 3)),
    "edge_softmax": (lambda s: asp.torch.edge_softmax(A, s), dense_softmax, random(7)),
    "gat": (lambda q: asp.torch.gat(A, q[:, 0], q[:, 1], q), lambda q: dense_gat(q), random(4, 3)),
    "attention": (lambda q: asp.torch.attention(A, q, q, q), dense_attention, random(4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("transform", ["grad", "jacrev", "jacfwd", "vmap", "hessian", "batched gradients"])
def test_transforms_equal_those_of_dense_matrices(name: str, transform: str) -> None:
    ours, dense, x = PAIRS[name]
    found = []
    for of in (ours, dense):
        if transform in {"grad", "hessian"}:
            found.append(getattr(torch.func, transform)(lambda x, of=of: of(x).square().sum())(x))
        elif transform == "vmap":
            batch = torch.stack([x, 2 * x, x - 1])
            found.append(torch.vmap(of)(batch))
            found.append(torch.vmap(of, in_dims=-1, out_dims=-1)(batch.movedim(0, -1)).movedim(-1, 0))
        elif transform == "batched gradients":
            found.append(torch.autograd.functional.jacobian(of, x, vectorize=True))
        else:
            found.append(getattr(torch.func, transform)(of)(x))
    for one, other in zip(found[: len(found) // 2], found[len(found) // 2 :], strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["mean", "max", "gat", "attention"])
def test_what_a_transform_computed_first_serves_later_calls(name: str) -> None:
    """The matrix is a new one, so that the transform inside another is its first call."""
    _, dense, x = PAIRS[name]
    fresh = asp.torch.csr(D.to_sparse_csr())
    of = {
        "mean": lambda x: asp.torch.spmm(fresh, x, "mean"),
        "max": lambda x: asp.torch.spmm(fresh, x, "max"),
        "gat": lambda q: asp.torch.gat(fresh, q[:, 0], q[:, 1], q),
        "attention": lambda q: asp.torch.attention(fresh, q, q, q),
    }[name]
    torch.func.hessian(lambda x: of(x).square().sum())(x)
    with torch.inference_mode():
        of(x)
    torch.testing.assert_close(torch.func.jacfwd(of)(x), torch.func.jacfwd(dense)(x))
    torch.testing.assert_close(torch.autograd.functional.jacobian(of, x), torch.func.jacrev(dense)(x))


@pytest.mark.parametrize("name", ["A x", "A X", "A.T X"])
def test_recorded_products_are_computed_again(name: str) -> None:
    ours, dense, X = PAIRS[name]
    _, tangent = torch.func.linearize(ours, X)
    for direction in (X + 1, 2 * X):
        assert torch.allclose(tangent(direction), dense(direction))
    graph = make_fx(ours)(X)
    assert torch.allclose(graph(3 * X), dense(3 * X))


def test_recorded_samples_are_computed_again() -> None:
    X, Y = random(4, 3), random(3, 4)
    graph = make_fx(lambda X: asp.torch.sddmm(A, X, Y).values)(X)
    assert torch.allclose(graph(2 * X), (2 * X @ Y * D)[ROWS, COLUMNS])


def test_an_operand_may_be_written_after_a_product_with_constant_values() -> None:
    X = random(4, 3).requires_grad_()
    hidden = X * 1
    product = A @ hidden
    hidden.add_(1)  # the gradient of X does not depend on the operand
    product.sum().backward()
    assert torch.allclose(X.grad, D.sum(0).unsqueeze(1).expand(4, 3))


def test_a_batch_of_values_and_operands() -> None:
    values, X = random(5, 7), random(5, 4, 3)
    found = torch.vmap(lambda v, x: A.with_values(v) @ x)(values, X)
    torch.testing.assert_close(found, torch.stack([filled(v) @ x for v, x in zip(values, X, strict=True)]))


def test_a_batch_of_complex_values() -> None:
    values, X = torch.complex(random(5, 7), random(5, 7)), torch.complex(random(5, 4, 3), random(5, 4, 3))
    found = torch.vmap(lambda v, x: A.with_values(v) @ x)(values, X)
    for v, x, one in zip(values, X, found, strict=True):
        torch.testing.assert_close(one, A.with_values(v) @ x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_mixed_operands(dtype: Any) -> None:
    layer, mine = torch.nn.Linear(3, 2), A.to(torch.float32)
    X = random(4, 3).float()
    with torch.autocast("cpu", dtype=dtype):
        H = layer(X)
        Y, V = asp.torch.spmm(mine, H), asp.torch.attention(mine, H, H, H.float())
        Z, W = asp.torch.sddmm(mine, H, H.float().T), asp.torch.gat(mine, H[:, 0].float(), H[:, 0], H)
    assert Y.dtype is Z.dtype is V.dtype is W.dtype is dtype
    torch.testing.assert_close(Y.float(), D.float() @ H.float(), atol=0.1, rtol=0.02)
    (Y.float().sum() + Z.values.float().sum() + V.float().sum() + W.float().sum()).backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is torch.float32


def test_mixed_operands_are_refused_without_autocast() -> None:
    with pytest.raises(asp.errors.DtypeError, match="float32"):
        asp.torch.spmm(A, random(4, 2).float())


class Layer(torch.nn.Module):
    """A product with a matrix that is an attribute or a buffer, after a dense layer."""

    def __init__(self, reduce: str = "sum", *, is_buffer: bool = False) -> None:
        super().__init__()
        self.reduce = reduce
        self.weight = torch.nn.Parameter(random(3, 2))
        if is_buffer:
            self.register_buffer("A", A.with_values(A.values.clone()))
        else:
            self.A = A

    def forward(self, X: Any) -> Any:
        return asp.torch.spmm(self.A, X @ self.weight, self.reduce).relu()


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_products_are_part_of_whole_graphs(reduce: str) -> None:
    layer, X = Layer(reduce), random(4, 3)
    wanted = layer(X)
    wanted.square().sum().backward()
    grad = layer.weight.grad.clone()
    layer.weight.grad = None
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), wanted)
    compiled(X).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, grad)
    exported = torch.export.export(layer, (X,)).module()
    torch.testing.assert_close(exported(X), wanted)


def test_values_in_a_graph_have_gradients() -> None:
    values = D[ROWS, COLUMNS].clone().requires_grad_()
    step = torch.compile(lambda v, x: A.with_values(v).T.matmul(x.sin()).sum(), fullgraph=True, backend="aot_eager")
    step(values, random(4, 2)).backward()
    wanted = values.detach().clone().requires_grad_()
    (filled(wanted).T @ random(4, 2).sin()).sum().backward()
    torch.testing.assert_close(values.grad, wanted.grad)


@pytest.mark.parametrize("make", [lambda: A, lambda: asp.torch.csr(D.to_sparse_csr().requires_grad_())])
def test_operators_leave_the_graph_and_are_right(make: Callable[[], Any]) -> None:
    """torch.compile passes ``B @ X`` to __torch_function__ as ``X @ B``; both operands are square here."""
    B, X = make(), random(4, 4)
    for of in (lambda x: B @ x.sin(), lambda x: x.sin() @ B, lambda x: B.T @ x, lambda x: asp.torch.spmm(B, x, "max")):
        torch.testing.assert_close(torch.compile(of, backend="aot_eager")(X), of(X))


def test_operators_pass_pytorchs_checks() -> None:
    rows, check = A.rows, torch.library.opcheck
    arrays = (rows.crow, rows.col)
    for X in (random(4), random(4, 3)):
        dense = X.clone().requires_grad_()
        values = A.values.clone().requires_grad_()
        check(torch.ops.autosparse.csr_product, (*arrays, values, dense, 4, 4, True))
    X, Y = random(4, 3).requires_grad_(), random(4, 3).requires_grad_()
    check(torch.ops.autosparse.csr_sampled_product, (*arrays, X, Y, 4, 4))


def test_a_matrix_is_a_buffer_of_a_module() -> None:
    layer = copy.deepcopy(Layer(is_buffer=True)).to(torch.float32)
    assert layer.A.dtype is torch.float32
    other = Layer(is_buffer=True).float()
    other.A.values.zero_()
    assert not other.A.values.any()
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other.A.values, layer.A.values)
    torch.testing.assert_close(other(random(4, 3).float()), layer(random(4, 3).float()))


def test_a_buffer_takes_no_values_of_other_entries() -> None:
    with pytest.raises(InputError, match="same entries"):
        A.detach().copy_(asp.torch.csr(torch.eye(4, dtype=torch.float64).to_sparse_csr()))

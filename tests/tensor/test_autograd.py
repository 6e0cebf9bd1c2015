"""The autograd front end: leaves, accumulation, freeing, hooks, grad modes, custom functions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import lazyt as lt
from lazyt.autograd import Function, backward, grad


def leaf(*values: float) -> lt.Tensor:
    return lt.tensor([float(v) for v in values], requires_grad=True)


def grads(tensor: lt.Tensor) -> Any:
    assert tensor.grad is not None
    return tensor.grad.tolist()


def test_grad_fn_names_and_links() -> None:
    x = leaf(1, 2)
    y = x * 2
    z = y.sum()
    assert type(z.grad_fn).__name__ == "SumBackward0"
    assert z.grad_fn is not None and y.grad_fn is not None
    assert z.grad_fn.next_functions[0][0] is y.grad_fn
    end: Any = y.grad_fn.next_functions[0][0]
    assert end.name() == "torch::autograd::AccumulateGrad" and end.variable is x
    assert x.grad_fn is None and x.is_leaf and not y.is_leaf
    y.relu_()
    assert type(y.grad_fn).__name__ == "ReluBackward0"


def test_accumulates_into_the_same_tensor() -> None:
    x = leaf(1, 2)
    (x * 3).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first
    assert grads(x) == [5, 7]
    x.grad = None
    (x * 5).sum().backward()
    assert grads(x) == [5, 5]


def test_graph_is_freed() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        (y * 2).backward()
    fresh = (x * x).sum()  # the same node, another history
    fresh.backward(retain_graph=True)
    fresh.backward()
    nothing_saved = (x + 1).sum()
    nothing_saved.backward()
    nothing_saved.backward()
    assert grads(x) == [8, 14]


def test_freed_history_is_let_go_once_computed() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward()
    assert y.item() == 5
    assert y.requires_grad and not y.node.inputs[0].inputs


def test_errors_in_pytorch_words() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        lt.ones(2).sum().backward()
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(lt.ones(3))
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        lt.tensor([1]).requires_grad_()
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf variables"):
        (x * 2).requires_grad = False
    with pytest.raises(RuntimeError, match="assign a gradient of size"):
        x.grad = lt.ones(3)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad((x * 2).sum(), leaf(1))


def test_grad_and_double_backward() -> None:
    x = leaf(2, 3)
    (first,) = grad((x**3).sum(), x, create_graph=True)
    assert first is not None and first.requires_grad
    assert first.tolist() == [12, 27]
    (second,) = grad(first.sum(), x)
    assert second is not None and not second.requires_grad
    assert second.tolist() == [12, 18]
    assert x.grad is None
    unused, used = grad((x * 2).sum(), [leaf(1), x], allow_unused=True)
    assert unused is None and used is not None and used.tolist() == [2, 2]


def test_gradient_penalty() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    (inner,) = grad((x * x * w).sum(), x, create_graph=True)
    assert inner is not None
    (inner * inner).sum().backward()  # d/dw (2xw)^2 = 8x^2 w
    assert grads(w) == [24, 128]


def test_gradients_of_intermediates() -> None:
    x = leaf(1, 2)
    y = x * 2
    (of_y,) = grad((y * y).sum(), y)
    assert of_y is not None and of_y.tolist() == [4, 8]
    t = x * 3
    t.retain_grad()
    assert t.retains_grad
    (t * t).sum().backward()
    assert t.grad is not None and t.grad.tolist() == [6, 12]
    assert grads(x) == [18, 36]


def test_inputs_limit_accumulation() -> None:
    a, b = leaf(1), leaf(2)
    backward((a * b).sum(), inputs=[a])
    assert grads(a) == [2] and b.grad is None


def test_hooks_see_and_change_gradients() -> None:
    x = leaf(1, 2)
    seen: list[Any] = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    y = x * 2
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward()
    assert seen == [[80, 160]]
    assert grads(x) == [80, 160]
    handle.remove()
    after: list[lt.Tensor] = []
    x.register_post_accumulate_grad_hook(after.append)
    (x * 1).sum().backward()
    assert seen == [[80, 160]] and after == [x]
    assert grads(x) == [81, 161]


def test_modes() -> None:
    x = leaf(1)
    with lt.no_grad():
        assert not (x * 2).requires_grad
        with lt.enable_grad():
            assert (x * 2).requires_grad
    with lt.set_grad_enabled(False):
        assert not lt.is_grad_enabled()
    with lt.inference_mode():
        assert lt.is_inference_mode_enabled() and not (x * 2).requires_grad
    assert lt.is_grad_enabled()

    @lt.no_grad()
    def predict(v: lt.Tensor) -> lt.Tensor:
        return v * 3

    assert not predict(x).requires_grad and (x * 3).requires_grad
    other: list[bool] = []
    with lt.no_grad():
        thread = threading.Thread(target=lambda: other.append(lt.is_grad_enabled()))
        thread.start()
        thread.join()
    assert other == [True]


def test_set_grad_enabled_acts_at_once() -> None:
    x = leaf(1)
    lt.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        lt.set_grad_enabled(True)
    assert (x * 2).requires_grad


def test_detached_leaf_shares_memory() -> None:
    """Truncated backpropagation: a detached state becomes a leaf of its own."""
    w = leaf(2)
    state = w * 3
    cut = state.detach().requires_grad_()
    (cut * w).sum().backward()
    assert grads(cut) == [2] and grads(w) == [6]
    with lt.no_grad():
        cut.add_(1)
    assert state.tolist() == [7]


def test_leaf_that_is_a_part_of_another_tensor() -> None:
    flat = lt.arange(6.0)
    part = flat[2:5].requires_grad_()
    assert part.is_leaf and not flat.requires_grad
    assert part.storage_offset() == 2
    (part * part).sum().backward()
    assert grads(part) == [4, 6, 8]
    with lt.no_grad():
        part.sub_(1)
    assert flat.tolist() == [0, 1, 1, 2, 3, 5]
    flat[3] = 10
    assert part.tolist() == [1, 10, 3]


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: lt.Tensor, scale: float) -> lt.Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor) -> tuple[lt.Tensor, None]:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x * ctx.scale, None


class SumAndDifference(Function):
    @staticmethod
    def forward(ctx: Any, a: lt.Tensor, b: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        return a + b, a - b

    @staticmethod
    def backward(ctx: Any, s: lt.Tensor, d: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        return s + d, s - d


def test_custom_functions() -> None:
    x = leaf(1, 2)
    y = Cube.apply(x * 1, 2.0)
    assert type(y.grad_fn).__name__ == "CubeBackward"
    y.sum().backward()
    assert grads(x) == [6, 24]
    (first,) = grad(Cube.apply(x, 1.0).sum(), x, create_graph=True)
    assert first is not None
    (second,) = grad(first.sum(), x)
    assert second is not None and second.tolist() == [6, 12]
    a, b = leaf(5), leaf(7)
    s, d = SumAndDifference.apply(a, b)
    (s * 2 + Cube.apply(d, 1.0)).sum().backward()
    assert grads(a) == [14] and grads(b) == [-10]
    only, _ = SumAndDifference.apply(a, b)
    a.grad = b.grad = None
    only.sum().backward()
    assert grads(a) == [1] and grads(b) == [1]


class Named(Function):
    """Notes where backward is."""

    called: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor, name: str) -> lt.Tensor:
        ctx.name = name
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: lt.Tensor) -> Any:
        Named.called.append(ctx.name)
        return gradient, None


def test_the_latest_of_the_users_functions_is_called_first() -> None:
    # As PyTorch does, on whichever side of a product they stand.
    weights = [leaf(1, 2), leaf(3, 4), leaf(5, 6)]
    for exchanged in (False, True):
        x = leaf(1, 1)
        for number, weight in enumerate(weights):
            w = Named.apply(weight, f"of {number}")
            x = w * x if exchanged else x * w
        Named.called.clear()
        x.sum().backward()
        assert Named.called == ["of 2", "of 1", "of 0"]


def test_views_made_without_grad_stay_without() -> None:
    x = leaf(1, 2)
    y = x * 2
    with lt.no_grad():
        frozen = y[:1]
    assert not frozen.requires_grad and frozen.is_leaf
    assert y[:1].requires_grad


def test_requiring_grad_later_leaves_aliases_alone() -> None:
    x = lt.ones(4)
    alias = x.view(2, 2)
    x.requires_grad_()
    assert x.requires_grad and not alias.requires_grad
    alias.add_(1)
    assert x.tolist() == [2, 2, 2, 2]

"""Anomaly mode, grad_fns as objects, saved tensors, transforms on several threads."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import Any

import pytest

import lazyt
from lazyt.handle.pytree import flatten


def test_anomaly_mode_names_function_and_line() -> None:
    x = lazyt.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with lazyt.autograd.detect_anomaly():
            y = x.sqrt()
            loss = (y * 0).sum()
            with pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan values"):
                loss.backward()
    texts = [str(item.message) for item in caught]
    assert any(f"{__file__}:{line_of('y = x.sqrt()')}" in text for text in texts), texts
    (x.sqrt() * 0).sum().backward()  # afterwards NaN is a value again
    assert x.grad is not None and x.grad.isnan().tolist() == [True, False]


def line_of(text: str) -> int:
    """The number of the first line of this file that contains ``text``."""
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_anomaly_mode_can_leave_nan_alone() -> None:
    x = lazyt.tensor([0.0], requires_grad=True)
    with lazyt.autograd.set_detect_anomaly(True, check_nan=False):
        (x.sqrt() * 0).sum().backward()
    assert x.grad is not None and bool(x.grad.isnan().all())


def test_a_function_that_saves_its_result_does_not_live_for_ever() -> None:
    class Exp(lazyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * ctx.saved_tensors[0]

    x = lazyt.ones(3, requires_grad=True)
    y = Exp.apply(x)
    slope: Any = lazyt.autograd.grad(y.sum(), x, create_graph=True)[0]
    second: Any = lazyt.autograd.grad(slope.sum(), x)[0]
    assert lazyt.allclose(second, x.exp())
    watch = weakref.ref(y.grad_fn)
    del y, slope, second
    gc.collect()
    assert watch() is None


def test_hooks_on_what_is_saved_see_custom_functions() -> None:
    seen: list[str] = []

    class Square(lazyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return 2 * grads[0] * ctx.saved_tensors[0]

    def pack(tensor: Any) -> Any:
        seen.append("pack")
        return tensor * 10

    def unpack(kept: Any) -> Any:
        seen.append("unpack")
        return kept

    x = lazyt.tensor([1.0, 2.0], requires_grad=True)
    with lazyt.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = Square.apply(x)
    assert seen == ["pack"]
    y.sum().backward()
    assert seen == ["pack", "unpack"] and x.grad is not None and x.grad.tolist() == [20, 40]


def test_prehooks_change_what_arrives() -> None:
    x = lazyt.tensor([1.0, 2.0], requires_grad=True)
    y: Any = x * 3
    handle = y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    first: Any = lazyt.autograd.grad(y.sum(), x, retain_graph=True)[0]
    handle.remove()
    second: Any = lazyt.autograd.grad(y.sum(), x)[0]
    assert (first.tolist(), second.tolist()) == ([6, 6], [3, 3])


def test_transforms_on_several_threads() -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        x = lazyt.arange(4.0) + number
        for _ in range(5):
            found[number] = lazyt.vmap(lazyt.func.grad(lambda v: v.sin() * v))(x)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in found.items():
        x = lazyt.arange(4.0) + number
        assert lazyt.allclose(result, x.cos() * x + x.sin(), atol=1e-6)


def test_an_error_inside_leaves_no_level_behind() -> None:
    def bad(v: Any) -> Any:
        raise KeyError("here")

    for transform in (lazyt.vmap, lazyt.func.grad, lazyt.func.jacfwd):
        with pytest.raises(KeyError, match="here"):
            transform(bad)(lazyt.ones(2))
    x = lazyt.ones(2).requires_grad_()  # refused inside of a transform
    x.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1]


def test_names_of_forms() -> None:
    x = lazyt.ones(2, 3, requires_grad=True)
    names = [
        (x.sum(), "SumBackward0"), (x.sum(0), "SumBackward1"), (x.mean(-1), "MeanBackward1"),
        (x.prod(0), "ProdBackward1"), (x.clamp(0, 1), "ClampBackward1"),
        (x.clamp_min(0), "ClampMinBackward0"), (x.unbind()[0], "UnbindBackward0"),
        (x.split(1)[0], "SplitBackward0"), (x.sgn(), "SgnBackward0"), (x.trace(), "TraceBackward0"),
        (x.nansum(), "NansumBackward0"),
    ]  # fmt: skip
    found: Any = [(t.grad_fn, name) for t, name in names]
    assert [(fn.name(), name) for fn, name in found if fn.name() != name] == []


def test_trees_of_one_shape_are_one_key() -> None:
    first, second, other = (
        flatten(value)[1] for value in ({"a": [1, 2], "b": ()}, {"a": [3, 4], "b": ()}, {"a": [1]})
    )
    assert len({first, second, other}) == 2


def test_a_backward_keeps_nothing_of_its_tape() -> None:
    x = lazyt.ones(3, requires_grad=True)
    y = (x * 2).sum()
    y.backward()
    fn = weakref.ref(y.grad_fn)
    memory = weakref.ref(x._storage)
    del x, y
    gc.collect()
    assert fn() is None and memory() is None

"""Twenty ways in which a captured function could go wrong: each is right, or refused with a reason.

Every function is called, captured and plain, often enough that it would be replayed, through its
fast path too, before and after what the trap is about.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.tracing.frames import Frames
from tests.tensor.test_jit import numbers

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]
FACTOR = 2.0


def same(a: Any, b: Any) -> None:
    """Two results are equal in type, dtype, shape and bits, tensors within others too."""
    assert type(a) is type(b)
    if isinstance(a, lt.Tensor):
        assert a.dtype is b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
        assert a.double().detach().numpy().tobytes() == b.double().detach().numpy().tobytes()
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        assert a == b


def agree(
    captured: Any, plain: Callable[..., Any], *makers: Callable[[], Any], **named: Any
) -> None:
    """Both do the same on arguments that ``makers`` make, four times in a row."""
    for _ in range(4):
        args = [make() for make in makers]
        same(captured(*args, **named), plain(*args, **named))


def vector() -> Any:
    """A vector of four."""
    return numbers(4)


def test_1_a_changed_constant_of_a_closure() -> None:
    shift = 1.0

    def function(x: Any) -> Any:
        return x + shift

    captured = lt.jit(function)
    for value in (1.0, 2.0, 1.0, -0.0, 0.0):
        shift = value
        agree(captured, function, vector)
    assert "shift is 2.0, was 1.0" in captured.why()[1]


def test_2_a_side_effect_of_python() -> None:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(len(calls))
        return x * 2

    captured = lt.jit(function)
    for _ in range(6):
        captured(vector())
    assert calls == list(range(6))
    assert "it changes calls at every call" in captured.why()[-1]


def test_3_another_shape() -> None:
    captured = lt.jit(function := lambda x: x.flatten() * x.shape[0])
    for shape in ((2, 3), (3, 2), (6,), (2, 3), (0, 3)):
        agree(captured, function, lambda shape=shape: numbers(*shape))  # type: ignore[misc]
    assert captured.why().count("captured") == 4


def test_4_another_dtype() -> None:
    captured = lt.jit(function := lambda x: x / 2 + (1 if x.dtype is lt.float64 else 0))
    for dtype in (lt.float32, lt.float64, lt.int32, lt.bool, lt.float32):
        agree(captured, function, lambda dtype=dtype: lt.ones(3, dtype=dtype))  # type: ignore[misc]
    assert captured.why().count("captured") == 4


def test_5_another_device() -> None:
    captured = lt.jit(function := lambda x, device: x.to(device) + 1)
    agree(captured, function, vector, lambda: "cpu")
    for _ in range(3):
        with pytest.raises(RuntimeError):
            captured(vector(), "cuda")
    agree(captured, function, vector, lambda: lt.device("cpu"))


def test_6_a_result_that_is_an_argument_or_a_view_of_it() -> None:
    captured = lt.jit(lambda x: (x, x.T, x + 1))
    for _ in range(5):
        x = numbers(2, 3)
        own, view, new = captured(x)
        x.zero_()
        assert own is x and not view.any() and new.any()


def test_7_writes_to_an_argument() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        x.mul_(2)
        return x[0] + y

    captured = lt.jit(function)
    for _ in range(5):
        a = vector()
        b, part = a.clone(), a[1:]
        same(captured(a), function(b))
        same(a, b)
        assert a._version == b._version
        same(part, b[1:])
    big = numbers(3, 4)
    other = big.clone()
    for n in range(5):
        captured(big[n % 3]), function(other[n % 3])
        same(big, other)


def test_8_random_numbers() -> None:
    def function(x: Any) -> Any:
        return F.dropout(x, 0.5) + lt.randn(4) + lt.randint(0, 9, (4,))

    captured, x = lt.jit(function), vector()
    lt.manual_seed(3)
    want = [function(x) for _ in range(6)]
    lt.manual_seed(3)
    got = [captured(x) for _ in range(3)]
    state = lt.get_rng_state()
    got += [captured(x) for _ in range(3)]
    for a, b in zip(got, want, strict=True):
        same(a, b)
    lt.set_rng_state(state)
    same(captured(x), want[3])
    assert captured.why() == ["captured"]


def test_9_a_branch_on_values() -> None:
    def function(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1

    def choice(x: Any) -> Any:
        return lt.where(x.sum() > 0, x * 2, x - 1)

    captured = lt.jit(function)
    for sign in (1, -1, 1, -1, -1):
        same(captured(lt.ones(2) * sign), function(lt.ones(2) * sign))
    assert captured.why().count("captured") == 2  # one for each outcome
    chosen = lt.jit(choice)
    for sign in (1, -1, 1, -1, -1):
        same(chosen(lt.ones(2) * sign), choice(lt.ones(2) * sign))
    assert chosen.why() == ["captured"]


def test_10_an_exception_inside() -> None:
    state = lt.zeros(2)

    def function(x: Any, fail: bool) -> Any:
        state.add_(1)
        if fail:
            raise KeyError("inside")
        return x + state

    captured = lt.jit(function)
    for n in range(10):
        if n % 3 == 2:
            with pytest.raises(KeyError, match="inside"):
                captured(lt.ones(2), True)
        else:
            assert captured(lt.ones(2), False).tolist() == [n + 2.0] * 2
    assert state.tolist() == [10, 10] and "captured" in captured.why()


def test_11_recursion() -> None:
    @lt.jit
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    for n in (3, 3, 3, 3, 5, 5, 5, 5, 1):
        assert power(lt.full((2,), 2.0), n).tolist() == [2.0**n] * 2


def test_12_captures_inside_of_captures() -> None:
    scale = lt.full((1,), 3.0).realize()
    inner = lt.jit(lambda x: x * scale)
    outer = lt.jit(lambda x: inner(x) + inner(x + 1))
    for n in range(6):
        assert outer(lt.full((2,), float(n))).tolist() == [6 * n + 3.0] * 2
        assert inner(lt.ones(2)).tolist() == [3, 3]
        if n == 3:
            scale.fill_(3.0)
    assert outer.why() == inner.why() == ["captured"]


def test_13_defaults_of_arguments() -> None:
    weight, start = numbers(4), [0.0]

    def function(x: Any, factor: float = 2.0, *, more: Any = weight, kept: Any = start) -> Any:
        return x * factor + more + sum(kept)

    captured = lt.jit(function)
    agree(captured, function, vector)
    weight.add_(1)
    agree(captured, function, vector)
    function.__defaults__ = (5.0,)
    agree(captured, function, vector)
    start.append(4.0)
    agree(captured, function, vector)
    agree(captured, function, vector, lambda: 3.0)


def test_14_the_order_of_keywords() -> None:
    def function(**named: Any) -> Any:
        first, second = named.values()
        return first - 2 * second

    captured, a, b = lt.jit(function), vector(), vector()
    for _ in range(4):
        same(captured(x=a, y=b), function(x=a, y=b))
        same(captured(y=b, x=a), function(y=b, x=a))
    assert captured.why().count("captured") == 2


def test_15_a_global_bound_anew() -> None:
    global FACTOR

    def function(x: Any) -> Any:
        return helper(x) * FACTOR

    space = globals()
    captured = lt.jit(function)
    for factor, help_ in ((2.0, lt.neg), (3.0, lt.neg), (3.0, lambda x: x + 1), (2.0, lt.neg)):
        FACTOR, space["helper"] = factor, help_
        agree(captured, function, vector)
    del space["helper"]
    with pytest.raises(NameError, match="helper"):
        captured(vector())
    FACTOR = 2.0


def helper(x: Any) -> Any:
    """Replaced in a test."""
    return x


def test_16_lists_that_change() -> None:
    layers: list[Any] = [lt.relu, lt.neg]
    weights = [numbers(4), numbers(4)]

    def function(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x + sum(weights)

    captured = lt.jit(function)
    agree(captured, function, vector)
    layers[1] = lt.abs
    agree(captured, function, vector)
    layers.append(lambda x: x * 3)
    agree(captured, function, vector)
    weights[0] = numbers(4)
    agree(captured, function, vector)
    weights.pop()
    agree(captured, function, vector)
    weights.append(weights[0])
    agree(captured, function, vector)


def test_17_results_that_are_no_tensors() -> None:
    def function(x: Any) -> Any:
        return {"sum": x.sum(), "shape": x.shape, "text": "done", "list": [x.dtype, None, 3]}

    captured = lt.jit(function)
    for _ in range(5):
        x = vector()
        got, want = captured(x), function(x)
        assert list(got) == list(want) and got["list"] == want["list"]
        assert got["list"] is not want["list"] and got["shape"] == want["shape"]
        got["list"].append("mine")
    made = lt.jit(lambda x: lambda: x)
    for _ in range(4):
        assert made(x)() is x
    assert made.why() == ["captured"]
    refused = lt.jit(lambda x: [x, threading.Lock()])
    for _ in range(4):
        assert refused(x)[0] is x
    assert "neither tensor nor number nor text" in refused.why()[0]


def test_18_generators() -> None:
    def produce(x: Any) -> Iterator[Any]:
        for n in range(3):
            yield x * n

    captured = lt.jit(lambda x: sum(produce(x)))
    agree(captured, lambda x: sum(produce(x)), vector)
    assert captured.why() == ["captured"]
    whole = lt.jit(produce)
    for _ in range(4):
        same(list(whole(lt.ones(2))), list(produce(lt.ones(2))))
    pending = iter([lt.ones(2) * n for n in range(9)])
    stream = lt.jit(lambda: next(pending))
    assert [stream().tolist()[0] for _ in range(9)] == list(range(9))
    assert "takes elements of pending" in stream.why()[0]


def test_19_threads() -> None:
    weight = numbers(8, 8)
    captured = lt.jit(lambda x, n: (x @ weight).relu() * n)
    failures: list[Any] = []

    def work(seed: int) -> None:
        held = []
        for n in range(12):
            x = lt.full((3, 8), float(seed + n))
            held.append((captured(x, seed + n / 2), (x @ weight).relu() * (seed + n / 2)))
        failures.extend(seed for a, b in held if a.tolist() != b.tolist())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_20_another_gradient_mode() -> None:
    layer = nn.Linear(4, 2)
    captured = lt.jit(function := lambda x: layer(x).sum())
    agree(captured, function, vector)
    with lt.no_grad():
        agree(captured, function, vector)
    layer.requires_grad_(False)
    agree(captured, function, vector)
    layer.requires_grad_(True)
    with lt.inference_mode():
        assert captured(vector()).is_inference() and not captured(vector()).requires_grad
    agree(captured, function, vector)
    with lt.autocast("cpu", dtype=lt.bfloat16):
        agree(captured, function, vector)
    agree(captured, function, vector)


def test_what_an_import_runs_is_no_part_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that the first call imports may read the clock, and leaves nothing to compare."""
    lines = ["import time", "START = time.time()", "def maker(k):", "    return lambda x: x * k"]
    lines += ["double = maker(2.0)", "others = [maker(float(k)) for k in range(50)]"]
    (tmp_path / "imported_in_a_call.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))

    def twice(x: Any) -> Any:
        return importlib.import_module("imported_in_a_call").double(x)

    with Frames() as frames:
        twice(lt.ones(2))
    names = {code.co_qualname for code in frames.codes}
    assert "maker.<locals>.<lambda>" in names
    assert not {"<module>", "maker"} & names
    assert frames.trouble is None

"""What ``why()`` says: which argument, which function, which line; and what ``compile`` takes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt import nn
from tests.tensor.test_jit import numbers

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]


def again(captured: Any, *calls: Callable[[], Any]) -> list[str]:
    """Makes every call three times; what was said of the captures after the first."""
    for call in calls:
        for _ in range(3):
            call()
    found = captured.why()
    assert found[::2] == ["captured"] * len(calls), found
    return [text.removeprefix("captured again: ") for text in found[1::2]]


def place(function: Any, line: int = 0) -> str:
    """The file and the line of a function, or of a line within it."""
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno + line}"


def test_functions_by_file_and_line() -> None:
    first = lambda x: x + 1  # noqa: E731
    second = lambda x: x + 2  # noqa: E731

    def third(x: Any) -> Any:
        return x * 3

    function: Any = first
    captured = lt.jit(lambda x: function(x))

    def use(value: Any) -> Callable[[], Any]:
        def call() -> None:
            nonlocal function
            function = value
            assert captured(lt.ones(2)).tolist() == value(lt.ones(2)).tolist()

        return call

    partial, layer = functools.partial(lt.add, other=1), nn.ReLU()
    told = again(captured, *map(use, (first, second, third, lt.relu, partial, layer, nn.ReLU())))
    named = "function test_functions_by_file_and_line.<locals>.third"
    lazyts = [f"function {f.__module__}.{f.__qualname__}" for f in (lt.relu, lt.add)]
    assert told[:3] == [
        f"function is a lambda ({place(second)}), was a lambda ({place(first)})",
        f"function is {named} ({place(third)}), was a lambda ({place(second)})",
        f"function is {lazyts[0]}, was {named} ({place(third)})",
    ]
    assert told[3].startswith("function is a partial of ") and lazyts[0] in told[3]
    assert told[4].startswith("function is a ReLU, was a partial of ")
    assert told[5] == (
        "function is another object than before, again a ReLU; objects are compared by identity"
    )
    assert not any("0x" in text for text in told)


def test_tensors_that_places_hold() -> None:
    held: dict[str, Any] = {}
    captured = lt.jit(lambda: held["w"] * 2)

    def use(value: Any) -> Callable[[], Any]:
        def call() -> None:
            held["w"] = value
            captured()

        return call

    values = [
        numbers(3), numbers(3, 3), numbers(3, 3).double(), numbers(3, 3).requires_grad_(),
        numbers(3, 3).T, 2.0,
    ]  # fmt: skip
    told = [text.replace("held['w']", "w") for text in again(captured, *map(use, values))]
    assert told[:3] == [
        "w: its shape is [3, 3], was [3]",
        "w: its dtype is float64, was float32",
        "w: its dtype is float32, was float64, requires_grad is True, was False",
    ]
    assert "requires" in told[3] and told[4] == "w is 2.0, was a float32[3, 3] Tensor"
    a, b = numbers(3), numbers(3)
    pair = [a, b]
    both = lt.jit(lambda: pair[0] + pair[1])

    def share() -> None:
        pair[1] = a
        both()

    assert again(both, both, share) == ["pair[1] is now the same tensor as pair[0]"]


def test_arguments_by_name() -> None:
    def function(x: Any, y: Any = None, *, scale: float = 1.0) -> Any:
        return x * scale if y is None else x + y["a"]

    captured = lt.jit(function)
    x = numbers(2)
    told = again(
        captured,
        lambda: captured(x),
        lambda: captured(numbers(3)),
        lambda: captured(numbers(3).double()),
        lambda: captured(x, {"a": x}),
        lambda: captured(x, {"a": numbers(2)}),
        lambda: captured(x, scale=2.0),
        lambda: captured(x, scale=3.0),
        lambda: captured(x.detach().requires_grad_(), scale=3.0),
    )
    assert told == [
        "x: its shape is [3], was [2]",
        "x: its dtype is float64, was float32",
        "y['a'] is given, was not",
        "y['a']: it shares memory with another argument, or does no longer",
        "scale is given, was not, y['a'] is not given, was",
        "scale changes from call to call, and is followed from now on",
        "x: requires_grad is True, was False",
    ]
    with lt.no_grad():
        captured(x, scale=3.0)
    assert "gradients are recorded: False, was True" in captured.why()[-2]


def test_warming_up_by_a_count_is_captured_once_per_outcome() -> None:
    def function(x: Any, step: int, bound: int = 8) -> Any:
        rate = 0.1 * (step + 1) / bound if step < bound else 0.1
        return x * rate

    captured = lt.jit(function)
    for n in [*range(20), 3, 12]:
        assert captured(lt.ones(2), n).tolist() == function(lt.ones(2), n).tolist()
    assert captured.why() == ["captured", captured.why()[1], "captured"]
    assert captured.why()[1] == (
        "captured again: step is 8, was 7, and the comparison < at "
        f"{place(function, 1)} is False, was True"
    )
    sized = lt.jit(lambda x, n: x[:n])
    for n in (1, 2, 3):
        sized(numbers(4), n)
    assert sized.why()[1].startswith("captured again: n is 3, was 2, and the number as a size or")


def test_compile_takes_pytorchs_arguments_and_no_others() -> None:
    def function(x: Any) -> Any:
        return x + 1

    for given in (
        {"backend": "inductor", "mode": "max-autotune"}, {"backend": "eager", "dynamic": False},
        {"options": {"epilogue_fusion": True, "triton.cudagraphs": False}, "dynamic": True},
        {"mode": "reduce-overhead", "fullgraph": True}, {"backend": "aot_eager"},
    ):  # fmt: skip
        compiled = lt.compile(function, **given)
        assert [compiled(lt.zeros(1)).item() for _ in range(3)] == [1, 1, 1]
        assert compiled.why() == ["captured"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"backend": "inductr"}, "Invalid backend: 'inductr', available are lazyt, inductor"),
        ({"mode": "fast"}, "Unrecognized mode=fast, should be one of: default, lite, reduce"),
        ({"mode": "default", "options": {}}, "Either mode or options can be specified"),
        ({"options": {"speed": 1}}, "Unexpected optimization option speed, known options are"),
        ({"options": {"max_autotune": 1}}, "type of attr max_autotune, got int should be bool"),
    ]
    for mode in (None, "max-autotune"):
        with pytest.raises(TypeError, match="a function or a module, not int"):
            lt.compile(3, mode=mode)
    for given, text in wrong:
        with pytest.raises(RuntimeError, match=text):
            lt.compile(function, **given)
        with pytest.raises(RuntimeError, match=text):
            lt.compile(**given)
    with pytest.raises(TypeError, match="dynamic has to be True, False or None"):
        lt.compile(function, dynamic="yes")  # type: ignore[arg-type]
    refused = lt.compile(lambda x: x.item(), backend="eager", fullgraph=True)
    refused(lt.ones(1))
    with pytest.raises(RuntimeError, match=r"a lambda .*test_jit_why.* cannot be captured"):
        refused(lt.ones(1))


def test_a_part_that_the_function_knows_by_another_name_is_named() -> None:
    row = lt.ones(4, 3).realize()[1]
    doubled = lt.jit(lambda given: given + row)
    for _ in range(3):
        assert doubled(row).tolist() == [2, 2, 2]
    assert "it can read row, which shares memory with an argument" in doubled.why()[-1]


def test_a_captured_function_called_from_another_and_directly_is_captured_once() -> None:
    """What a fast path keeps for itself is no state of the program."""
    inner = lt.jit(lambda x: x * 2)
    outer = lt.jit(lambda x: inner(x) + inner(x + 1))
    for n in range(20):
        x = lt.full((3,), float(n))
        assert inner(x).tolist() == [2.0 * n] * 3
        assert outer(x).tolist() == [4.0 * n + 2] * 3
    assert outer.why() == inner.why() == ["captured"]


def test_captured_modules_are_copied_and_pickled() -> None:
    import copy
    import pickle

    made = lt.compile(nn.Linear(2, 2))
    x = lt.ones(3, 2)
    wanted = made(x).tolist()
    assert [made(x).tolist() for _ in range(2)] == [wanted] * 2
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert [other(x).tolist() for _ in range(3)] == [wanted] * 3
        assert other.why() == ["captured"]
        with lt.no_grad():
            other.weight.zero_()
        assert other(lt.zeros(1, 2)).tolist() == [made.bias.tolist()] and made(x).tolist() == wanted
    averaged = lt.optim.swa_utils.AveragedModel(made)
    assert averaged(x).tolist() == wanted

    @lt.compile
    def function(x: lt.Tensor) -> lt.Tensor:
        return x * 2

    assert copy.deepcopy(function) is function

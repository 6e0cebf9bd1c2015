"""The short way of operators gives what the long way gives, and is not taken where it would not."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyt as lt
from lazyt.functional import quick
from lazyt.functional.elementwise import unary
from lazyt.handle import autocast
from lazyt.handle.cuda_devices import launch_pending, used_device
from lazyt.ir.graph import source_text

OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.eq,
]  # fmt: skip


EMU = "cuda:emu"


def operands() -> dict[str, Any]:
    """Tensors and numbers, of all kinds that the two ways tell apart."""
    base = lt.tensor([[1.5, -0.0, 3.0], [0.0, -2.0, math.inf]]).realize()
    there = base.to(EMU)
    with lt.inference_mode():
        inferred = base + 1
    return {
        "plain": base.clone(), "row": lt.tensor([2.0, -1.0, 0.5]), "double": base.double(),
        "half": base.half(), "whole": lt.tensor([[1, 2, 3], [4, 5, 6]]), "scalar": lt.tensor(2.0),
        "turned": lt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).T, "part": base[:, 1:2],
        "stepped": lt.arange(12.0).reshape(2, 6)[:, ::2], "spread": base[:, :1].expand(2, 3),
        "column": base[:, 1].unsqueeze(1), "pending part": (base * 5)[:, 1:], "one": base[1, 1],
        "trained": base.clone().requires_grad_(), "shared": base.detach(), "inferred": inferred,
        "there": there, "double there": there.double(), "scalar there": lt.tensor(2.0, device=EMU),
        "half there": there.half(), "pending there": there * 3, "whole there": there.int(),
        "pending": base * 3, "parameter": lt.nn.Parameter(base.clone()),
        "zero": 0.0, "minus zero": -0.0, "two": 2, "true": True, "fraction": 0.1, "nan": math.nan,
    }  # fmt: skip


@pytest.fixture(params=["", "cpu", pytest.param("cuda", marks=pytest.mark.compiler)])
def casting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With and without autocast."""
    monkeypatch.setattr(autocast, "_has_gpu", lambda: True)  # the emulator is enough
    with lt.autocast(request.param or "cpu", enabled=bool(request.param)):
        yield


def power_of(a: Any, b: Any) -> Any:
    return a**b


@pytest.mark.usefixtures("casting")
@pytest.mark.parametrize("function", [*OPERATORS, power_of])
def test_both_ways_agree(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = operands()
    pairs = [
        (a, b) for a in given for b in given if lt.Tensor in map(type, (given[a], given[b]))
    ]  # fmt: skip

    def results() -> list[Any]:
        found: list[Any] = []
        for a, b in pairs * 3:  # noted, taken, taken
            try:
                made = function(given[a], given[b])
            except RuntimeError as error:
                found.append((a, b, type(error), str(error)))
            else:  # equal values are one node
                found.append((a, b, made.node, made.stride(), made.requires_grad, type(made)))
        return found

    short = results()
    monkeypatch.setattr(quick, "blocks", type("_", (), {"open": 1}))  # never the short way
    assert short == results()


@pytest.mark.usefixtures("casting")
@pytest.mark.parametrize("function", [lt.exp, unary.exp, lt.sqrt, lt.Tensor.tanh, lt.neg, lt.floor])
def test_functions_of_one_operand(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: x for name, x in operands().items() if isinstance(x, lt.Tensor)}

    def results() -> list[Any]:
        made = [function(x) for x in [*given.values()] * 3]
        return [(r.node, r.stride(), r.requires_grad, type(r)) for r in made]

    short = results()
    target = lt.empty(2, 3)
    if function is lt.exp:
        assert function(given["plain"], out=target) is target
    monkeypatch.setattr(quick, "blocks", type("_", (), {"open": 1}))
    assert short == results()


@pytest.mark.parametrize("place", ["cpu", pytest.param(EMU, marks=pytest.mark.compiler)])
def test_the_short_way_is_taken(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = lt.ones(3, device=place).realize(), lt.full((3,), 2.0, device=place).realize()
    for _ in range(2):
        assert (x + y).shape == (1 - x).shape == x.exp().shape
    taken: list[Any] = []

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any) -> Any:
            taken.append(args)
            return real(*args)

        return make

    for name in ("make_pair", "make_like"):
        monkeypatch.setattr(quick, name, counting(getattr(quick, name)))
    results = [x + y, 1 - x, x.exp(), x.requires_grad_() + y, x.exp()]
    assert len(taken) == 3 and len(results) == 5


@pytest.mark.compiler
def test_waiting_for_a_device_waits_for_what_was_made_the_short_way() -> None:
    x, y = lt.ones(3, device=EMU).realize(), lt.full((3,), 2.0, device=EMU).realize()
    for number in (0.5, 1.5, 2.5):
        results = [(x - number) * y, (x - number).exp()]
        for result in results:
            assert result.node.data is None
        device = used_device(EMU)
        assert device is not None
        launch_pending(device)
        for result in results:
            assert result.node.data is not None


def test_modes_are_asked_at_every_call() -> None:
    x, y = lt.ones(3), lt.full((3,), 2.0)
    for _ in range(3):
        assert not (x * y).requires_grad
    x.requires_grad_()
    assert (x * y).grad_fn is not None and (y * x).grad_fn is not None
    with lt.no_grad():
        assert not (x * y).requires_grad
    with lt.inference_mode():
        assert (y * y).is_inference() and (y * 2.0).is_inference()
    assert not (y * y).is_inference()
    old = lt.get_default_dtype()
    whole = lt.tensor([1, 2])
    try:
        for dtype in (lt.float32, lt.float64, lt.float32):
            lt.set_default_dtype(dtype)
            assert [(whole * 0.5).dtype for _ in range(3)] == [dtype] * 3
            assert [(whole / whole).dtype for _ in range(3)] == [dtype] * 3
    finally:
        lt.set_default_dtype(old)


def test_places_in_the_program_are_kept() -> None:
    x = lt.ones(3)
    lines = [source_text((x + float(n)).node.source) for n in range(3)]
    other = source_text((x + 9.0).node.source)
    assert len(set(lines)) == 1 and lines[0] != other and __file__ in lines[0]


def test_errors_come_from_the_operators_line() -> None:
    x = lt.ones(3)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="size of tensor a"):
            x + lt.ones(4)
        with pytest.raises(TypeError):
            x + "1"

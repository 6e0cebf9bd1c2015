"""``__torch_function__``: who is asked, with which arguments, and what becomes of the answer."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

import lazyt as torch
from lazyt.functional import overriding
from lazyt.nn import functional

Call = tuple[Any, tuple[type, ...], tuple[Any, ...], dict[str, Any]]


class Named:
    """An object that functions are to ask; it notes what they ask."""

    calls: list[Call] = []

    @classmethod
    def __torch_function__(
        cls, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        cls.calls.append((func, types, args, kwargs or {}))
        return "answer"


class Refusing:
    """An object that leaves every function to others."""

    @classmethod
    def __torch_function__(cls, *_: Any) -> Any:
        return NotImplemented


OBJECT, TENSOR = Named(), torch.ones(3)


def _asked(call: Any) -> Call:
    Named.calls.clear()
    assert call() == "answer"
    (found,) = Named.calls
    return found


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.add, (TENSOR, OBJECT)),
        (torch.exp, (OBJECT,)),
        (torch.maximum, (OBJECT, TENSOR)),
        (torch.cat, ([TENSOR, OBJECT],)),
        (torch.where, (TENSOR > 0, OBJECT, 1.0)),
        (torch.linalg.norm, (OBJECT,)),
        (torch.fft.fft, (OBJECT,)),
        (torch.special.expit, (OBJECT,)),
        (functional.linear, (TENSOR, OBJECT)),
        (functional.conv2d, (OBJECT, TENSOR)),
        (torch.Tensor.add, (TENSOR, OBJECT)),
        (torch.Tensor.add_, (TENSOR, OBJECT)),
        (torch.Tensor.view, (TENSOR, OBJECT)),
        (torch.Tensor.__getitem__, (TENSOR, OBJECT)),
        (torch.Tensor.__setitem__, (TENSOR, 0, OBJECT)),
    ],
)
def test_functions_ask_objects(function: Any, args: tuple[Any, ...]) -> None:
    Named.calls.clear()
    assert function(*args) in ("answer", None)
    (call,) = Named.calls
    assert call[1:] == ((Named,), args, {})


def test_named_arguments_are_asked() -> None:
    assert _asked(lambda: torch.add(TENSOR, OBJECT, alpha=2))[3] == {"alpha": 2}
    assert _asked(lambda: torch.add(TENSOR, other=OBJECT))[3] == {"other": OBJECT}


@pytest.mark.parametrize(
    ("call", "name", "tensor_first"),
    [
        (lambda: TENSOR + OBJECT, "add", True),
        (lambda: OBJECT + TENSOR, "add", True),
        (lambda: TENSOR / OBJECT, "div", True),
        (lambda: TENSOR @ OBJECT, "matmul", True),
        (lambda: TENSOR % OBJECT, "remainder", True),
        (lambda: OBJECT < TENSOR, "gt", True),
        (lambda: TENSOR // OBJECT, "__floordiv__", True),
        (lambda: OBJECT - TENSOR, "__rsub__", True),
        (lambda: OBJECT**TENSOR, "__rpow__", True),
    ],
)
def test_operators_ask_as_methods(call: Any, name: str, tensor_first: bool) -> None:
    func, types, args, _ = _asked(call)
    assert func is getattr(torch.Tensor, name)
    assert func is not getattr(torch, name, None)
    assert types == ((torch.Tensor, Named) if name.startswith("__") else (Named,))
    assert [type(value) for value in args] == [torch.Tensor, Named]


def test_only_the_function_that_was_called_asks() -> None:
    o = OBJECT
    args: Any = (o, o, o, 1, 1, o, o, None, None, False, 0.0, o, o)
    assert _asked(lambda: functional.multi_head_attention_forward(*args))[0] is (
        functional.multi_head_attention_forward
    )
    assert _asked(lambda: torch.nn.Linear(3, 3)(o))[0] is functional.linear


def test_all_may_refuse() -> None:
    with pytest.raises(TypeError, match=r"^Multiple dispatch failed for 'lazyt\.add'; all __to"):
        torch.add(TENSOR, Refusing())
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+"):
        TENSOR + Refusing()
    assert torch.add(Refusing(), OBJECT) == "answer"


def test_derived_classes_are_asked_first() -> None:
    class Derived(Named):
        pass

    _, types, *_ = _asked(lambda: torch.add(OBJECT, Derived()))
    assert types == (Derived, Named)


@pytest.mark.parametrize("operands", [(OBJECT, TENSOR), [OBJECT, TENSOR]])
def test_lists_of_operands_are_passed_on_one_by_one(operands: Any) -> None:
    assert _asked(lambda: torch.einsum("i,i->", operands))[2] == ("i,i->", OBJECT, TENSOR)
    assert _asked(lambda: torch.einsum("i,i->", *operands))[2] == ("i,i->", OBJECT, TENSOR)


def test_functions_keep_their_signatures_and_annotations_while_they_ask() -> None:
    functions: list[Any] = [torch.add, torch.round, torch.Tensor.__contains__, functional.linear]
    before = [inspect.signature(f) for f in functions]
    with overriding.asking():
        assert [inspect.signature(f) for f in functions] == before
    assert [inspect.signature(f) for f in functions] == before


def test_frames_of_functions_that_ask_can_be_looked_at() -> None:
    """Debuggers do: functions with closures keep a cell for each of their free variables."""
    seen: list[set[str]] = []

    class Looking(Named):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe()
            while frame is not None:
                seen.append(set(frame.f_locals))
                frame = frame.f_back  # type: ignore[assignment]

    asked = [entry.function for entry in overriding.overridables().values()]
    free = max(asked, key=lambda function: len(function.__code__.co_freevars))
    names = free.__code__.co_freevars
    assert names
    with overriding.asking():
        assert free.__code__.co_freevars == names
        free(Looking())
    assert any(set(names) <= found for found in seen)

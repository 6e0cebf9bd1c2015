"""Subclasses of Tensor stay of their class, and modes decide what functions do."""

from __future__ import annotations

import copy
import operator
import pickle
import subprocess
import sys
from typing import Any

import pytest

import lazyt as torch
from lazyt import _C, overrides
from lazyt.errors import DTypeError
from lazyt.functional import overriding


class Plain(torch.Tensor):
    """A subclass that overrides nothing."""


class Labelled(torch.Tensor):
    """A subclass whose objects are labelled; results are as the first argument is."""

    label: str

    @staticmethod
    def __new__(cls, data: Any, label: str = "") -> Labelled:
        made: Labelled = torch.Tensor._make_subclass(cls, torch.as_tensor(data))
        made.label = label
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = super().__torch_function__(func, types, args, kwargs)
        if isinstance(made, cls):
            made.label = next((a.label for a in args if isinstance(a, cls)), "")
        return made


class Names(overrides.TorchFunctionMode):
    """Notes the names of functions."""

    def __init__(self) -> None:
        self.names: list[str | None] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: 2 - x,
        lambda x: x.exp(),
        lambda x: torch.exp(x),
        lambda x: x[0],
        lambda x: x.T,
        lambda x: x.max(0).values,
        lambda x: torch.stack([x, torch.ones(2, 2)])[0],
        lambda x: torch.nn.functional.linear(x, torch.ones(3, 2)),
        lambda x: torch.nn.ReLU()(x),
        lambda x: x.split(1)[0],
        lambda x: next(iter(x)),
        lambda x: x.add_(1),
        lambda x: x.detach(),
        lambda x: x.to(torch.float64),
        lambda x: torch.zeros_like(x),
        lambda x: copy.copy(x),
        lambda x: copy.deepcopy(x),
        lambda x: pickle.loads(pickle.dumps(x)),
    ],
)
@pytest.mark.parametrize("kind", [Plain, Labelled])
def test_results_are_of_the_class(call: Any, kind: Any) -> None:
    assert type(call(kind(torch.ones(2, 2)))) is kind


def test_attributes_are_passed_on_by_the_class_alone() -> None:
    x: Any = Labelled([1.0, 2.0], "a")
    assert (x * 2).label == "a"
    assert (x * 2).exp().sum().label == "a"
    assert (x * 2).tolist() == [2.0, 4.0]
    assert copy.deepcopy(x).label == "a"
    assert pickle.loads(pickle.dumps(x)).label == "a"


def test_gradients_flow_through_subclasses() -> None:
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    x = leaf.as_subclass(Plain)
    assert type(x.grad_fn).__name__ == "AliasBackward0"
    loss = (x * x).sum()
    assert type(loss) is Plain
    loss.backward()
    assert leaf.grad is not None
    assert type(leaf.grad) is torch.Tensor
    assert leaf.grad.tolist() == [2.0, 4.0]


def test_objects_are_made_as_pytorch_makes_them() -> None:
    x = torch.ones(2)
    assert type(Plain([1, 2])) is Plain
    assert type(Plain(2, 3)) is Plain
    assert Plain(x).data_ptr() == x.data_ptr()
    assert torch.Tensor(x) is not x
    with pytest.raises(DTypeError, match=r"^new\(\) received an invalid combination"):
        Plain([1, 2], 5)
    with pytest.raises(DTypeError, match="does not inherit from Tensor"):
        x.as_subclass(int)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Plain, (2,))


def test_classes_that_do_not_know_each_other_refuse() -> None:
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'lazyt\.cat'"):
        torch.cat([Plain([1.0]), Labelled([1.0])])
    with pytest.raises(TypeError, match="unsupported operand"):
        Plain([1.0]) + Labelled([1.0])


def test_parameters_of_a_subclass_keep_its_class() -> None:
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(Labelled([1.0, 2.0]))
    assert type(module.weight) is Labelled
    assert isinstance(module.weight, torch.nn.Parameter)
    assert not isinstance(Labelled([1.0]), torch.nn.Parameter)
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert repr(module.weight) == "Parameter(Labelled([1., 2.], requires_grad=True))"
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    (module.weight * 2).sum().backward()
    optimizer.step()
    assert module.weight.tolist() == [0.0, 1.0]
    assert type(torch.nn.Parameter(torch.nn.Parameter(torch.ones(1)))) is torch.nn.Parameter


def test_parameters_themselves_are_not_asked() -> None:
    assert not overrides.has_torch_function((torch.nn.Parameter(torch.ones(1)),))
    assert type(torch.nn.Parameter(torch.ones(1)) + 1) is torch.Tensor


# ------------------------------------------------------------------ modes


def test_modes_see_functions_and_what_makes_tensors() -> None:
    with Names() as seen:
        x = torch.ones(2).add(1) + torch.tensor(1.0)
        torch.nn.functional.relu(x)
        _ = x.shape
    torch.ones(2)
    assert seen.names == [
        "lazyt.ones", "lazyt.Tensor.add", "lazyt.tensor", "lazyt.Tensor.add",
        "lazyt.nn.functional.relu", "lazyt.Tensor.shape.__get__",
    ]  # fmt: skip


#: What PyTorch 2.13 calls the function that it asks about an operator.
_OPERATORS: list[tuple[str, Any]] = [
    ("__getitem__", lambda x: x[0]), ("__setitem__", lambda x: operator.setitem(x, 0, 1)),
    ("add", lambda x: x + 1), ("add", lambda x: 1 + x), ("__rsub__", lambda x: 1 - x),
    ("__rdiv__", lambda x: 1 / x), ("__floordiv__", lambda x: x // 2),
    ("__rfloordiv__", lambda x: 2 // x), ("__rmod__", lambda x: 2 % x), ("pow", lambda x: x**2),
    ("__rpow__", lambda x: 2**x), ("__and__", lambda x: x & 1), ("bitwise_and", lambda x: 1 & x),
    ("__lshift__", lambda x: x << 1), ("__rlshift__", lambda x: 1 << x),
    ("__invert__", lambda x: ~x), ("__repr__", repr),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), _OPERATORS)
def test_functions_of_operators_are_called_as_in_pytorch(name: str, call: Any) -> None:
    told = []

    class Telling(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            told.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    call(torch.arange(1, 4).as_subclass(Telling))
    assert told[0] == name


def test_modes_see_gradients_as_one_function() -> None:
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    with Names() as seen:
        torch.autograd.grad(y, x, retain_graph=True)
        y.backward()
    assert seen.names == ["lazyt.autograd.grad", "lazyt.Tensor.backward"]


def test_modes_are_asked_from_the_innermost_on() -> None:
    with Names() as outer, Names() as inner:
        torch.ones(2)
    assert outer.names == inner.names == ["lazyt.ones"]


def test_a_mode_may_ask_itself_again() -> None:
    class Twice(overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.calls += 1
            if self.calls == 1:
                with self:
                    return func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Twice() as mode:
        torch.ones(2)
    assert mode.calls == 2


def test_blocks_in_which_nobody_is_asked() -> None:
    x = Plain([1.0])
    with Names() as seen, _C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
    assert seen.names == ["lazyt.Tensor.add"]
    with Names() as seen, _C.DisableTorchFunction():
        assert type(x + 1) is torch.Tensor
    assert not seen.names


def test_functions_have_their_own_code_outside_of_modes() -> None:
    # In a process of its own: here are subclasses of Tensor, whose objects are always to be asked.
    lines = """
import lazyt
from lazyt.overrides import BaseTorchFunctionMode
code = lazyt.add.__code__
with BaseTorchFunctionMode():
    assert lazyt.add.__code__ is not code
assert lazyt.add.__code__ is code
class Own(lazyt.Tensor): pass
assert lazyt.add.__code__ is not code
"""
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_errors_leave_modes() -> None:
    with pytest.raises(DTypeError), Names():
        torch.add(torch.ones(2), None)
    assert not overriding.choices.modes


# ------------------------------------------------------------------ functions of one's own


def test_functions_of_users_ask_as_well() -> None:
    @overrides.wrap_torch_function(lambda x: (x,))
    def twice(x: Any) -> Any:
        return x * 2

    class Asked:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return func is twice

    assert twice(Asked()) is True
    assert twice(torch.ones(1)).tolist() == [2.0]
    assert type(twice(Plain([1.0]))) is Plain


def test_one_question_can_be_skipped() -> None:
    seen = []

    class Noting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return overrides.redispatch_function(func, types, args, kwargs)

    def product(a: Any, b: Any) -> Any:
        if overrides.has_torch_function((a, b)):
            return overrides.handle_torch_function(product, (a, b), a, b)
        return a * b + 1

    result = product(Noting([3.0]), Noting([4.0]))
    assert seen == ["product", "mul"]
    assert result.tolist() == [13.0]


def test_functions_are_listed_and_named() -> None:
    listed = overrides.get_overridable_functions()
    assert torch.add in listed[torch]
    assert torch.nn.functional.linear in listed[torch.nn.functional]
    assert torch.Tensor.shape.__get__ in listed[torch.Tensor]
    assert torch.Tensor.add in listed[torch.Tensor]
    assert overrides.resolve_name(torch.linalg.norm) == "lazyt.linalg.norm"
    assert overrides.resolve_name(len) is None
    assert overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert not overrides.is_tensor_method_or_property(torch.add)
    assert overrides.get_testing_overrides()[torch.add](1, 2) == -1
    assert torch.is_tensor in overrides.get_ignored_functions()


# ------------------------------------------------------------------ captured functions


class Tenfold(overrides.TorchFunctionMode):
    """Products are ten times as large."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 10 if func is torch.Tensor.mul else result


def test_modes_decide_about_captured_functions() -> None:
    function = torch.jit(lambda x: x * 2 + 1)
    x = torch.ones(2)
    for _ in range(4):
        assert function(x).tolist() == [3.0, 3.0]
    for _ in range(4):
        with Tenfold():
            found = function(x)
        assert found.tolist() == [21.0, 21.0]
        assert function(x).tolist() == [3.0, 3.0]


@pytest.mark.lazy
def test_modes_within_captured_functions() -> None:
    def enclosed(x: Any) -> Any:
        with Tenfold():
            return x * 2

    function = torch.jit(enclosed)
    for _ in range(4):
        assert function(torch.ones(1)).tolist() == [20.0]
    assert "a mode decides what functions do" in " ".join(function.why())


@pytest.mark.lazy
def test_subclasses_in_captured_functions() -> None:
    function = torch.jit(lambda x: x * 2 + 1)
    with pytest.warns(UserWarning, match=r"leaves .* alone"):
        for _ in range(6):
            found = function(Labelled([1.0, 2.0], "a"))
            assert (type(found), found.label, found.tolist()) == (Labelled, "a", [3.0, 5.0])
    function = torch.jit(lambda x: x * 2 + 1)
    for _ in range(4):
        assert type(function(Plain([1.0]))) is Plain
        assert type(function(torch.ones(1))) is torch.Tensor

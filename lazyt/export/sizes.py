"""Sizes of tensors while a program is recorded: numbers that remember where they come from.

A program may use a size as a number wherever it likes. What it computes with sizes becomes part of
the program. What it decides by them becomes a condition, which the program checks when it runs, so
that it never goes another way than the one that was recorded.
"""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lazyt.errors import LazytError
from lazyt.handle.tensor import Size

if TYPE_CHECKING:
    from lazyt.fx.node import Node

__all__ = ["ConditionError", "RecordedInt", "RecordedSize", "plain", "require"]


class ConditionError(LazytError, AssertionError):
    """A program that was recorded for other shapes than it is given."""


def require(found: object, wanted: object, text: str) -> None:
    """A condition of a program. Raises ConditionError, with the ``text``, unless ``found`` equals
    ``wanted``."""
    if found != wanted:
        raise ConditionError(
            f"the program was recorded where {text} is {wanted}, and here it is {found}: another "
            "one has to be recorded for these shapes"
        )


class RecordedInt:
    """A size, with the node of the graph that gives it.

    It is no ``int``: Python's own functions would read one without asking. Wherever the number
    itself is needed (``range``, ``float``, a dict's key), it becomes a condition.

    Attributes:
        value: the size in the run that is recorded.
        node: the node.
        recorder: what records the program.
    """

    __slots__ = ("node", "recorder", "value")

    def __init__(self, value: int, node: Node, recorder: Any) -> None:
        self.value, self.node, self.recorder = value, node, recorder

    def __index__(self) -> int:
        found: int = self.recorder.decide_number(self)
        return found

    __int__ = __trunc__ = __index__

    def __hash__(self) -> int:
        return hash(operator.index(self))

    def __bool__(self) -> bool:
        found: object = self
        return bool(found != 0)

    def __neg__(self) -> Any:
        return self.recorder.compute(operator.mul, self, -1)

    def __float__(self) -> float:
        return float(operator.index(self))

    def __repr__(self) -> str:
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)


numbers.Integral.register(RecordedInt)


class RecordedSize(Size):
    """The sizes of a tensor, each a RecordedInt."""

    def numel(self) -> int:
        """The number of elements."""
        return functools.reduce(operator.mul, self) if self else 1


def _arithmetic(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def forward(self: RecordedInt, other: Any) -> Any:
        return self.recorder.compute(function, self, other)

    def backward(self: RecordedInt, other: Any) -> Any:
        return self.recorder.compute(function, other, self)

    return backward if name.startswith("__r") else forward


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(self: RecordedInt, other: Any) -> Any:
        return self.recorder.decide(function, self, other)

    return compare


for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
    for _place in (f"__{_name}__", f"__r{_name}__"):
        setattr(RecordedInt, _place, _arithmetic(_place, getattr(operator, _name)))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(RecordedInt, f"__{_name}__", _comparison(getattr(operator, _name)))


def plain(value: Any) -> Any:
    """A number as Python has it."""
    return value.value if isinstance(value, RecordedInt) else value

"""The function table: what is known of each function of the API, declared where it is written.

A decorator declares a function, and ``declare`` one that is made rather than written::

    @function(method=True, inplace="function", cast="full")
    def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...

Methods and in-place forms of tensors, in-place functions of the torch namespace, what autocast does
on GPUs, and how wrong calls are explained all come from these entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Cast = Literal["", "low", "full", "full_by_default", "widest", "unsafe"]


class Entry(NamedTuple):
    """What is known of one function.

    Attributes:
        name: what the function is called in its module.
        function: the function itself.
        method: whether tensors have it as a method.
        inplace: its in-place form, ``x.exp_()`` for ``exp``, which a function called ``fill_`` is
            itself: none, a method, or a method and a ``function`` of the torch namespace.
        checks: whether it checks its own arguments, at less cost than ``functional.calls`` would.
        cast: in which dtype it computes under autocast on GPUs: as it is given, in the ``low``
            precision, in float32 (``full``), in float32 unless the call says otherwise
            (``full_by_default``), in the ``widest`` of its tensors' dtypes, or not at all
            (``unsafe``).
        scalars: arguments for which a tensor of one number may stand, beside ``alpha`` and
            ``beta``.
        fractions: arguments called as whole numbers are elsewhere that take other values, too.
        old_forms: forms of a call that PyTorch has left from older releases: its arguments in
            order, the tensor itself as ``self``.
        separate: whether no operand of the in-place form may share memory with the tensor, not
            even be the tensor itself.
        fills: with how many tensors among its operands the in-place form begins; the one behind
            them is a number, which it takes out of a tensor before it writes.
    """

    name: str
    function: Callable[..., Any]
    method: bool = False
    inplace: Literal["", "method", "function"] = ""
    checks: bool = False
    cast: Cast = ""
    scalars: tuple[str, ...] = ()
    fractions: tuple[str, ...] = ()
    old_forms: tuple[str, ...] = ()
    separate: bool = False
    fills: int | None = None


#: All entries in the order in which they were declared. Names come back: ``softmax`` of the torch
#: namespace takes other arguments than that of ``nn.functional``.
entries: list[Entry] = []
#: The entries of functions by the functions.
_by_function: dict[Callable[..., Any], Entry] = {}
#: Told of every entry that is declared from now on.
listeners: list[Callable[[Entry], None]] = []


def function(**facts: Any) -> Callable[[F], F]:
    """Decorator: declares a function, with the ``facts`` of its Entry."""

    def attach(function: F) -> F:
        return declare(function.__name__, function, **facts)

    return attach


def declare(name: str, function: F, **facts: Any) -> F:
    """Declares a function under a name, with the ``facts`` of its Entry; returns the function."""
    entry = Entry(name, function, **facts)
    entries.append(entry)
    _by_function.setdefault(function, entry)
    for listener in listeners:
        listener(entry)
    return function


def entry_of(function: Callable[..., Any]) -> Entry | None:
    """The entry of a function, or of one that wraps it; None for one that nobody declared."""
    while function not in _by_function:
        if not hasattr(function, "__wrapped__"):
            return None
        function = function.__wrapped__
    return _by_function[function]


def named(name: str) -> Iterator[Entry]:
    """The entries under a name."""
    return (entry for entry in entries if entry.name == name)

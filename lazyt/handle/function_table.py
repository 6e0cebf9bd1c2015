"""The function table: what is known of each function of the API, declared where it is written.

A decorator declares a function, and ``declare`` one that is made rather than written::

    @function(method=True, inplace="function", cast="full")
    def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...

Methods and in-place forms of tensors, in-place functions of the torch namespace, what autocast does
on GPUs, and how wrong calls are explained all come from these entries. What is known of results
(saved tensors, strides, ``out=``) belongs to the name of their grad_fn, because functions may share
one or have several; ``declare_grad_fn`` declares a name that is no function's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Cast = Literal["", "low", "full", "full_by_default", "widest", "unsafe"]


Layout = Callable[[Any, Sequence[Any]], "tuple[int, ...] | None"]


class Traits(NamedTuple):
    """What is known of the results whose grad_fn has one name.

    The letters of ``saves`` say which tensors a gradient reads, so that they must not be written to
    before the backward:

    * ``a``: every input. ``s``: the first. ``l``: those after the second. ``r``: the result.
    * ``k``: indices and masks, and ``K`` the same when the second input requires a gradient.
    * ``e``: each input that requires a gradient itself.
    * ``p``: an input when another one requires a gradient (products), and ``P`` the same of the
      inputs after the first.
    * ``d``: the divisor, and the dividend when the divisor requires a gradient; ``D`` the same of
      the inputs after the first.
    * ``o``: every input, and ``O`` those after the first, when the second requires a gradient.
    * ``q``: something that only the function itself knows, such as an order.
    * ``x``: there is no gradient.

    Attributes:
        saves: the letters of what the gradient reads.
        by_result: the gradient, of the result and its gradient, where PyTorch computes it from a
            saved result.
        second_order: of a linear function whose gradient counts as one of the input all the same,
            with ``create_graph``: whether that has a gradient of ``zeros``, or ``none``.
        replaces: whether the second operand, written over the first, does not depend on it.
        indices: which operand is an index, a condition or a mask, which is no input in PyTorch; a
            number below zero stands for all operands from there on.
        takes_number: whether the second operand counts as an input though it is a number.
        layout: gives the strides of a result by itself and its operands, None for row-major; by
            default ``result_layout.elementwise``.
        out_dtype: how it refuses an ``out=`` of another dtype than the result's, which otherwise is
            cast. {want} is the C++ name of the result's dtype and {Want} that of tensors, {got} and
            {Got} the same of the dtype that ``out=`` has.
        out_category: the same where only a cast that loses a category is refused.
        out_bytes: whether truth values may be written to bytes, whatever ``out_dtype`` says.
        out_resizes: whether ``out=`` of another size is resized without a warning.
        out_separate: whether operands are read in any order, so that ``out=`` may not share memory
            with them.
    """

    saves: str = ""
    by_result: Callable[[Any, Any], Any] | None = None
    second_order: Literal["", "zeros", "none"] = ""
    replaces: bool = False
    indices: int | None = None
    takes_number: bool = False
    layout: Layout | None = None
    out_dtype: str = ""
    out_category: str = ""
    out_bytes: bool = False
    out_resizes: bool = False
    out_separate: bool = False


class Entry(NamedTuple):
    """What is known of one function, and in ``traits`` of its results.

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
        forms: of a function of two operands, which pairs of tensors and numbers it takes, as the
            signatures that errors tell; by default tensors, and a number in the place of each.
        separate: whether no operand of the in-place form may share memory with the tensor, not
            even be the tensor itself.
        fills: with how many tensors among its operands the in-place form begins; the one behind
            them is a number, which it takes out of a tensor before it writes.
        grad_name: the name of its results' grad_fn without ``Backward0``, where it is not the
            function's own in capitals.
        traits: what is declared of that name here; its attributes are facts of ``declare``.
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
    forms: tuple[str, ...] = ()
    separate: bool = False
    fills: int | None = None
    grad_name: str = ""
    traits: Traits | None = None


#: All entries in the order in which they were declared. Names come back: ``softmax`` of the torch
#: namespace takes other arguments than that of ``nn.functional``.
entries: list[Entry] = []
#: The entries of functions by the functions.
_by_function: dict[Callable[..., Any], Entry] = {}
#: What is declared of grad_fns by their names, in full or without ``Backward`` and a number.
grad_fns: dict[str, Traits] = {}
#: The ``forms`` of functions of two operands by the names of the functions.
pair_forms: dict[str, tuple[str, ...]] = {}
_OF_GRAD_FNS = frozenset(Traits._fields)
_PLAIN = Traits()
#: Told of every entry that is declared from now on.
listeners: list[Callable[[Entry], None]] = []


def function(**facts: Any) -> Callable[[F], F]:
    """Decorator: declares a function, with the ``facts`` of its Entry and its Traits."""

    def attach(function: F) -> F:
        return declare(function.__name__, function, **facts)

    return attach


def declare(name: str, function: F, **facts: Any) -> F:
    """Declares a function under a name, with the ``facts`` of its Entry and of the Traits of its
    results; returns the function.

    Raises ValueError where something else is declared of its results' grad_fn.
    """
    given = _OF_GRAD_FNS.intersection(facts)
    if given:
        own = {fact: facts.pop(fact) for fact in given}
        title = facts.get("grad_name") or grad_name_of(name)
        facts["traits"] = declare_grad_fn(title, **own)
    entry = Entry(name, function, **facts)
    entries.append(entry)
    if entry.forms:
        pair_forms[name] = entry.forms
    _by_function.setdefault(function, entry)
    for listener in listeners:
        listener(entry)
    return function


def declare_grad_fn(*names: str, **facts: Any) -> Traits:
    """Declares grad_fns by their ``names`` (``Convolution``, or ``PowBackward0`` where it differs
    from others that begin so), with the ``facts`` of their Traits.

    Raises ValueError where something else is declared of one.
    """
    traits = Traits(**facts)
    for name in names:
        if grad_fns.setdefault(name, traits) != traits:
            raise ValueError(f"{name} is declared twice: {grad_fns[name]} and {traits}")
    return traits


def grad_name_of(function: str) -> str:
    """The name of a function's grad_fn: ``LogSoftmax`` of ``log_softmax``.

    Names of operators (``__radd__``) and in-place forms (``add_``) give the plain function's.
    """
    return "".join(word[:1].upper() + word[1:] for word in function.strip("_").split("_"))


def traits_of(grad_fn: str) -> Traits:
    """What is declared of a grad_fn by its full name, such as ``PowBackward0``."""
    return grad_fns.get(grad_fn) or grad_fns.get(grad_fn.partition("Backward")[0], _PLAIN)


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

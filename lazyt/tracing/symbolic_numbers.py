"""Python numbers that change from call to call, followed through a captured function.

A captured function gets, in place of a number that was another one at the last call, a
``SymbolicNumber``: it says that it is an int or a float, calculates like one, and remembers how it
was calculated. Where it meets a tensor it becomes a leaf of the graph, which every replay fills
anew. Where the function looks at it (compares it, makes a size of it, hands it to ``math``) what it
saw becomes a condition of the replay: another outcome, another capture.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.handle import hooks
from lazyt.handle.storage import number_leaf
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, int64
from lazyt.ir.graph import Node, Source, source_text, user_position
from lazyt.runtime.memory import Buffer

Recipe = Callable[[], Any]
_PLAIN = (int, float)
#: How a comparison is called that an outcome comes from.
_HOW: dict[Callable[..., Any], str] = {
    operator.lt: "the comparison <", operator.le: "the comparison <=",
    operator.gt: "the comparison >", operator.ge: "the comparison >=",
    operator.eq: "the comparison ==", operator.ne: "the comparison !=",
    operator.index: "the number as a size or an index",
}  # fmt: skip


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b) or not isinstance(a, float):
        return type(a) is type(b) and bool(a == b)
    return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)


class Numbers:
    """The symbolic numbers of one capture.

    Attributes:
        values: what they are at this call, in the order of the arguments.
        active: whether the capture goes on.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)
        self.active = True
        self._seen: list[tuple[Recipe, Any]] = []
        self._where: list[tuple[str, Source | None]] = []  # how and where it was seen

    def symbols(self) -> list[SymbolicNumber]:
        """What the function gets in their place."""
        values = self.values
        makes = [lambda n=n: values[n] for n in range(len(values))]
        return [_lift(value, make, self) for value, make in zip(values, makes)]

    def saw(self, recipe: Recipe, outcome: Any, how: str = "the value") -> None:
        """The function saw this outcome, which it may depend on from here.

        Args:
            how: what it did, in words.
        """
        if self.active:
            self.require(recipe, outcome, how)

    def require(self, recipe: Recipe, outcome: Any, how: str) -> None:
        """Replay only where the outcome is this one; what ``saw`` does, after the capture, too."""
        self._seen.append((recipe, outcome))
        self._where.append((how, user_position()))

    def hold(self, values: Sequence[Any]) -> bool:
        """Whether the function would see the same if the numbers were these; they are, then."""
        old = list(self.values)
        self.values[:] = values
        try:
            if all(_same(recipe(), outcome) for recipe, outcome in self._seen):
                return True
        except (ArithmeticError, ValueError):
            pass  # the function would raise where it did not: that is another outcome
        self.values[:] = old
        return False

    def difference(self, values: Sequence[Any], names: Sequence[str]) -> str:
        """What the function would see otherwise if the numbers were ``values``, and where it looks.

        Args:
            names: what to call them.
        """
        now, then = list(values), list(self.values)
        for (recipe, old), (how, source) in zip(self._seen, self._where):
            new = self._try(recipe, now)
            if _same(new, old):
                continue
            mine = [
                n for n, value in enumerate(now)
                if not _same(self._try(recipe, [*then[:n], value, *then[n + 1 :]]), old)
            ] or [n for n, value in enumerate(now) if not _same(value, then[n])]  # fmt: skip
            told = " and ".join(f"{names[n]} is {now[n]!r}, was {then[n]!r}" for n in mine)
            place = source_text(source)
            return f"{told}, and {how} at {place} is {_shown(new)}, was {_shown(old)}"
        return "a number among the arguments leads elsewhere"

    def _try(self, recipe: Recipe, values: Sequence[Any]) -> Any:
        """What a recipe makes of ``values``; the exception, where it raises."""
        old = list(self.values)
        self.values[:] = values
        try:
            return recipe()
        except (ArithmeticError, ValueError) as error:
            return error
        finally:
            self.values[:] = old


def _shown(value: Any) -> str:
    return type(value).__name__ if isinstance(value, Exception) else repr(value)


class SymbolicNumber:
    """A number and how it was calculated from those that change."""

    __slots__ = ("_numbers", "_recipe", "_value")

    def __init__(self, value: Any, recipe: Recipe, numbers: Numbers) -> None:
        self._value = value
        self._recipe = recipe
        self._numbers = numbers

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """What ``isinstance`` is told."""
        return type(self._value)

    def _look(self) -> Any:
        """The number itself, which from here on has to be the same at every replay."""
        self._numbers.saw(self._recipe, self._value)
        return self._value

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self._value), name):
            raise AttributeError(f"{type(self._value).__name__!r} object has no attribute {name!r}")
        return getattr(self._look(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._look(), dtype)

    def __reduce__(self) -> Any:
        return (type(self._value), (self._look(),))


def _lift(value: Any, recipe: Recipe, numbers: Numbers) -> SymbolicNumber:
    return (SymbolicNumber if isinstance(value, float) else SymbolicInt)(value, recipe, numbers)


class SymbolicInt(SymbolicNumber):
    """A whole number."""

    __slots__ = ()


def is_symbolic(value: Any) -> bool:
    """Whether ``value`` only stands for a number."""
    return type(value) in SYMBOLIC


#: The types of what stands for numbers.
SYMBOLIC: tuple[type, ...] = (SymbolicNumber, SymbolicInt)


def plain(value: Any) -> Any:
    """``value`` with numbers in place of what stands for them, in tuples, lists and dicts too."""
    if type(value) in SYMBOLIC:
        return value._value
    if type(value) in (list, tuple):
        parts = [plain(part) for part in value]
        same = all(a is b for a, b in zip(parts, value))
        return value if same else type(value)(parts)
    if type(value) is dict:
        table = {key: plain(part) for key, part in value.items()}
        return value if all(table[key] is value[key] for key in value) else table
    return value


def recipe_of(value: SymbolicNumber) -> Recipe:
    """What calculates the number of the call that is replayed."""
    return value._recipe


def leaf_of_number(value: Any, dtype: DType, constant: Callable[[Any, DType], Node]) -> Node:
    """The node of a symbolic number in ``dtype``: a leaf that every call fills, or where nobody
    captures, what ``constant`` makes of the number."""
    if hooks.capturing() is None or not value._numbers.active:
        return constant(value._value, dtype)
    return hooks.filled(NumberLeaf(value, dtype, constant))


class NumberLeaf:
    """Makes the leaf of a number, which the function itself has without one."""

    __slots__ = ("_constant", "_dtype", "_value")

    def __init__(
        self, value: SymbolicNumber, dtype: DType, constant: Callable[[Any, DType], Node]
    ) -> None:  # fmt: skip
        self._value = value
        self._dtype = dtype
        self._constant = constant

    def __call__(self) -> Node:
        """The leaf."""
        return _leaf(self._value._recipe(), self._dtype, self._constant)

    def require(self, fits: Callable[[int], bool]) -> None:
        """Replay only where the whole number that the leaf holds fits."""
        recipe, dtype, constant = self._value._recipe, self._dtype, self._constant

        def holds() -> bool:
            return fits(constant(recipe(), dtype).params.value)  # small dtypes wrap around

        self._value._numbers.require(holds, True, "the range of an index or divisor")


class PythonNumber:
    """Makes the leaf of a number that Python computes at every call, float32 or float64.

    Attributes:
        compute: gives the number.
        dtype: of the leaf.
    """

    __slots__ = ("compute", "dtype")

    def __init__(self, compute: Callable[[], float], dtype: DType) -> None:
        self.compute = compute
        self.dtype = dtype

    def __call__(self) -> Node:
        """The leaf."""
        return self.leaf(self.compute())

    def leaf(self, value: float) -> Node:
        """The leaf of a number that was computed already."""
        found = number_leaf(value, self.dtype)
        if found is None:  # beyond float32
            found = number_leaf(math.copysign(math.inf, value), self.dtype)
        assert found is not None
        return found


def _leaf(value: Any, dtype: DType, constant: Callable[[Any, DType], Node]) -> Node:
    found = number_leaf(int(value) if dtype is int64 else value, dtype)
    if found is not None:
        return found
    from lazyt.runtime.interpreter import interpret

    buffer = Buffer(dtype.itemsize)
    buffer.copy_from(interpret([constant(value, dtype)])[0].tobytes())
    return ops.input_((), dtype, buffer)


# ---------------------------------------------------------------------- calculating


def _parts(numbers: Numbers, *operands: Any) -> list[Recipe] | None:
    """The recipes of operands, None where one is no number."""
    found: list[Recipe] = []
    for operand in operands:
        if is_symbolic(operand) and operand._numbers is numbers:
            found.append(operand._recipe)
        elif type(operand) in _PLAIN:
            found.append(lambda operand=operand: operand)  # type: ignore[misc]
        else:
            return None
    return found


def _calculate(function: Callable[..., Any], *operands: Any, look: bool) -> Any:
    """``function`` of operands, one symbolic: symbolic too, or with ``look`` plain and noted."""
    mine = next(o for o in operands if is_symbolic(o))
    numbers: Numbers = mine._numbers
    recipes = _parts(numbers, *operands)
    values = [o._value if is_symbolic(o) else o for o in operands]
    if recipes is None:
        return function(*[o._look() if is_symbolic(o) else o for o in operands])
    try:
        value = function(*values)
    except (ArithmeticError, ValueError, TypeError):
        for operand in operands:
            if is_symbolic(operand):
                operand._look()
        raise

    def recipe() -> Any:
        return function(*[part() for part in recipes])

    if function is operator.pow and not _is_float_power(*values):
        numbers.saw(lambda: type(recipe()), type(value), "the type of a power")
    if look or type(value) not in _PLAIN:
        numbers.saw(recipe, value, _HOW.get(function) or f"{function.__name__}()")
        return value
    return _lift(value, recipe, numbers)


def _is_float_power(base: Any, exponent: Any) -> bool:
    """Whether a power is a float for all numbers of these types: others are whole, broken or
    complex, by the values."""
    return isinstance(base, float) and isinstance(exponent, int)


def _binary(function: Callable[..., Any], turned: bool, look: bool = False) -> Callable[..., Any]:
    def method(self: SymbolicNumber, other: Any, *rest: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        if rest and rest != (None,):  # pow() with a modulus
            return function(self._look(), other, *rest)
        pair = (other, self) if turned else (self, other)
        return _calculate(function, *pair, look=look)

    return method


def _unary(function: Callable[..., Any], look: bool) -> Callable[..., Any]:
    def method(self: SymbolicNumber, *rest: Any) -> Any:
        if rest:
            return function(self._look(), *rest)
        return _calculate(function, self, look=look)

    return method


def _define() -> None:
    arithmetic = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
        "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow,
    }  # fmt: skip
    for name, function in {**arithmetic, "divmod": divmod}.items():
        _define_pair(SymbolicNumber, name, function, name == "divmod")
    for name in ("and", "or", "xor", "lshift", "rshift"):
        _define_pair(SymbolicInt, name, getattr(operator, f"__{name}__"), True)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(SymbolicNumber, f"__{name}__", _binary(getattr(operator, name), False, True))
    signs: dict[str, Callable[..., Any]]
    signs = {"neg": operator.neg, "pos": operator.pos, "abs": abs}
    for name, sign in signs.items():
        setattr(SymbolicNumber, f"__{name}__", _unary(sign, False))
    looks: dict[str, Callable[..., Any]] = {
        "bool": bool, "int": int, "float": float, "trunc": math.trunc, "floor": math.floor,
        "ceil": math.ceil, "round": round, "hash": hash, "repr": repr, "str": str,
        "format": format,
    }  # fmt: skip
    for name, look in looks.items():
        setattr(SymbolicNumber, f"__{name}__", _unary(look, True))
    for name in ("index", "invert"):
        setattr(SymbolicInt, f"__{name}__", _unary(getattr(operator, name), True))


def _define_pair(kind: type, name: str, function: Callable[..., Any], look: bool) -> None:
    setattr(kind, f"__{name}__", _binary(function, False, look))
    setattr(kind, f"__r{name}__", _binary(function, True, look))


_define()

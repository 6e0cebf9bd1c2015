"""Index expressions: integer linear forms over loop axes, with division and remainder.

A Linear is ``const + sum(coefficient * atom)`` in canonical form, so equal indices compare equal.
Atoms are loop axes, quotients, remainders, and values read from memory with a promised range.
Every form knows its interval, which simplifies ``//`` and ``%`` and proves accesses in bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from lazyt.ir.dtypes import DType
from lazyt.ir.scalar import Call, Expr


@dataclass(frozen=True)
class Axis:
    """A loop variable that runs from 0 to ``extent - 1``."""

    name: str
    extent: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value."""
        return (0, max(self.extent - 1, 0))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """``value // divisor`` (floor), not simplifiable."""

    value: Linear
    divisor: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value."""
        low, high = self.value.bounds
        return (low // self.divisor, high // self.divisor)

    def __str__(self) -> str:
        return f"({self.value}) // {self.divisor}"


@dataclass(frozen=True)
class Remainder:
    """``value % divisor`` (result in 0 .. divisor-1), not simplifiable."""

    value: Linear
    divisor: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value."""
        return (0, self.divisor - 1)

    def __str__(self) -> str:
        return f"({self.value}) % {self.divisor}"


@dataclass(frozen=True)
class Datum:
    """An integer scalar ``name`` computed by the kernel, clamped to 0 .. extent-1."""

    name: str
    extent: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest value."""
        return (0, max(self.extent - 1, 0))

    def __str__(self) -> str:
        return f"@{self.name}[{self.extent}]"


Atom = Axis | Quotient | Remainder | Datum


class Linear:
    """``const + sum(coefficient * atom)``, canonical and immutable."""

    __slots__ = ("_hash", "bounds", "const", "terms")

    def __init__(self, terms: tuple[tuple[Atom, int], ...], const: int) -> None:
        self.terms = terms
        self.const = const
        self._hash = hash((terms, const))
        low = high = const
        for atom, factor in terms:
            small, large = atom.bounds
            low += factor * (small if factor > 0 else large)
            high += factor * (large if factor > 0 else small)
        self.bounds = (low, high)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Linear)
            and self._hash == other._hash
            and self.const == other.const
            and self.terms == other.terms
        )

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.const + other)
        return _sum([(self, 1), (other, 1)])

    def __sub__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.const - other)
        return _sum([(self, 1), (other, -1)])

    def __mul__(self, factor: int) -> Linear:
        if factor == 0:
            return constant(0)
        return Linear(tuple((a, f * factor) for a, f in self.terms), self.const * factor)

    def __floordiv__(self, divisor: int) -> Linear:
        return _divide(self, divisor)

    def __mod__(self, divisor: int) -> Linear:
        return _remainder(self, divisor)

    def __str__(self) -> str:
        parts = []
        for atom, factor in self.terms:
            text = str(atom)
            if isinstance(atom, Quotient | Remainder):
                text = f"({text})"
            parts.append(text if factor == 1 else f"{factor}*{text}")
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)

    def __repr__(self) -> str:
        return f"Linear({self})"

    def coefficient(self, axis: Axis) -> int | None:
        """The factor of ``axis``; None when the axis also occurs inside a quotient or remainder."""
        factor = 0
        for atom, f in self.terms:
            if atom == axis:
                factor = f
            elif axis in axes_of(atom):
                return None
        return factor


def constant(value: int) -> Linear:
    """A fixed index."""
    return Linear((), value)


def variable(axis: Axis) -> Linear:
    """The index that follows ``axis``; the constant 0 when the axis has at most one value."""
    if axis.extent <= 1:
        return constant(0)
    return Linear(((axis, 1),), 0)


def datum(name: str, extent: int) -> Linear:
    """An index read from data, promised to lie in 0 .. extent-1."""
    return Linear(((Datum(name, extent), 1),), 0)


def axes_of(item: Linear | Atom) -> set[Axis]:
    """All loop axes that an index depends on."""
    found: set[Axis] = set()
    work: list[Linear | Atom] = [item]
    while work:
        current = work.pop()
        if isinstance(current, Axis):
            found.add(current)
        elif isinstance(current, Quotient | Remainder):
            work.append(current.value)
        elif isinstance(current, Linear):
            work.extend(a for a, _ in current.terms)
    return found


def data_of(item: Linear | Atom) -> set[str]:
    """Names of all data-dependent scalars in an index."""
    found: set[str] = set()
    work: list[Linear | Atom] = [item]
    while work:
        current = work.pop()
        if isinstance(current, Datum):
            found.add(current.name)
        elif isinstance(current, Quotient | Remainder):
            work.append(current.value)
        elif isinstance(current, Linear):
            work.extend(a for a, _ in current.terms)
    return found


def _order(item: tuple[Atom, int]) -> tuple[int, str]:
    atom, _ = item
    rank = (Axis, Datum, Quotient, Remainder).index(type(atom))
    return (rank, str(atom))


def _sum(parts: Sequence[tuple[Linear, int]]) -> Linear:
    """The sum of ``factor * linear``, with like atoms merged and q*d + r joined again."""
    factors: dict[Atom, int] = {}
    const = 0
    for linear, scale in parts:
        const += linear.const * scale
        for atom, factor in linear.terms:
            factors[atom] = factors.get(atom, 0) + factor * scale
    factors = {a: f for a, f in factors.items() if f}
    for atom, factor in factors.items():
        if not isinstance(atom, Remainder):
            continue
        quotient = _divide(atom.value, atom.divisor)
        if quotient.const == 0 and len(quotient.terms) == 1 and quotient.terms[0][1] == 1:
            partner = quotient.terms[0][0]
            if factors.get(partner) == factor * atom.divisor:
                rest = {a: f for a, f in factors.items() if a not in (atom, partner)}
                base = Linear(tuple(sorted(rest.items(), key=_order)), const)
                return _sum([(base, 1), (atom.value, factor)])
    return Linear(tuple(sorted(factors.items(), key=_order)), const)


def _split(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    """``value == whole * divisor + rest`` with every divisible term in ``whole``."""
    whole = [(a, f // divisor) for a, f in value.terms if f % divisor == 0]
    rest = [(a, f) for a, f in value.terms if f % divisor]
    quotient, remainder = divmod(value.const, divisor)
    return Linear(tuple(whole), quotient), Linear(tuple(rest), remainder)


def _common(value: Linear, divisor: int) -> int:
    factor = gcd(divisor, value.const)
    for _, f in value.terms:
        factor = gcd(factor, f)
    return factor


def _coarse(value: Linear, divisor: int) -> tuple[int, Linear, Linear] | None:
    """``value == step * big + small`` with ``0 <= small < step`` and step dividing divisor.

    Then small changes neither the quotient nor, beyond itself, the remainder.
    """
    for step in sorted({gcd(divisor, f) for _, f in value.terms}, reverse=True):
        if step <= 1:
            return None
        small = Linear(tuple((a, f) for a, f in value.terms if f % step), value.const % step)
        if small.bounds[0] >= 0 and small.bounds[1] < step:
            big = tuple((a, f // step) for a, f in value.terms if f % step == 0)
            return step, Linear(big, value.const // step), small
    return None


def _divide(value: Linear, divisor: int) -> Linear:
    if divisor == 1:
        return value
    whole, rest = _split(value, divisor)
    low, high = rest.bounds
    if low // divisor == high // divisor:
        return whole + low // divisor
    common = _common(rest, divisor)
    if common > 1:
        rest = Linear(tuple((a, f // common) for a, f in rest.terms), rest.const // common)
        return whole + _divide(rest, divisor // common)
    coarse = _coarse(rest, divisor)
    if coarse is not None:
        return whole + _divide(coarse[1], divisor // coarse[0])
    if len(rest.terms) == 1 and rest.const == 0 and rest.terms[0][1] == 1:
        atom = rest.terms[0][0]
        if isinstance(atom, Quotient):
            return whole + _divide(atom.value, atom.divisor * divisor)
    return _sum([(whole, 1), (Linear(((Quotient(rest, divisor), 1),), 0), 1)])


def _remainder(value: Linear, divisor: int) -> Linear:
    if divisor == 1:
        return constant(0)
    _, rest = _split(value, divisor)
    low, high = rest.bounds
    if low // divisor == high // divisor:
        return rest - (low // divisor) * divisor
    common = _common(rest, divisor)
    if common > 1:
        rest = Linear(tuple((a, f // common) for a, f in rest.terms), rest.const // common)
        return _remainder(rest, divisor // common) * common
    coarse = _coarse(rest, divisor)
    if coarse is not None:
        step, big, small = coarse
        return _remainder(big, divisor // step) * step + small
    if len(rest.terms) == 1 and rest.const == 0 and rest.terms[0][1] == 1:
        atom = rest.terms[0][0]
        if isinstance(atom, Remainder) and atom.divisor % divisor == 0:
            return _remainder(atom.value, divisor)
    return Linear(((Remainder(rest, divisor), 1),), 0)


def replace_axes(value: Linear, table: Mapping[Axis, Linear]) -> Linear:
    """``value`` with axes replaced by other indices, simplified again."""
    parts: list[tuple[Linear, int]] = [(constant(value.const), 1)]
    for atom, factor in value.terms:
        if isinstance(atom, Axis):
            new = table.get(atom)
            parts.append((variable(atom) if new is None else new, factor))
        elif isinstance(atom, Quotient):
            parts.append((replace_axes(atom.value, table) // atom.divisor, factor))
        elif isinstance(atom, Remainder):
            parts.append((replace_axes(atom.value, table) % atom.divisor, factor))
        else:
            parts.append((Linear(((atom, 1),), 0), factor))
    return _sum(parts)


def linearize(index: Sequence[Linear], shape: Sequence[int]) -> Linear:
    """The row-major position of ``index`` in an array of ``shape``."""
    parts: list[tuple[Linear, int]] = []
    stride = 1
    for position, extent in zip(reversed(index), reversed(shape), strict=True):
        parts.append((position, stride))
        stride *= extent
    return _sum(parts) if parts else constant(0)


def delinearize(position: Linear, shape: Sequence[int]) -> tuple[Linear, ...]:
    """The index of a row-major position in an array of ``shape``."""
    out: list[Linear] = []
    for number, extent in reversed(list(enumerate(shape))):
        if extent <= 1:
            out.append(constant(0))
        elif number == 0:
            out.append(position)
        else:
            out.append(position % extent)
            position = position // extent
    return tuple(reversed(out))


def reshape_index(
    index: Sequence[Linear], shape: Sequence[int], source: Sequence[int]
) -> tuple[Linear, ...]:
    """Where element ``index`` of an array reshaped to ``shape`` lies in the ``source`` shape.

    Runs of axes with equal products are matched first, so that untouched axes stay untouched.
    """
    out: list[Linear] = []
    if 0 in source:  # no element is ever read: any index will do
        return (constant(0),) * len(source)
    i = j = 0
    while i < len(source) or j < len(shape):
        start_i, start_j = i, j
        left = right = 1
        if i < len(source):
            left, i = source[i], i + 1
        if j < len(shape):
            right, j = shape[j], j + 1
        while left != right:
            if left < right and i < len(source):
                left, i = left * source[i], i + 1
            elif j < len(shape):
                right, j = right * shape[j], j + 1
            else:
                left, i = left * source[i], i + 1
        part = linearize(index[start_j:j], shape[start_j:j])
        out.extend(delinearize(part, source[start_i:i]))
    return tuple(out)


# Kernel expressions: what is computed at one point of a kernel's grid.
#
# They extend the scalar expressions by what only has a meaning inside of a kernel: loads, names,
# the point itself, and guards. Apart from the rest of the kernel IR, since the ops' rules build
# them.


@dataclass(frozen=True)
class Guard:
    """The condition ``low <= index < high``."""

    index: Linear
    low: int
    high: int


class Var(Expr):
    """A value named by an earlier Let, Reduce, Scan or Keep (read at the current loop step)."""

    __slots__ = ("name",)

    def __init__(self, name: str, dtype: DType) -> None:
        self.name = name
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"%{self.name}"


class Load(Expr):
    """An element of a buffer, converted to its compute type; ``index`` has one entry per axis."""

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: str, index: tuple[Linear, ...], dtype: DType) -> None:
        self.buffer = buffer
        self.index = index
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{self.buffer}[{', '.join(map(str, self.index))}]"


class Position(Expr):
    """An index as an int64 value."""

    __slots__ = ("index",)

    def __init__(self, index: Linear, dtype: DType) -> None:
        self.index = index
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"int64({self.index})"


class Guarded(Expr):
    """``value`` where all guards hold, else ``other``; ``value`` is not evaluated elsewhere."""

    __slots__ = ("guards", "other", "value")

    def __init__(self, guards: tuple[Guard, ...], value: Expr, other: Expr) -> None:
        self.guards = guards
        self.value = value
        self.other = other
        self.dtype = value.dtype

    def __repr__(self) -> str:
        tests = " and ".join(f"{g.low} <= {g.index} < {g.high}" for g in self.guards)
        return f"({self.value!r} if {tests} else {self.other!r})"


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of a kernel expression."""
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Guarded):
        return (expr.value, expr.other)
    return ()


def sub_expressions(expr: Expr) -> Iterator[Expr]:
    """Every distinct sub-expression, operands first; iterative."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        item, ready = stack.pop()
        if ready:
            yield item
        elif id(item) not in seen:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((o, False) for o in reversed(operands(item)))

"""What is known about integers: linear inequalities, and proofs from them.

``Facts.proves(form)`` shows ``form >= 0`` by adding known inequalities up (Farkas' lemma; the
multiples are found by an exact simplex method, see ``codegen/proof/facts.py``). It shares no code
with the index algebra that the kernels were generated with, so that a slip there is found here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import gcd
from typing import Any

from lazyt.errors import VerifyError

# Lower bounds of linear forms over integers with known inequalities, exactly.
#
# A sum of multiples of inequalities ``h >= 0`` that exceeds a form in no factor bounds the form
# from below. The search starts with the bound that the unknowns' ranges give, and exchanges one
# inequality for another while the bound grows: the simplex method on the dual problem, in rational
# numbers, with Bland's rule against cycles ("New finite pivoting rules for the simplex method",
# 1977).


Row = dict[int, Fraction]
#: Exchanges before giving up. Proofs about kernels take a dozen.
MOST_EXCHANGES = 300


@dataclass(frozen=True)
class Inequality:
    """``const + sum(factors[j] * x[j]) >= 0``."""

    factors: Mapping[int, int]
    const: int


def exceeds(
    goal: Inequality,
    enough: int,
    facts: Sequence[Inequality],
    ranges: Sequence[tuple[int, int]],
) -> bool:
    """Whether the form of ``goal`` is proved to be more than ``enough`` wherever ``facts`` hold.

    ``ranges`` holds the least and the greatest value of each unknown. True as well when the facts
    contradict each other.
    """
    return _Search(goal, facts, ranges).run(enough)


class _Search:
    """The tableau: one row for each unknown, one column for each inequality.

    Columns are the facts, then ``x[j] <= high``, then ``x[j] >= low``; unknowns are counted from
    their least value, so the latter read ``x[j] >= 0``. ``value`` is the current bound, ``gain``
    what a multiple of each inequality would add to it.
    """

    def __init__(
        self, goal: Inequality, facts: Sequence[Inequality], ranges: Sequence[tuple[int, int]]
    ) -> None:
        lows = [low for low, _ in ranges]
        spans = [high - low for low, high in ranges]
        first = len(facts)
        self.value = Fraction(_moved(goal, lows))
        self.gain: Row = {}
        for column, fact in enumerate(facts):
            self.gain[column] = Fraction(-_moved(fact, lows))
        self.rows: list[Row] = []
        self.sums: list[Fraction] = []
        self.basis: list[int] = []
        for j, span in enumerate(spans):
            row = {c: Fraction(f.factors[j]) for c, f in enumerate(facts) if j in f.factors}
            upper, lower, total = first + j, first + len(spans) + j, goal.factors.get(j, 0)
            row[upper], row[lower] = Fraction(-1), Fraction(1)
            self.gain[upper] = Fraction(-span)
            if total < 0:
                row = {c: -f for c, f in row.items()}
                self._take_out(row, upper, abs(total))
            self.rows.append(row)
            self.sums.append(Fraction(abs(total)))
            self.basis.append(upper if total < 0 else lower)

    def _take_out(self, row: Row, column: int, total: Fraction | int) -> None:
        """Expresses the bound without the inequality that ``row`` defines."""
        gain = self.gain.get(column)
        if not gain:
            return
        self.value += gain * total
        for c, factor in row.items():
            left = self.gain.get(c, 0) - gain * factor
            self.gain[c] = Fraction(left)
        del self.gain[column]

    def run(self, enough: int) -> bool:
        """Exchanges inequalities until the bound is more than ``enough`` or cannot grow."""
        for _ in range(MOST_EXCHANGES):
            if self.value > enough:
                return True
            column = min((c for c, gain in self.gain.items() if gain > 0), default=None)
            if column is None:
                return False
            ratios = [
                (self.sums[n] / row[column], self.basis[n], n)
                for n, row in enumerate(self.rows)
                if row.get(column, 0) > 0
            ]
            if not ratios:
                return True  # the bound grows without end: no values satisfy the facts
            self._exchange(min(ratios)[2], column)
        return False

    def _exchange(self, number: int, column: int) -> None:
        """The inequality of ``column`` takes the place of row ``number``'s."""
        pivot = self.rows[number].get(column, Fraction(1))
        chosen = {c: f / pivot for c, f in self.rows[number].items()}
        total = self.sums[number] / pivot
        for n, row in enumerate(self.rows):
            factor = row.get(column)
            if n == number or not factor:
                continue
            for c, f in chosen.items():
                left = row.get(c, 0) - factor * f
                if left:
                    row[c] = Fraction(left)
                else:
                    row.pop(c, None)
            self.sums[n] -= factor * total
        self.rows[number], self.sums[number] = chosen, total
        self.basis[number] = column
        self._take_out(chosen, column, total)


def _moved(form: Inequality, lows: Sequence[int]) -> int:
    """The constant when unknowns are counted from their least values."""
    return form.const + sum(f * lows[j] for j, f in form.factors.items())


Range = tuple[int, int]
#: Values of 64-bit integers; forms that may leave it might wrap around, and count as unknown.
WHOLE: Range = (-(1 << 63), (1 << 63) - 1)


class Atom:
    """An unknown integer.

    Attributes:
        number: creation order; atoms are defined through earlier ones.
        low, high: its range where it was made.
        options: forms of which it equals one, when it came from a choice.
        least: whether it is the least (True) or the greatest (False) of them, None for neither.
        quotient: the form and the divisor whose quotient it is.
    """

    __slots__ = ("high", "least", "low", "name", "number", "options", "quotient")
    _numbers = count()

    def __init__(
        self,
        name: str,
        bounds: Range,
        options: tuple[Form, ...] = (),
        least: bool | None = None,
    ) -> None:
        self.number = next(Atom._numbers)
        self.name = name
        self.low, self.high = bounds
        self.options = options
        self.least = least
        self.quotient: tuple[Form, int] | None = None


Terms = tuple[tuple[Atom, int], ...]


@dataclass(frozen=True, slots=True)
class Form:
    """``const + sum(factor * atom)``, atoms in order of their number."""

    terms: Terms
    const: int

    def __add__(self, other: Form) -> Form:
        return combine(self, 1, other, 1)

    def __sub__(self, other: Form) -> Form:
        return combine(self, 1, other, -1)

    def times(self, factor: int) -> Form:
        """The form multiplied by a number."""
        if factor == 0:
            return number(0)
        return Form(tuple((a, c * factor) for a, c in self.terms), self.const * factor)

    def shifted(self, amount: int) -> Form:
        """The form plus a number."""
        return Form(self.terms, self.const + amount)

    def factor(self, atom: Atom) -> int:
        """The factor of an atom, 0 where it does not occur."""
        return next((c for a, c in self.terms if a is atom), 0)

    def replaced(self, atom: Atom, value: Form) -> Form:
        """The form with ``value`` in place of ``atom``."""
        rest = Form(tuple(t for t in self.terms if t[0] is not atom), self.const)
        return combine(rest, 1, value, self.factor(atom))


def number(value: int) -> Form:
    """A known integer."""
    return Form((), value)


def unknown(atom: Atom) -> Form:
    """The form that is one atom."""
    return Form(((atom, 1),), 0)


def combine(left: Form, scale_left: int, right: Form, scale_right: int) -> Form:
    """``scale_left * left + scale_right * right``."""
    factors = {a: c * scale_left for a, c in left.terms}
    for atom, factor in right.terms:
        factors[atom] = factors.get(atom, 0) + factor * scale_right
    terms = tuple(sorted(((a, c) for a, c in factors.items() if c), key=_number))
    return Form(terms, left.const * scale_left + right.const * scale_right)


def _number(term: tuple[Atom, int]) -> int:
    return term[0].number


def tighten(fact: Form) -> Form:
    """An inequality that holds for the same integers, with the smallest factors."""
    divisor = gcd(*(c for _, c in fact.terms))
    if divisor <= 1:
        return fact
    return Form(tuple((a, c // divisor) for a, c in fact.terms), fact.const // divisor)


class Facts:
    """Inequalities ``form >= 0`` that hold at the current place of a program.

    Attributes:
        impossible: whether they contradict each other: nothing runs here.
    """

    def __init__(self) -> None:
        self.impossible = False
        self._about: dict[Atom, list[Form]] = {}
        self._least: dict[Terms, int] = {}
        self._ranges: dict[Atom, Range] = {}
        self._quotients: dict[tuple[Form, int], Form] = {}
        self._undo: list[Callable[[], object]] = []

    @contextmanager
    def scope(self, facts: Iterable[Form] = ()) -> Iterator[None]:
        """Facts that are added inside hold inside only."""
        mark, before = len(self._undo), self.impossible
        for fact in facts:
            self.add(fact)
        yield
        while len(self._undo) > mark:
            self._undo.pop()()
        self.impossible = before

    # ------------------------------------------------------------- learning

    def add(self, fact: Form) -> None:
        """Takes note of ``fact >= 0``."""
        fact = tighten(fact)
        if not fact.terms:
            self.impossible |= fact.const < 0
            return
        old = self._least.get(fact.terms)
        if old is not None and old <= fact.const:
            return
        self._set(self._least, fact.terms, fact.const)
        for atom, factor in fact.terms:
            known = self._about.setdefault(atom, [])
            known.append(fact)
            self._undo.append(known.pop)
            self._narrow(atom, factor, fact)
            if atom.least is (factor > 0):  # at most the least option, at least the greatest
                for option in atom.options:
                    self.add(fact.replaced(atom, option))

    def _narrow(self, atom: Atom, factor: int, fact: Form) -> None:
        """Uses ``fact`` to narrow the range of one of its atoms."""
        rest = sum(
            max(c * e for e in self.range_of_atom(a)) for a, c in fact.terms if a is not atom
        )
        rest += fact.const
        low, high = self.range_of_atom(atom)
        if factor > 0:
            low = max(low, -(rest // factor))
        else:
            high = min(high, rest // -factor)
        if (low, high) != self.range_of_atom(atom):
            self._set(self._ranges, atom, (low, high))
            self.impossible |= low > high

    def _set(self, table: dict[Any, Any], key: object, value: object) -> None:
        old = table.get(key)
        if old is None:
            self._undo.append(lambda: table.pop(key))
        else:
            self._undo.append(lambda: table.update({key: old}))
        table[key] = value

    # -------------------------------------------------------------- ranges

    def range_of_atom(self, atom: Atom) -> Range:
        """The range of an unknown here."""
        return self._ranges.get(atom) or (atom.low, atom.high)

    def range_of(self, form: Form) -> Range:
        """A range of a form: from those of its atoms, and from facts about the same atoms."""
        low = high = form.const
        for atom, factor in form.terms:
            ends = [e * factor for e in self.range_of_atom(atom)]
            low, high = low + min(ends), high + max(ends)
        divisor = gcd(*(c for _, c in form.terms))
        if divisor:  # facts are kept with factors that have no common divisor
            terms = tuple((a, c // divisor) for a, c in form.terms)
            least = self._least.get(terms)
            if least is not None:
                low = max(low, form.const - divisor * least)
            least = self._least.get(tuple((a, -c) for a, c in terms))
            if least is not None:
                high = min(high, form.const + divisor * least)
        return low, high

    # -------------------------------------------------------------- proving

    def proves(self, goal: Form) -> bool:
        """Whether ``goal >= 0`` follows from the facts. False when no proof was found."""
        if self.impossible or self.range_of(goal)[0] >= 0:
            return True
        if not goal.terms:
            return False
        if self._bound(goal):
            return True
        for atom, _ in reversed(goal.terms):
            if atom.options:
                return all(self._holds_when(goal, atom, option) for option in atom.options)
        return any(self._limit(a) for a, _ in goal.terms) and self.proves(goal)

    def _limit(self, atom: Atom) -> bool:
        """Whether the largest quotient is less than ranges of single unknowns said: it is a whole
        number, which inequalities alone do not tell."""
        if atom.quotient is None:
            return False
        value, divisor = atom.quotient
        low, high = self.range_of_atom(atom)
        most = high
        while low < most:
            middle = (low + most) // 2
            if self._bound(number(middle * divisor + divisor - 1) - value):
                most = middle
            else:
                low = middle + 1
        self.add(number(most) - unknown(atom))
        return most < high

    def _holds_when(self, goal: Form, atom: Atom, value: Form) -> bool:
        difference = unknown(atom) - value
        with self.scope((difference, difference.times(-1))):
            proved = self.proves(goal.replaced(atom, value))
        return proved

    def _bound(self, goal: Form) -> bool:
        """Whether the largest provable lower bound of a goal reaches what integers need."""
        atoms: dict[Atom, Range] = {}
        facts: dict[Form, None] = {}
        work = [a for a, _ in goal.terms]
        while work:
            atom = work.pop()
            if atom in atoms:
                continue
            atoms[atom] = self.range_of_atom(atom)
            for fact in self._about.get(atom, ()):
                facts[fact] = None
                work.extend(a for a, _ in fact.terms)
        divisor = gcd(*(c for _, c in goal.terms))
        enough = divisor * (-(goal.const // divisor) - 1) + goal.const
        column = {atom: n for n, atom in enumerate(atoms)}

        def indexed(form: Form) -> Inequality:
            return Inequality({column[a]: c for a, c in form.terms}, form.const)

        return exceeds(indexed(goal), enough, [indexed(f) for f in facts], list(atoms.values()))

    # ------------------------------------------------------- derived values

    def choice(self, options: tuple[Form, ...], least: bool | None) -> Form:
        """An integer that is one of ``options``: the least, the greatest (False), or any (None)."""
        ranges = [self.range_of(o) for o in options]
        pick = {None: (min, max), True: (min, min), False: (max, max)}[least]
        bounds = (pick[0](r[0] for r in ranges), pick[1](r[1] for r in ranges))
        made = unknown(Atom("choice", bounds, options, least))
        for option in options if least is not None else ():
            self.add(option - made if least else made - option)
        return made

    def quotient(self, value: Form, divisor: int) -> Form:
        """``value // divisor`` (floor)."""
        whole = Form(
            tuple((a, c // divisor) for a, c in value.terms if c % divisor == 0),
            value.const // divisor,
        )
        rest = Form(tuple(t for t in value.terms if t[1] % divisor), value.const % divisor)
        low, high = (end // divisor for end in self.range_of(rest))
        if low == high:
            return whole.shifted(low)
        made = self._quotients.get((rest, divisor))
        if made is None:
            made = self._made_quotient(rest, divisor, (low, high))
            self._set(self._quotients, (rest, divisor), made)
            self.add(rest - made.times(divisor))
            self.add(made.times(divisor).shifted(divisor - 1) - rest)
        # Conditions around this place may say more than was known when it was made.
        self.add(made.shifted(-low))
        self.add(number(high) - made)
        return whole + made

    def _made_quotient(self, value: Form, divisor: int, bounds: Range) -> Form:
        if value.const == 0 and len(value.terms) == 1 and value.terms[0][1] == 1:
            inner = value.terms[0][0].quotient
            if inner is not None:  # (x // a) // b is x // (a * b)
                return self.quotient(inner[0], inner[1] * divisor)
        atom = Atom("quotient", bounds)
        atom.quotient = (value, divisor)
        return unknown(atom)


# What names of memory stand for in the proof of ``codegen/proof/c_bounds.py``, and what may be
# wrong with it.


@dataclass(frozen=True)
class Violation:
    """An access that was not proved to be inside.

    Attributes:
        line: its line in the kernel's text.
        access: the access as C text.
        reason: what is wrong.
        interval: the range found for the index or byte, None when nothing is known about it.
        extent: how many elements or bytes there are, None when it is not about a size.
        column: where in the line.
    """

    line: int
    access: str
    reason: str
    interval: Range | None = None
    extent: int | None = None
    column: int = 0

    def __str__(self) -> str:
        text = f"line {self.line}: {self.access}: {self.reason}"
        if self.extent is not None:
            found = "unknown" if self.interval is None else "{}..{}".format(*self.interval)
            text += f" (found {found}, allowed 0..{self.extent - 1})"
        return text


@dataclass(eq=False)
class Memory:
    """An argument, or the piece of one that begins ``start`` bytes into it.

    ``node`` is where the piece was cut off.
    """

    whole: str
    start: Form
    size: int
    node: Any = None


@dataclass(frozen=True)
class Pointer:
    """``offset`` bytes into ``memory``; elements have ``item`` bytes."""

    memory: Memory
    offset: Form
    item: int


@dataclass(frozen=True)
class Array:
    """A local array."""

    extents: tuple[int, ...]


def size_of(kind: str) -> int:
    """Bytes of one of the prelude's types, which end in their bits (booleans take eight)."""
    found = re.fullmatch(r"lz_[a-z]+(\d+)", kind)
    if not found:
        raise VerifyError(f"the check of C does not know the size of {kind}")
    return int(found[1]) // 8

"""Lower bounds of linear forms over integers with known inequalities, exactly.

A sum of multiples of inequalities ``h >= 0`` that exceeds a form in no factor bounds the form from
below. The search starts with the bound that the unknowns' ranges give, and exchanges one inequality
for another while the bound grows: the simplex method on the dual problem, in rational numbers, with
Bland's rule against cycles ("New finite pivoting rules for the simplex method", 1977).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

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

"""Proof that a kernel stays inside its buffers, by interval analysis of its indices.

Every loop axis has a range; conditions that hold at an access (of its stage, its store, or the
guarded values around it) narrow the ranges of the axes and of the forms that they test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lazyt.ir.index import (
    Atom,
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Quotient,
    Remainder,
    axes_of,
    operands,
)
from lazyt.ir.kernel import ContractPhase, Kernel, Phase, Statement, Store
from lazyt.ir.printer import kernel_lines
from lazyt.ir.scalar import Expr
from lazyt.ir.verifier import failure

Range = tuple[int, int]
Guards = tuple[Guard, ...]
#: Rounds of narrowing axes by conditions over several axes.
ROUNDS = 3


def _meet(a: Range, b: Range) -> Range:
    return (max(a[0], b[0]), min(a[1], b[1]))


def _scaled(bounds: Range, factor: int) -> Range:
    low, high = bounds[0] * factor, bounds[1] * factor
    return (low, high) if factor >= 0 else (high, low)


def _quotient_range(bounds: Range, divisor: int) -> Range:
    return (bounds[0] // divisor, bounds[1] // divisor)


def _remainder_range(bounds: Range, divisor: int) -> Range:
    low, high = bounds
    if low // divisor == high // divisor:
        return (low % divisor, high % divisor)
    return (0, divisor - 1)


class Facts:
    """What is known about indices where a set of conditions holds.

    Attributes:
        impossible: whether the conditions contradict each other, so that nothing runs there.
    """

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.known: list[tuple[Linear, Range]] = [(g.index, (g.low, g.high - 1)) for g in guards]
        self.ranges: dict[Atom, Range] = {}
        for _ in range(ROUNDS if len(self.known) > 1 else 1):
            before = dict(self.ranges)
            for index, bounds in self.known:
                self._narrow(index, bounds)
            if before == self.ranges:
                break
        self.impossible = any(low > high for low, high in self.ranges.values()) or any(
            _meet(self.range_of(index), bounds)[0] > _meet(self.range_of(index), bounds)[1]
            for index, bounds in self.known
        )

    def _narrow(self, index: Linear, bounds: Range) -> None:
        """Uses ``low <= index <= high`` to narrow each term, given the ranges of the others."""
        for atom, factor in index.terms:
            low, high = self._direct(Linear(tuple(t for t in index.terms if t[0] != atom), 0))
            least, most = bounds[0] - index.const - high, bounds[1] - index.const - low
            if factor < 0:
                least, most, factor = -most, -least, -factor
            new = _meet(self._atom(atom), (-(-least // factor), most // factor))
            self.ranges[atom] = new

    def _atom(self, atom: Atom, relative: bool = True) -> Range:
        """The range of an axis, a quotient, a remainder or a datum."""
        if isinstance(atom, Axis | Datum):
            bounds = atom.bounds
        elif isinstance(atom, Quotient):
            bounds = _quotient_range(self._inner(atom.value, relative), atom.divisor)
        else:
            bounds = _remainder_range(self._inner(atom.value, relative), atom.divisor)
        known = self.ranges.get(atom)
        return bounds if known is None else _meet(bounds, known)

    def _inner(self, index: Linear, relative: bool) -> Range:
        return self.range_of(index) if relative else self._direct(index, False)

    def _direct(self, index: Linear, relative: bool = True) -> Range:
        """The range of an index from the ranges of its terms.

        ``relative``: whether forms inside of divisions are compared with the conditions too. A
        difference with a condition must not be, else the search would not end.
        """
        low = high = index.const
        for atom, factor in index.terms:
            small, large = _scaled(self._atom(atom, relative), factor)
            low, high = low + small, high + large
        return (low, high)

    def _derived(self, index: Linear) -> Iterable[tuple[Linear, Range]]:
        """Conditions, and what follows for multiples and quotients that ``index`` may hold."""
        factors = dict(index.terms)
        divisors = {a.divisor for a, _ in index.terms if isinstance(a, Quotient | Remainder)}
        for form, bounds in self.known:
            yield form, bounds
            atom, factor = form.terms[0] if form.terms else (None, 1)
            ratio, rest = divmod(factors.get(atom, 0), factor) if atom else (0, 0)
            if rest == 0 and ratio not in (0, 1):
                yield form * ratio, _scaled(bounds, ratio)
            for divisor in divisors:
                yield form // divisor, _quotient_range(bounds, divisor)

    def range_of(self, index: Linear) -> Range:
        """The narrowest range found for an index: direct, or relative to a known condition."""
        best = self._direct(index)
        for form, bounds in self._derived(index):
            if not axes_of(form) & axes_of(index):
                continue
            low, high = self._direct(index - form, False)
            best = _meet(best, (low + bounds[0], high + bounds[1]))
        return best


class _Checker:
    """Accesses of one kernel that could not be proved."""

    def __init__(self, kernel: Kernel) -> None:
        self.shapes = {b.name: b.shape for b in kernel.buffers}
        self.complaints: dict[int, list[str]] = {}
        self.facts: dict[Guards, Facts] = {}

    def access(self, item: object, what: str, index: Sequence[Linear], guards: Guards) -> None:
        """One access under conditions; ``what`` is ``load a`` or ``store b``."""
        facts = self.facts.get(guards)
        if facts is None:
            facts = self.facts[guards] = Facts(guards)
        if facts.impossible:
            return
        shape = self.shapes[what.split()[1]]
        for axis, (position, extent) in enumerate(zip(index, shape, strict=True)):
            low, high = facts.range_of(position)
            if low < 0 or high >= extent:
                where = f"{what}: index {position} of axis {axis} lies in {low}..{high}"
                text = f"{where}, the buffer ends at {extent - 1}"
                found = self.complaints.setdefault(id(item), [])
                if text not in found:
                    found.append(text)

    def expr(self, item: object, root: Expr, guards: Guards) -> None:
        """Every load of an expression, under the conditions around it. Iterative."""
        seen: set[tuple[int, Guards]] = set()
        stack: list[tuple[Expr, Guards]] = [(root, guards)]
        while stack:
            expr, held = stack.pop()
            if (id(expr), held) in seen:
                continue
            seen.add((id(expr), held))
            if isinstance(expr, Load):
                self.access(item, f"load {expr.buffer}", expr.index, held)
            elif isinstance(expr, Guarded):
                inside = held + tuple(g for g in expr.guards if g not in held)
                stack += [(expr.other, held), (expr.value, inside)]
            else:
                stack.extend((o, held) for o in operands(expr))

    def statements(self, body: Sequence[Statement], guards: Guards) -> None:
        """Loads and stores of statements under a stage's condition."""
        for item in body:
            if isinstance(item, Store):
                held = guards + item.guards
                self.expr(item, item.value, held)
                self.access(item, f"store {item.buffer}", item.index, held)
            else:
                self.expr(item, item.value, guards)

    def phase(self, phase: Phase) -> None:
        """All stages of a phase; loops without steps access nothing."""
        if any(a.extent < 1 for a in phase.grid):
            return
        for stage in phase.stages:
            if stage.axis is None or stage.axis.extent > 0:
                self.statements(stage.body, (stage.guard,) if stage.guard else ())

    def contraction(self, phase: ContractPhase) -> None:
        """Operands over all axes, the epilogue over the result's."""
        if any(a.extent < 1 for a in phase.batch + phase.rows + phase.columns):
            return
        if all(a.extent > 0 for a in phase.inner):
            self.expr(phase.left, phase.left, ())
            self.expr(phase.right, phase.right, ())
        self.statements(phase.epilogue, ())


def check_bounds(kernel: Kernel) -> None:
    """Prove every load and store of a kernel inside its buffer.

    The kernel must pass ``verify_kernel``, which compares the sizes of what a CallPhase gets.
    Raises VerifyError, with buffer, index and range beside the line, for accesses that are outside
    or cannot be proved inside.
    """
    checker = _Checker(kernel)
    for phase in kernel.phases:
        if isinstance(phase, Phase):
            checker.phase(phase)
        elif isinstance(phase, ContractPhase):
            checker.contraction(phase)
    if checker.complaints:
        raise failure(f"kernel {kernel.name}", kernel_lines(kernel), checker.complaints)

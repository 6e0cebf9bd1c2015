"""Proof that a kernel stays inside its buffers, by interval analysis of its indices.

Every loop axis has a range; conditions that hold at an access (of its stage, its store, or the
guarded values around it) narrow the ranges of the axes and of the forms that they test. An index
that is read from data has to be clamped by the kernel: C takes it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lazyt.ir.dtypes import DType
from lazyt.ir.index import (
    Atom,
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Remainder,
    Var,
    axes_of,
    operands,
    sub_expressions,
)
from lazyt.ir.kernel import (
    ContractPhase,
    Keep,
    Kernel,
    Let,
    Phase,
    Reduce,
    Scan,
    Statement,
    Store,
)
from lazyt.ir.printer import failure, kernel_lines
from lazyt.ir.scalar import Call, Const, Expr, real_number

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
            for finer, found in self.ranges.items():  # x // 4 is (x // 2) // 2
                if isinstance(finer, Quotient) and finer.value == atom.value:
                    ratio, rest = divmod(atom.divisor, finer.divisor)
                    if rest == 0 and ratio > 1:
                        bounds = _meet(bounds, _quotient_range(found, ratio))
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

    def implies(self, guards: Iterable[Guard]) -> bool:
        """Whether conditions hold wherever these do."""
        ranges = ((self.range_of(g.index), g) for g in guards)
        return all(low >= g.low and high < g.high for (low, high), g in ranges)

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


def type_range(dtype: DType) -> Range | None:
    """The numbers that an integer type has; None for floats."""
    bits = 8 * dtype.itemsize
    if dtype.kind == "b":
        return (0, 1)
    if dtype.kind == "u":
        return (0, (1 << bits) - 1)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else None


def _called_range(item: Call, parts: Sequence[Range | None]) -> Range | None:
    """What a function gives for integers of some ranges, before it wraps around."""
    name, known = item.fn.name, [part for part in parts if part is not None]
    if name == "where":
        known, parts = known[1:], parts[1:]
    if not known or len(known) < len(parts):
        return None
    (low, high), (least, most) = known[0], known[-1]
    if name == "cast":
        return (low, high)
    if name in ("maximum", "bound_below"):
        return (max(low, least), max(high, most))
    if name in ("minimum", "bound_above"):
        return (min(low, least), min(high, most))
    if name in ("add", "sub"):
        return (low + least, high + most) if name == "add" else (low - most, high - least)
    if name == "mul":
        corners = [a * b for a in (low, high) for b in (least, most)]
        return (min(corners), max(corners))
    if name == "where":
        return (min(low, least), max(high, most))
    if name == "mod" and least > 0:
        return (0, most - 1)
    if name == "floordiv" and least == most > 0:
        return (low // least, high // least)
    return None


def value_range(root: Expr, values: Mapping[str, Range | None]) -> Range | None:
    """Between which numbers an integer expression lies; None for floats. Iterative.

    ``values`` has the ranges of what statements have named.
    """
    done: dict[int, Range | None] = {}
    for item in sub_expressions(root):
        every = type_range(item.dtype)
        found: Range | None = None
        if isinstance(item, Const) and every is not None:
            found = (int(real_number(item.value)),) * 2
        elif isinstance(item, Position):
            found = item.index.bounds
        elif isinstance(item, Var):
            found = values.get(item.name)
        elif isinstance(item, Guarded):
            one, other = done[id(item.value)], done[id(item.other)]
            if one is not None and other is not None:
                found = (min(one[0], other[0]), max(one[1], other[1]))
        elif isinstance(item, Call):
            found = _called_range(item, [done[id(part)] for part in item.args])
        fits = every is not None and found is not None
        fits = fits and every[0] <= found[0] and found[1] <= every[1]  # type: ignore[index]
        done[id(item)] = found if fits else every
    return done[id(root)]


def _data_of(index: Linear) -> Iterator[Datum]:
    """All positions of an index that are read from data."""
    work: list[Linear] = [index]
    while work:
        for atom, _ in work.pop().terms:
            if isinstance(atom, Datum):
                yield atom
            elif isinstance(atom, Quotient | Remainder):
                work.append(atom.value)


class _BoundsChecker:
    """Accesses of one kernel that could not be proved."""

    def __init__(self, kernel: Kernel) -> None:
        self.shapes = {b.name: b.shape for b in kernel.buffers}
        self.complaints: dict[int, list[str]] = {}
        self.facts: dict[Guards, Facts] = {}
        self.values: dict[str, Range | None] = {}

    def complain(self, item: object, text: str) -> None:
        """Complain about a piece of the kernel, once."""
        found = self.complaints.setdefault(id(item), [])
        if text not in found:
            found.append(text)

    def data(self, item: object, index: Linear) -> None:
        """Positions that are read from data have to be clamped by the kernel."""
        for atom in _data_of(index):
            known = self.values.get(atom.name)
            if known is not None and (known[0] < 0 or known[1] >= atom.extent):
                low, high = known
                text = f"%{atom.name} lies in {low}..{high}"
                self.complain(item, f"{text}, and is not clamped to 0..{atom.extent - 1}")

    def name(self, item: Let | Keep | Reduce | Scan) -> None:
        """The range of what a statement names."""
        if isinstance(item, Let | Keep):
            self.values[item.name] = value_range(item.value, self.values)
        elif isinstance(item, Reduce | Scan):
            folds = isinstance(item, Reduce) and item.kind in ("max", "min")
            every = type_range(item.dtype)
            self.values[item.name] = value_range(item.value, self.values) if folds else every

    def access(self, item: object, what: str, index: Sequence[Linear], guards: Guards) -> None:
        """One access under conditions; ``what`` is ``load a`` or ``store b``."""
        facts = self.facts.get(guards)
        if facts is None:
            facts = self.facts[guards] = Facts(guards)
        if facts.impossible:
            return
        for position in index:
            self.data(item, position)
        shape = self.shapes[what.split()[1]]
        for axis, (position, extent) in enumerate(zip(index, shape, strict=True)):
            low, high = facts.range_of(position)
            if low < 0 or high >= extent:
                where = f"{what}: index {position} of axis {axis} lies in {low}..{high}"
                self.complain(item, f"{where}, the buffer ends at {extent - 1}")

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
                self.name(item)

    def phase(self, phase: Phase) -> None:
        """All stages of a phase; loops without steps access nothing."""
        self.values = {}
        if any(a.extent < 1 for a in phase.grid):
            return
        for stage in phase.stages:
            if stage.axis is None or stage.axis.extent > 0:
                self.statements(stage.body, (stage.guard,) if stage.guard else ())

    def contraction(self, phase: ContractPhase) -> None:
        """Operands over all axes, the epilogue over the result's."""
        self.values = {}
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
    checker = _BoundsChecker(kernel)
    for phase in kernel.phases:
        if isinstance(phase, Phase):
            checker.phase(phase)
        elif isinstance(phase, ContractPhase):
            checker.contraction(phase)
    if checker.complaints:
        raise failure(f"kernel {kernel.name}", kernel_lines(kernel), checker.complaints)

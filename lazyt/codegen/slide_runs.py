"""Runs along a lane, each read from one source.

What is put together of parts (a concatenation, padding) is chosen for every element. In a loop of
vectors a compiler loads from all parts, under masks; and where a mask is empty and what it covers
is no memory of the program, as before and behind a part, processors take hundreds of cycles to find
that out. So whatever is known before the loop is asked before it, and where a choice changes along
the lane, the loop ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_family import Expressions
from lazyt.codegen.contract_text import CText
from lazyt.codegen.slide import split_guards
from lazyt.ir.decisions import serves_all, slack
from lazyt.ir.index import Axis, Linear, axes_of, variable
from lazyt.ir.kernel import Statement
from lazyt.ir.point import Guard, Guarded, operands, sub_expressions
from lazyt.ir.scalar import Call, Expr, call

#: Loops of one run, from which on further choices are made inside of them.
_MANY_RUNS = 64
#: The same for statements: choices within choices.
_MANY_ASKED = 5

#: Least and largest values of indices without their constants.
Facts = Mapping[Linear, tuple[int, int]]


class Lane(NamedTuple):
    """A loop, and what is known there.

    Attributes:
        axis: its variable.
        begin, stop: its bounds, as text.
        target: where its elements go.
        facts: ranges of indices.
        depth: how many choices were made for it.
    """

    axis: Axis
    begin: str
    stop: str
    target: str
    facts: Facts
    depth: int = 0


class RunText:
    """Text of loops along lanes."""

    def __init__(self, e: Expressions) -> None:
        self.e = e
        self.out = CText()
        self._runs = 0

    def value(self, value: Expr) -> str:
        """An expression."""
        return ct.text(self.e.value(value))

    def condition(self, guards: Sequence[Guard]) -> str:
        """``if`` and the conjunction of guards; nothing where they always hold."""
        test = self.e.condition(guards)
        return "" if test is None else f"if ({ct.text(test)})"

    def fill_run(self, axis: Axis, begin: str, stop: str, target: str, value: Expr) -> None:
        """Loops over ``axis`` that store ``value`` in ``target``."""
        self._runs = 0
        self._fill(Lane(axis, begin, stop, target, {}), value)

    def ask_before(
        self,
        lane: Axis,
        body: Sequence[Statement],
        write: Callable[[Sequence[Statement]], None],
        facts: Facts | None = None,
        depth: int = 0,
    ) -> None:
        """``write`` a loop over ``lane`` for each way in which what does not depend on it may turn
        out: for statements without choices of that kind."""
        known = facts or {}
        found = (first_choice(s.value, lane, across=True) for s in body)
        choice = next((c for c in found if c is not None), None) if depth < _MANY_ASKED else None
        if choice is None:
            write(body)
            return
        fixed, _, _, _ = split_guards(choice, lane)
        test = self.condition([_open(guard, known) for guard in fixed])
        there = narrowed(known, fixed)
        inside = [replace(s, value=settled(s.value, there, holding=fixed)) for s in body]
        with self.out.block(test):
            self.ask_before(lane, inside, write, there, depth + 1)
        if test:
            there = excluded(known, choice.guards)
            outside = [replace(s, value=settled(s.value, there, choice.guards)) for s in body]
            with self.out.block("else"):
                self.ask_before(lane, outside, write, there, depth + 1)

    def _fill(self, lane: Lane, value: Expr) -> None:
        choice = first_choice(value, lane.axis) if self._runs < _MANY_RUNS else None
        if choice is None:
            self._runs += 1
            self.out.pragma("omp simd")
            with self.out.loop(lane.axis.name, lane.begin, lane.stop):
                self.out.add(f"{lane.target} = {self.value(value)};")
            return
        fixed, _, _, _ = split_guards(choice, lane.axis)
        test = self.condition([_open(guard, lane.facts) for guard in fixed])
        with self.out.block(test):
            self._cut(lane._replace(facts=narrowed(lane.facts, fixed)), value, choice)
        if test:
            facts = excluded(lane.facts, choice.guards)
            with self.out.block("else"):
                self._fill(_within(lane, facts), settled(value, facts, failing=choice.guards))

    def _cut(self, lane: Lane, value: Expr, choice: Guarded) -> None:
        """A run in pieces, where a choice changes along it."""
        asked = asked_before(choice, lane.axis)
        facts = narrowed(lane.facts, asked)
        inside = settled(value, facts, holding=asked)
        if not any(lane.axis in axes_of(g.index) for g in asked):
            self._fill(_within(lane, facts), inside)
            return
        span, place = split_guards(choice, lane.axis)[1], variable(lane.axis)
        assert span is not None
        low, high = self._clip(lane, span)
        pieces = [(low, high, facts, inside)]
        if low != lane.begin:
            facts = narrowed(lane.facts, [Guard(place, 0, span[0])])
            pieces.insert(0, (lane.begin, low, facts, settled(value, facts, choice.guards)))
        if high != lane.stop or serves_all():
            facts = narrowed(lane.facts, [Guard(place, span[1], lane.axis.extent)])
            pieces.append((high, lane.stop, facts, settled(value, facts, choice.guards)))
        for begin, stop, facts, piece in pieces:
            self._fill(_within(lane, facts)._replace(begin=begin, stop=stop), piece)

    def _clip(self, lane: Lane, span: tuple[int, int]) -> tuple[str, str]:
        """The part of ``span`` between the lane's bounds."""
        begin, stop = lane.begin, lane.stop
        if begin.isdecimal() and stop.isdecimal():
            low = min(max(span[0], int(begin)), int(stop))
            return str(low), str(min(max(span[1], low), int(stop)))
        out, n = self.out, lane.depth or ""
        out.add(f"const lz_i64 g_to{n} = {stop};")
        out.add(f"const lz_i64 g_in{n} = {begin} > {span[0]} ? {begin} : {span[0]};")
        out.add(f"const lz_i64 g_low{n} = g_in{n} < g_to{n} ? g_in{n} : g_to{n};")
        out.add(f"const lz_i64 g_out{n} = g_low{n} > {span[1]} ? g_low{n} : {span[1]};")
        out.add(f"const lz_i64 g_high{n} = g_out{n} < g_to{n} ? g_out{n} : g_to{n};")
        return f"g_low{n}", f"g_high{n}"


def _within(lane: Lane, facts: Facts) -> Lane:
    """The lane after one more choice."""
    return lane._replace(facts=facts, depth=lane.depth + 1)


def first_choice(value: Expr, lane: Axis, across: bool = False) -> Guarded | None:
    """The outermost part of an expression with a condition that is known before a loop over
    ``lane``, or, unless only what goes ``across`` counts, holds in one range of it."""
    seen: set[int] = set()
    work = [value]
    while work:
        item = work.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Guarded):
            asked = asked_before(item, lane)
            if any(not across or lane not in axes_of(g.index) for g in asked):
                return item
        work.extend(reversed(operands(item)))
    return None


def asked_before(choice: Guarded, lane: Axis) -> tuple[Guard, ...]:
    """The guards of which ``split_guards`` frees a value."""
    _, _, inside, _ = split_guards(choice, lane)
    if inside is choice.value:
        return choice.guards
    assert isinstance(inside, Guarded)
    return tuple(g for g in choice.guards if g not in inside.guards)


def narrowed(facts: Facts, guards: Sequence[Guard]) -> Facts:
    """Facts where guards hold."""
    found = dict(facts)
    for guard in guards:
        low, high = _range(guard.index, found)
        first, last = guard.low - guard.index.const, guard.high - 1 - guard.index.const
        found[guard.index - guard.index.const] = (max(low, first), min(high, last))
    return found


def excluded(facts: Facts, guards: Sequence[Guard]) -> Facts:
    """Facts where guards do not hold: something new where there is one."""
    if len(guards) != 1:
        return facts
    index = guards[0].index
    low, high = _range(index, facts)
    first, end = guards[0].low - index.const, guards[0].high - index.const
    if first <= low:
        low = max(low, end)
    elif end > high:
        high = min(high, first - 1)
    return {**facts, index - index.const: (low, high)}


def _open(guard: Guard, facts: Facts) -> Guard:
    """A guard without the bounds that facts imply."""
    low, high = _range(guard.index, facts)
    const, (least, most) = guard.index.const, guard.index.bounds
    return Guard(
        guard.index,
        least if facts and low + const >= guard.low else guard.low,
        most + 1 + slack(guard.index) if facts and high + const < guard.high else guard.high,
    )


def _range(index: Linear, facts: Facts) -> tuple[int, int]:
    """The range of an index without its constant."""
    form = index - index.const
    low, high = facts.get(form, form.bounds)
    if len(form.terms) == 1:  # as a multiple
        atom, factor = form.terms[0]
        known = facts.get(Linear(((atom, 1),), 0))
        if known is not None and factor > 0:
            low, high = max(low, known[0] * factor), min(high, known[1] * factor)
    return low, high


def settled(
    value: Expr,
    facts: Facts,
    failing: tuple[Guard, ...] | None = None,
    holding: Sequence[Guard] = (),
) -> Expr:
    """An expression without the conditions that facts decide, and those ``holding``; the guards
    ``failing`` do not hold all."""
    made: dict[int, Expr] = {}
    for item in sub_expressions(value):
        new = item
        if isinstance(item, Call):
            new = call(item.fn, *(made[id(a)] for a in item.args), dtype=item.dtype)
        elif isinstance(item, Guarded):
            inside, other = made[id(item.value)], made[id(item.other)]
            known = {g: True if g in holding else _decided(g, facts) for g in item.guards}
            left = tuple(g for g in item.guards if known[g] is None)
            if item.guards == failing or False in known.values():
                new = other
            else:
                new = Guarded(left, inside, other) if left else inside
        made[id(item)] = new
    return made[id(value)]


def _decided(guard: Guard, facts: Facts) -> bool | None:
    """Whether a guard holds; None where that is not known."""
    low, high = _range(guard.index, facts)
    if (low, high) == (guard.index - guard.index.const).bounds:
        return None  # other sizes may know less
    first, end = guard.low - guard.index.const, guard.high - guard.index.const
    if first <= low and high < end:
        return True
    return False if high < first or low >= end else None

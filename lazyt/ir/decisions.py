"""What only sizes decide: kernels that serve all sizes of a graph take it from one of them.

Passes and printers weigh bytes: which launch comes first, whether a sum is large, whether a product
asks for what it will read next. Each way is right at every size, one is faster. The kernels of a
graph that comes with many sizes (``plan/dynamic_shapes.py``) need one text, so what was decided for
the first of these sizes is decided for all of them. Only what is a matter of speed may be decided
here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from lazyt.ir.index import Linear

T = TypeVar("T")

#: Steps of windows, and windows, are hardly longer.
_SLACK = 16


class Decisions:
    """What was decided when a graph was compiled, in order."""

    def __init__(self) -> None:
        self._made: list[tuple[str, Any]] = []
        self._next = -1  # while they are repeated, the place of the next; negative while noted

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """A context that compiles a graph: the first one notes decisions, later ones repeat them,
        as long as the same things are decided."""
        repeats = bool(self._made)
        self._next = 0 if repeats else -1
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def decide(self, what: str, own: T) -> T:
        """What was decided about ``what`` here; ``own`` where nothing was."""
        if self._next < 0:
            self._made.append((what, own))
            return own
        place = self._next
        if place >= len(self._made) or self._made[place][0] != what:
            return own  # from here on this is another program
        self._next += 1
        found: T = self._made[place][1]
        return found


_current: ContextVar[Decisions | None] = ContextVar("lazyt_decisions", default=None)


def serves_all() -> bool:
    """Whether what is compiled is to serve all sizes of a graph."""
    return _current.get() is not None


def slack(index: Linear) -> int:
    """By how much a condition on ``index`` may hold everywhere and be tested all the same: windows
    that move by steps reach the end of what they move over at some sizes, and end a little before
    at others. What is the same everywhere is the end of such an axis.
    """
    step = max((abs(factor) for _, factor in index.terms), default=_SLACK)
    return _SLACK if serves_all() and 1 < step <= _SLACK else 0


def decide(what: str, own: T) -> T:
    """``own``, the better way for the sizes at hand, or that of the size that decides for all.

    Args:
        what: names the decision. For one graph the same have to be made, in the same order.
        own: what would be best; it must not refer to a graph.
    """
    decisions = _current.get()
    return own if decisions is None else decisions.decide(what, own)


# What processors of one instruction set do differently: it decides between forms of kernels.


class Traits(NamedTuple):
    """How a processor multiplies narrow numbers, how it reads, and its vector registers.

    Attributes:
        alone: kinds of groups of narrow numbers, ``bf16x2`` and ``i8x4``, that are multiplied
            faster one by one than in vectors of groups.
        tiled: kinds that there are matrix registers for.
        fetches: ``streams`` where it fetches the lines that a loop over points reads and writes as
            early as is of use: asking for them only takes time, and several streams at once hide
            where one begins.
        registers: ``32`` where there are as many of vectors of any width, as on aarch64; on x86-64
            only of those of 64 bytes.
    """

    alone: frozenset[str] = frozenset()
    tiled: frozenset[str] = frozenset()
    fetches: frozenset[str] = frozenset()
    registers: frozenset[str] = frozenset()


#: Narrow numbers in vectors of groups, all of them, and loops that ask for lines.
PLAIN = Traits()

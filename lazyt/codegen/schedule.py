"""Which kernels of a plan run at the same time: independent runs of one program, as one launch.

A step of an optimizer is the same small program for every parameter; one launch a parameter costs
more than the arithmetic. The order is a list schedule: kernels run in the order given, but one that
has independent partners waits until nothing else can run. Then all partners that are ready go as
one. Whatever waits keeps its operands alive, so only so many bytes of them may wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from lazyt.ir.graph import Node
from lazyt.ir.group import Group

#: Bytes of values of the plan's own that kernels may keep alive by waiting for each other.
MOST_WAITING_BYTES = 32 << 20
#: The same of a single kernel, where memory is to be saved.
SPARING_BYTES = 4096
#: Most kernels of one launch: what a launch needs per kernel is collected on the stack.
MOST_SEGMENTS = 1024


def schedule(
    groups: Sequence[Group], programs: Sequence[Hashable | None], kept: set[Node]
) -> list[list[int]]:
    """The numbers of the groups, in launches: those of one launch are independent of each other.

    ``groups`` are in an order in which they can run. Only groups with equal ``programs`` go
    together, those with None never. ``kept`` are values that stay in memory anyway. Where values
    are computed again to save memory only what keeps none alive waits for others.
    """
    common = {p for p, count in Counter(programs).items() if p is not None and count > 1}
    if not common:
        return [[number] for number in range(len(groups))]
    return _Schedule(groups, [p if p in common else None for p in programs], kept).run()


class _Schedule:
    """A list schedule under construction.

    Attributes:
        before: for every group a bit set of the groups that it needs, directly or not.
        waiting: groups that are ready and wait for partners, by program.
    """

    def __init__(
        self, groups: Sequence[Group], programs: Sequence[Hashable | None], kept: set[Node]
    ) -> None:
        self.programs = list(programs)
        sparing = any(group.again for group in groups)
        self.needs: list[set[int]] = []
        self.before: list[int] = []
        self.bytes: list[int] = []
        home: dict[Node, int] = {}
        ahead: set[int] = set()  # the last group that does not wait for partners
        for number, group in enumerate(groups):
            needs = {home[r] for r in group.reads if r in home}
            if group.again:  # made just before it is needed, to save memory: not earlier
                needs |= ahead
            self.needs.append(needs)
            before = 0
            for other in needs:
                before |= self.before[other] | 1 << other
            self.before.append(before)
            local = [r for r in group.reads if r in home] + group.stored
            self.bytes.append(sum(n.nbytes for n in local if n not in kept))
            home.update(dict.fromkeys(group.stored, number))
            if sparing and self.bytes[number] > SPARING_BYTES:
                self.programs[number] = None
            ahead = ahead if self.programs[number] is not None else {number}
        self.partners: dict[Hashable, list[int]] = {}
        for number, program in enumerate(self.programs):
            if program is not None:
                self.partners.setdefault(program, []).append(number)
        self.done: set[int] = set()
        self.waiting: dict[Hashable, list[int]] = {}
        self.launches: list[list[int]] = []

    def run(self) -> list[list[int]]:
        """All launches."""
        rest = list(range(len(self.programs)))
        while rest or self.waiting:
            rest = [number for number in rest if not self._take(number)]
            if self.waiting:
                self._launch(self.waiting.pop(self._best()))
        return self.launches

    def _take(self, number: int) -> bool:
        """Launches a group or lets it wait for partners; False when it is not ready."""
        if not self.needs[number] <= self.done:
            return False
        program = self.programs[number]
        if program is None or not self._has_partner(number, program):
            self._launch([number])
            return True
        waiting = self.waiting.get(program, [])
        size = sum(self.bytes[n] for n in waiting) + self.bytes[number]
        if waiting and (size > MOST_WAITING_BYTES or len(waiting) >= MOST_SEGMENTS):
            self._launch(self.waiting.pop(program))
        self.waiting.setdefault(program, []).append(number)
        return True

    def _has_partner(self, number: int, program: Hashable) -> bool:
        """Whether a group with the same program remains that does not need this one."""
        return any(
            other != number and other not in self.done and not self.before[other] >> number & 1
            for other in self.partners[program]
        )

    def _best(self) -> Hashable:
        """The program whose waiting groups have nothing to gain from more waiting: all its others
        are there, or need one of these. Else the one that waits longest."""
        for program, waiting in self.waiting.items():
            mine = sum(1 << n for n in waiting)
            others = (n for n in self.partners[program] if n not in self.done and n not in waiting)
            if all(self.before[n] & mine for n in others):
                return program
        return next(iter(self.waiting))

    def _launch(self, numbers: list[int]) -> None:
        self.launches.append(numbers)
        self.done.update(numbers)

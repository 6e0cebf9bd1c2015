"""How long values live between the launches of a plan, and the memory that this takes.

A plan is a list of groups, launched in order. A value may be stored more than once, when it is
computed again: every store starts a life of its own, and whoever reads the value reads the latest.
Results are not counted: they have memory of their own for the whole run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from lazyt.ir.graph import Node
from lazyt.ir.group import Group

#: Kinds of groups that may write over what they read.
WRITING = ("update", "scatter")


@dataclass(eq=False, slots=True)
class Life:
    """One stored value: from the launch that stores it to the last that reads it.

    Attributes:
        node: the value.
        first: number of the launch that stores it.
        reads: numbers of the launches that read it, ascending.
    """

    node: Node
    first: int
    reads: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """Number of the last launch that needs its memory."""
        return self.reads[-1] if self.reads else self.first


def find_lives(groups: Sequence[Group]) -> list[Life]:
    """The lives of all stored values, in the order of their stores."""
    current: dict[Node, Life] = {}
    lives: list[Life] = []
    for step, group in enumerate(groups):
        for node in group.reads:
            life = current.get(node)
            if life is not None:
                life.reads.append(step)
        for node in group.stored:
            current[node] = life = Life(node, step)
            lives.append(life)
    return lives


def memory_profile(groups: Sequence[Group], asked: Collection[Node]) -> list[int]:
    """Bytes of the values that live during each launch, those in ``asked`` left out."""
    changes = [0] * (len(groups) + 1)
    for life in find_lives(groups):
        if life.node not in asked:
            changes[life.first] += life.node.nbytes
            changes[_end(life, groups)] -= life.node.nbytes
    return list(accumulate(changes))[: len(groups)]


def _end(life: Life, groups: Sequence[Group]) -> int:
    """The launch from which on the memory is free: a write into a value that nobody reads
    afterwards takes it over."""
    writer = groups[life.last]
    if life.reads and writer.kind in WRITING and writer.head is not None:
        return life.last + (writer.head.inputs[0] is not life.node)
    return life.last + 1

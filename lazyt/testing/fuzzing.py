"""Random graphs through the compiler, looked at stage by stage: what ``lazyt fuzz`` runs.

Everything follows from a seed: which graph, which inputs, and so what is found.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lazyt.ir.graph import Node
from lazyt.testing.random_graphs import random_graph
from lazyt.testing.reducing import Told, reduce_graph, silent
from lazyt.testing.stages import Finding, examine, fresh

#: Inputs of the graphs, in turn: None for the data that the graph was made with, which is such that
#: arithmetic is exact.
TURNS: tuple[tuple[str, ...] | None, ...] = (
    None, ("uniform",), ("hostile", "positive"), ("zeros", "whole"),
)  # fmt: skip
#: How long a graph is made smaller, in seconds.
PATIENCE = 60.0


class Subject(NamedTuple):
    """What one seed stands for: a graph, and the kinds of its inputs (None for its own data)."""

    seed: int
    roots: list[Node]
    kinds: tuple[str, ...] | None


@dataclass(frozen=True)
class Fault:
    """What was found.

    Attributes:
        seed: of the graph.
        finding: which stage is wrong, and how.
        roots: the graph, over inputs without data where these do not matter.
        kinds: kinds of inputs that show it.
    """

    seed: int
    finding: Finding
    roots: list[Node]
    kinds: tuple[str, ...] | None


def subject(seed: int, most_nodes: int = 12) -> Subject:
    """The graph number ``seed`` and its inputs."""
    return Subject(seed, random_graph(seed, most_nodes).roots, TURNS[seed % len(TURNS)])


def look(item: Subject, target: str = "c") -> Fault | None:
    """What is wrong with the compiler, as far as one graph shows it."""
    found = examine(item.roots, kinds=item.kinds, seed=item.seed, target=target)
    return None if found is None else Fault(item.seed, found, item.roots, item.kinds)


def reduce_fault(
    fault: Fault, target: str = "c", tell: Told = silent, seconds: float = PATIENCE
) -> Fault:
    """The same fault, shown by a smaller graph: one that is wrong at the same stage.

    Args:
        fault: found by ``look``.
        target: as of ``look``.
        tell: is called with each step.
        seconds: no step begins later.
    """
    end = time.monotonic() + seconds
    kinds = fault.kinds or ("whole", "uniform")

    def again(roots: Sequence[Node]) -> Finding | None:
        found = examine(roots, kinds=kinds, seed=fault.seed, target=target)
        return found if found is not None and found.stage == fault.finding.stage else None

    def fails(roots: list[Node]) -> bool:
        return time.monotonic() < end and again(roots) is not None

    roots = fresh(fault.roots)
    if again(roots) is None:  # only its own data shows it
        return fault
    small = reduce_graph(roots, fails, tell)
    return Fault(fault.seed, again(small) or fault.finding, small, kinds)


def run(
    first: int, target: str = "c", seconds: float = 60.0, step: int = 1
) -> Iterator[tuple[int, Fault | None]]:
    """Looks at one graph after the other, from the seed ``first`` on in steps of ``step``, until
    the time is over; gives each seed with what was found."""
    end = time.monotonic() + seconds
    seed = first
    while time.monotonic() < end:
        yield seed, look(subject(seed), target)
        seed += step

"""Graphs through the compiler, looked at stage by stage: what ``lazyt fuzz`` runs.

A seed stands for a graph and its inputs: chains in which every three structural ops meet, functions
of elements, folds of rows that read one another (``exploring``), a random graph of all ops or of a
few, or a piece of a real program, a product every other time (``motifs``), large enough for the
special forms of kernels. After each come small graphs that only the passes are looked at with,
which takes a few milliseconds, and graphs that are grown from those that reached something new in
the compiler. These can be looked at again by their text.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyt import compiler
from lazyt.errors import LazytError
from lazyt.ir.graph import Node
from lazyt.runtime.value_checks import KINDS, index_limits, leaves_of, make_inputs
from lazyt.testing.coverage import Coverage
from lazyt.testing.exploring import Explorer, chain, chains, functions, rows
from lazyt.testing.motifs import PRODUCTS, motif
from lazyt.testing.programs import SETTINGS, Difference, Program, difference, make_program, minimize
from lazyt.testing.random_graphs import graph_of_few_ops, random_graph
from lazyt.testing.reducing import Told, reduce_graph, silent
from lazyt.testing.reproduction import reproduction
from lazyt.testing.stages import Finding, data_of, examine, fresh

#: Inputs of the graphs, in turn: None for the data that the graph was made with, which is such that
#: arithmetic is exact.
TURNS: tuple[tuple[str, ...] | None, ...] = (
    None, ("uniform",), ("hostile", "positive"), ("zeros", "whole"),
)  # fmt: skip
#: What the seeds stand for, in turn.
SORTS = ("chains", "random", "functions", "few ops", "rows", "motif", "product")
_FORESTS = {"chains": chains, "functions": functions, "rows": rows}
#: Chains, and grown graphs, that passes are looked at with after each graph.
CHAINS, GROWN = 60, 12
#: One graph of so many is compiled with all optimizations, the others with few.
OPTIMIZED = 4
#: Inputs of a kind for a small graph, at most: another graph shows more than other inputs.
ROUNDS = 2
#: How long a graph is made smaller, in seconds.
PATIENCE = 60.0


class Subject(NamedTuple):
    """A graph to look at.

    Attributes:
        seed: which it is, or belongs to.
        roots: the graph.
        kinds: of its inputs; None for its own data.
        passes_only: whether only passes are looked at.
    """

    seed: int
    roots: list[Node]
    kinds: tuple[str, ...] | None
    passes_only: bool = False


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


def subject(seed: int, most_nodes: int = 24) -> Subject:
    """The graph number ``seed`` and its inputs."""
    sort = SORTS[seed % len(SORTS)]
    turn = TURNS[seed // len(SORTS) % len(TURNS)]
    if sort == "motif":
        return Subject(seed, motif(seed), turn)
    if sort == "product":
        return Subject(seed, motif(seed, PRODUCTS), turn)
    if sort in _FORESTS:
        return Subject(seed, _FORESTS[sort](seed).roots, turn)
    make = random_graph if sort == "random" else graph_of_few_ops
    return Subject(seed, make(seed, most_nodes).roots, turn)


def look(item: Subject, target: str = "c", coverage: Coverage | None = None) -> Fault | None:
    """What is wrong with the compiler, as far as one graph shows it; what that reaches is noted in
    ``coverage``."""
    quick = item.seed % OPTIMIZED != 0
    with contextlib.nullcontext() if coverage is None else coverage.lines:
        found = examine(
            item.roots, kinds=item.kinds, seed=item.seed, target=target, watch=coverage,
            quick=quick, rounds=ROUNDS, passes_only=item.passes_only,
        )  # fmt: skip
    if found is None:
        return None
    if item.kinds is None:  # if others show it as well, its text and a seed are all that one needs
        again = examine(
            fresh(item.roots), kinds=KINDS, seed=item.seed, target=target, rounds=ROUNDS
        )
        if again is not None and again.stage == found.stage:
            return Fault(item.seed, again, item.roots, KINDS)
    return Fault(item.seed, found, item.roots, item.kinds)


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
    kinds = fault.kinds or KINDS
    passes_only = fault.finding.stage.startswith("pass ")  # no stage behind the wrong one is run
    if target == "c" and fault.finding.stage in ("fusion", "lowering", "memory plan"):
        target = ""

    def again(roots: Sequence[Node]) -> Finding | None:
        found = examine(
            roots, kinds=kinds, seed=fault.seed, target=target, rounds=ROUNDS,
            passes_only=passes_only,
        )  # fmt: skip
        return found if found is not None and found.stage == fault.finding.stage else None

    def fails(roots: list[Node]) -> bool:
        return time.monotonic() < end and again(roots) is not None

    roots = fresh(fault.roots)
    if again(roots) is None:  # only its own data shows it
        return fault
    small = reduce_graph(roots, fails, tell)
    for kind in kinds:  # the one that shows it alone
        found = examine(small, kinds=(kind,), seed=fault.seed, target=target)
        if found is not None and found.stage == fault.finding.stage:
            return Fault(fault.seed, found, small, (kind,))
    return Fault(fault.seed, again(small) or fault.finding, small, kinds)


def program_of(fault: Fault) -> str:
    """A Python program in PyTorch's style that computes what the fault is about."""
    roots = fresh(fault.roots)
    if fault.kinds is None:
        inputs = data_of(fault.roots)
    else:
        limits = index_limits(roots)
        inputs = list(make_inputs(leaves_of(roots), fault.kinds[0], fault.seed, limits).values())
    try:
        return reproduction(roots, inputs)
    except LazytError as error:  # what is wrong may stand in the way of this, too
        return f"# There is no program for this graph: {error}\n"


class Search:
    """Graphs one after the other: those of seeds, and between them those grown from what reached
    something new.

    Attributes:
        target: as of ``look``.
        coverage: what has been reached.
    """

    def __init__(self, target: str = "c") -> None:
        self.target = target
        self.coverage = Coverage(target, compiler.PASSES)
        self._explorer = Explorer(self.coverage)

    def subjects(self, seed: int) -> Iterator[Subject]:
        """The graph of a seed, chains, and graphs that are grown, one of them for all stages."""
        yield subject(seed)
        kinds = TURNS[seed // len(SORTS) % len(TURNS)]
        for number in range(seed * CHAINS, (seed + 1) * CHAINS):
            yield Subject(seed, chain(number).roots, kinds, True)
        for number in range(GROWN):
            roots = self._explorer.grow(seed * GROWN + number)
            if roots is not None:
                yield Subject(seed, roots, kinds or ("uniform",), number > 0)

    def look(self, item: Subject) -> Fault | None:
        """What is wrong with the compiler, as far as a graph shows it."""
        found = look(item, self.target, self.coverage)
        self._explorer.learn(item.roots)
        return found

    def reached(self) -> dict[str, Any]:
        """What has been reached, as JSON has it: the lines of each watched file, and how many
        graphs each pass has changed since this was asked last."""
        lines = {file: sorted(found) for file, found in self.coverage.lines.reached.items()}
        fired = dict(self.coverage.fired)
        self.coverage.fired.subtract(fired)
        return {"fired": fired, "lines": lines}


# -------------------------------------------------------------------------------- programs


class ProgramFault(NamedTuple):
    """A program that shows something else under a setting than when it is interpreted.

    Attributes:
        original, program: as it was made, and made smaller.
        setting: the name of the setting (``lazyt.testing.programs.SETTINGS``).
        found: what is first seen to differ.
    """

    original: Program
    program: Program
    setting: str
    found: Difference


def look_at_program(seed: int, reduce: bool = True) -> ProgramFault | None:
    """What the program number ``seed`` shows otherwise under one of the settings, which take turns;
    None where nothing differs. ``reduce``: leave out the statements that it does not need."""
    names = [name for name in SETTINGS if name != "interpreted"]
    setting = names[seed % len(names)]

    def check(steps: tuple[str, ...]) -> Difference | None:
        return difference(Program(seed, steps), SETTINGS["interpreted"], SETTINGS[setting])

    program = make_program(seed)
    found = check(program.steps)
    if found is None:
        return None
    small = minimize(program, check) if reduce else (program, found)
    return ProgramFault(program, small[0], setting, small[1])


def text_of(program: Program) -> str:
    """A program as a file that runs on its own, and looks at nothing."""
    head = "import numpy as np\n\nimport lazyt as torch\n\n\n"
    helpers = "def look():\n    pass\n\n\ndef realize(tensor):\n    tensor.realize()\n\n\n"
    return f"{head}{helpers}{program}\n"

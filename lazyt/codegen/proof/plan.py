"""A proof that a plan reads no memory after it was written over.

The launches of a Program are followed one by one, with what every piece of memory holds: a value of
the graph, or nothing that is known. How memory was planned plays no part in it. It is proved that

* a launch reads each value from memory that holds it,
* what a launch writes overlaps nothing else that it reads or writes, except results that are
  written over the value that they replace, element by element,
* inputs keep their values, except those that the caller donated,
* all requested values are where ``Program.results`` says.

So no write comes before a read of the old value, and no two values share memory while both are
needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from lazyt.codegen.lower.groups import Lowered
from lazyt.errors import InternalError
from lazyt.ir.graph import Node
from lazyt.ir.program import Launch, Program, Slot


class _Span(NamedTuple):
    """Bytes of an input, an output or the arena."""

    home: tuple[str, int]
    begin: int
    end: int

    @staticmethod
    def of(slot: Slot) -> _Span:
        begin = slot.offset if slot.kind == "arena" else 0
        return _Span((slot.kind, slot.index), begin, begin + slot.nbytes)

    def overlaps(self, other: _Span) -> bool:
        """Whether both have a byte in common."""
        return self.home == other.home and self.begin < other.end and other.begin < self.end


class _Use(NamedTuple):
    """One buffer of a launch: where it is, the value that is read or written, what a result is
    written over, and the buffer's role."""

    span: _Span
    node: Node | None
    before: Node | None
    role: str


@dataclass
class _Memory:
    """What is known of all memory: values that are whole, by where they are."""

    held: dict[tuple[str, int], dict[_Span, Node]]

    def value(self, span: _Span) -> Node | None:
        """What a span holds, None where that is not known."""
        return self.held.get(span.home, {}).get(span)

    def write(self, span: _Span, node: Node | None) -> None:
        """A value is written; all that overlaps it is gone."""
        here = self.held.setdefault(span.home, {})
        for other in [s for s in here if s.overlaps(span)]:
            del here[other]
        if node is not None:
            here[span] = node


def check_plan(
    program: Program,
    lowered: Sequence[Lowered],
    roots: Sequence[Node],
    inputs: Sequence[Node],
    donated: Collection[Node] = (),
) -> None:
    """Raises InternalError, with the launch, where a program may read memory after it was written
    over, writes to an input that is not ``donated``, or leaves a root elsewhere than it says.

    ``lowered``: the kernel of each launch, with the values in its buffers.
    """
    memory = _Memory({})
    for number, leaf in enumerate(inputs):
        memory.write(_Span(("input", number), 0, leaf.nbytes), leaf)
    free = {n for n, leaf in enumerate(inputs) if leaf in donated}
    written: set[int] = set()
    for number, (launch, made) in enumerate(zip(program.launches, lowered, strict=True)):
        uses = list(_uses(program, launch, made))
        _check_launch(number, launch, uses, memory, program.arena_bytes)
        for use in uses:
            if use.role != "in":
                kind, index = use.span.home
                if kind == "input":
                    written.add(index)
                    if index not in free:
                        _fail(f"launch {number} ({launch.kernel}) writes to input {index}")
                memory.write(use.span, use.node)
    if {*program.overwritten} != written:
        _fail(f"inputs {sorted(written)} are written, not {list(program.overwritten)}")
    _check_results(program, roots, inputs, memory)


def _uses(program: Program, launch: Launch, made: Lowered) -> Iterator[_Use]:
    """The buffers of a launch. Behind those of the kernel comes scratch of the target's own."""
    kernel = made.kernel
    roles = [b.role for b in kernel.arguments] * max(1, len(kernel.segments))
    roles += ["work"] * (len(launch.slots) - len(roles))
    nodes = [*made.arguments, *[None] * (len(launch.slots) - len(made.arguments))]
    for number, role, node in zip(launch.slots, roles, nodes, strict=True):
        slot = program.slots[number]
        if node is not None and slot.nbytes != node.nbytes:
            _fail(f"{node.nbytes} bytes of a value for {launch.kernel} in a slot of {slot.nbytes}")
        before = made.replaced.get(node) if node is not None and role == "inout" else None
        if role == "inout" and before is None:
            _fail(f"{launch.kernel} changes a value in place, and nobody knows which")
        yield _Use(_Span.of(slot), node, before, role)


def _check_launch(
    number: int, launch: Launch, uses: Sequence[_Use], memory: _Memory, arena: int
) -> None:
    """Whether a launch finds what it reads, and writes only what it does not read elsewhere."""
    where = f"launch {number} ({launch.kernel})"
    for use in uses:
        expected = use.node if use.role == "in" else use.before
        if expected is not None and memory.value(use.span) is not expected:
            found = memory.value(use.span)
            _fail(f"{where} reads {_named(expected)} where there is {_named(found)}: {use.span}")
        if use.span.home[0] == "arena" and use.span.end > max(arena, use.span.begin):
            _fail(f"{where} uses memory behind the arena's end: {use.span}")
    spans = sorted(uses, key=lambda use: use.span)
    latest: list[_Use] = []
    for use in spans:
        latest = [u for u in latest if u.span.overlaps(use.span)]
        for other in latest:
            if (use.role, other.role) != ("in", "in") and use.span.begin < use.span.end:
                _fail(f"{where} writes memory that it uses otherwise: {use.span}, {other.span}")
        latest.append(use)


def _check_results(
    program: Program, roots: Sequence[Node], inputs: Sequence[Node], memory: _Memory
) -> None:
    for leaf_number, leaf in enumerate(inputs):
        span = _Span(("input", leaf_number), 0, leaf.nbytes)
        if leaf_number not in program.overwritten and memory.value(span) is not leaf:
            _fail(f"input {leaf_number} does not hold its value any more")
    for root, place in zip(roots, program.results, strict=True):
        if root.nbytes == 0:
            continue
        home = ("output", place) if place >= 0 else ("input", -1 - place)
        if memory.value(_Span(home, 0, root.nbytes)) is not root:
            _fail(f"{_named(root)} is not in {home[0]} {home[1]}")
    for number, root_number in program.donated:
        if root_number >= 0 and program.results[root_number] != -1 - number:
            _fail(f"input {number} is not where root {root_number} is")


def _named(node: Node | None) -> str:
    if node is None:
        return "nothing that is known"
    return f"{node.op.name} {node.dtype.name}{list(node.shape)}"


def _fail(text: str) -> NoReturn:
    raise InternalError("codegen.check_plan", text)

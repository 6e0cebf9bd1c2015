"""Every plan is proved to read no memory after it was written over; here, that the proof finds what
is wrong, and that plans of random graphs with writes are right.

``python -m tests.codegen.test_plan_memory 20000`` runs more of the random graphs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pytest

from lazyt import ops
from lazyt.codegen.lower.groups import Lowered
from lazyt.codegen.plan import assemble
from lazyt.codegen.proof.plan import check_plan
from lazyt.compiler import compile_graph
from lazyt.errors import InternalError
from lazyt.ir.dtypes import float32, int64
from lazyt.ir.graph import Node
from lazyt.ir.program import Program
from lazyt.runtime.memory import Buffer, without_aliases

SHAPE = (6, 6)
NOTHING: Mapping[Node, int] = MappingProxyType({})


class Plan:
    """A plan with what is proved about it."""

    def __init__(
        self, roots: Sequence[Node], inputs: Sequence[Node], donated: Mapping[Node, int] = NOTHING
    ) -> None:
        seen: list[tuple[Program, Sequence[Lowered], Sequence[Node]]] = []

        def note(
            program: Program, lowered: Sequence[Lowered], roots: Sequence[Node], *rest: object
        ) -> None:
            seen.append((program, lowered, roots))

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(assemble, "check_plan", note)
            compile_graph(roots, inputs, donated)
        ((self.program, self.lowered, self.roots),) = seen
        self.inputs, self.donated = inputs, donated

    def check(self, program: Program | None = None) -> None:
        """Raises InternalError where ``program``, or its own, is wrong."""
        check_plan(program or self.program, self.lowered, self.roots, self.inputs, self.donated)


def leaf() -> Node:
    """An input."""
    return ops.input_(SHAPE, float32)


def matmul(a: Node, b: Node) -> Node:
    """The product of two matrices."""
    return ops.contract(a, b, (0, 1), (1, 2), (0, 2))


def chain() -> Plan:
    """Three products in a row: the first one's memory is free for the third."""
    x, y = leaf(), leaf()
    return Plan([matmul(matmul(matmul(matmul(x, y), y), y), y)], [x, y])


def test_what_lives_at_one_time_must_not_share_memory() -> None:
    plan = chain()
    plan.check()
    arena = [n for n, slot in enumerate(plan.program.slots) if slot.kind == "arena"]
    slots = list(plan.program.slots)
    big = [n for n in arena if slots[n].nbytes == 4 * 36]
    assert len(big) > 1
    for number in big:
        slots[number] = replace(slots[number], offset=slots[big[0]].offset + 4 * (number > big[0]))
    with pytest.raises(InternalError):
        plan.check(replace(plan.program, slots=tuple(slots)))


def test_launches_stay_in_order() -> None:
    plan = chain()
    with pytest.raises(InternalError, match="where there is nothing that is known"):
        plan.check(replace(plan.program, launches=plan.program.launches[::-1]))


def test_an_arena_has_an_end() -> None:
    plan = chain()
    with pytest.raises(InternalError, match="behind the arena's end"):
        plan.check(replace(plan.program, arena_bytes=64))


def test_only_donated_inputs_are_written_over() -> None:
    x = leaf()
    plan = Plan([ops.apply("neg", x)], [x], {x: 0})
    plan.check()
    assert plan.program.donated == ((0, 0),)
    with pytest.raises(InternalError, match="writes to input 0"):
        check_plan(plan.program, plan.lowered, plan.roots, [x], ())
    with pytest.raises(InternalError, match="are written, not"):
        plan.check(replace(plan.program, donated=()))


def test_results_are_where_the_program_says() -> None:
    x = leaf()
    plan = Plan([ops.apply("neg", x), ops.apply("exp", x)], [x])
    with pytest.raises(InternalError, match="is not in output"):
        plan.check(replace(plan.program, results=plan.program.results[::-1]))


# ------------------------------------------------- what was wrong once


def written(base: Node, value: float, columns: int = 2) -> Node:
    """The base with some columns of a number."""
    piece = ops.broadcast_to(ops.constant(value, float32), (SHAPE[0], columns))
    return ops.update(base, piece, (0, 0), (1, 1))


def test_a_result_takes_memory_with_all_that_came_before_in_it() -> None:
    """The second write shares memory with the first, which runs before the last reader of the
    old value."""
    b, x = leaf(), leaf()
    read = matmul(matmul(x, x), b)
    key = matmul(x, x)
    new = ops.update(written(b, 1.0), ops.slice_(key, (0, 0), (6, 2), (1, 1)), (0, 2), (1, 1))
    for roots in ([read, new], [new, read], [ops.reduce_("sum", read, (1,)), new]):
        for root in range(2):
            plan = Plan(roots, [b, x], {b: root, x: 1 - root})
            plan.check()


@pytest.mark.parametrize("after", ["mul", "reversed", "product"])
def test_values_on_the_way_use_an_input_only_where_a_result_has_it_in_the_end(after: str) -> None:
    b = leaf()
    value = written(b, 5.0)
    new = {
        "mul": lambda: ops.apply("add", value, value),
        "reversed": lambda: ops.flip(value, (0,)),
        "product": lambda: matmul(value, value),
    }[after]()
    plan = Plan([new], [b], {b: 0})
    plan.check()
    assert plan.program.donated == ((0, 0),)
    assert plan.program.results == (-1,)
    copies = plan.program.arena_bytes > 0
    assert copies == (after != "mul")


# ------------------------------------------------------ buffers at run time


def test_a_donated_buffer_that_is_given_twice_is_copied() -> None:
    one, two, out = Buffer(64), Buffer(64), Buffer(64)
    assert without_aliases([one, two], [out], [0]) == [one, two]
    found = without_aliases([one, one, two], [out], [0])
    assert found[0] is not one and found[1:] == [one, two]
    assert found[0].holds(one)
    part = Buffer.foreign(two.ptr + 16, 16, two)
    assert without_aliases([one, part, two], [out], [2])[2] is not two
    assert without_aliases([one, two], [one], [0])[0] is not one
    assert without_aliases([one, one], [out], []) == [one, one]


# ------------------------------------------------------------ random graphs


class Maker:
    """Random graphs of writes, reads and products over some inputs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.inputs = [leaf() for _ in range(self.random.randint(1, 4))]
        self.values = list(self.inputs)

    def pick(self) -> Node:
        """A value, rather a late one."""
        return self.values[-1 - int(len(self.values) * self.random.random() ** 2)]

    def piece(self) -> tuple[Node, tuple[int, int], tuple[int, int]]:
        """A part of a value, and where and in which steps it is written."""
        starts = (self.random.randint(0, 2), self.random.randint(0, 2))
        steps = (self.random.choice((1, 1, 2)), 1)
        return (
            ops.slice_(self.pick(), starts, (3, 3), (1, 1)),
            (self.random.randint(0, 1), 0),
            steps,
        )

    def update(self) -> Node:
        """A write into a value."""
        return ops.update(self.pick(), *self.piece())

    def scatter(self) -> Node:
        """A write of rows."""
        rows = ops.constant(self.random.randint(0, 5), int64)
        index = ops.broadcast_to(rows, (2,))
        part = ops.slice_(self.pick(), (0, 0), (2, 6), (1, 1))
        kind = self.random.choice(("set", "add"))
        return ops.scatter(self.pick(), index, part, 0, kind, 0)

    def step(self) -> Node:
        """Another value."""
        made: Callable[[], Node] = self.random.choice((
            self.update, self.update, self.update, self.scatter,
            lambda: ops.apply(self.random.choice(("add", "sub")), self.pick(), self.pick()),
            lambda: ops.apply("neg", self.pick()),
            lambda: matmul(self.pick(), self.pick()),
            lambda: ops.flip(self.pick(), (self.random.randint(0, 1),)),
            lambda: ops.permute(self.pick(), (1, 0)),
            lambda: ops.broadcast_to(ops.reduce_("sum", self.pick(), (0, 1)), SHAPE),
        ))  # fmt: skip
        return made()

    def plan(self) -> Plan:
        """The plan of some of the values, with some inputs donated."""
        for _ in range(self.random.randint(2, 12)):
            self.values.append(self.step())
        made = [v for v in dict.fromkeys(self.values) if v.op.name != "input"]
        roots = self.random.sample(made, min(len(made), self.random.randint(1, 4)))
        if not roots:
            roots = [ops.apply("neg", self.inputs[0])]
        numbers = list(range(len(roots)))
        self.random.shuffle(numbers)
        donated: dict[Node, int] = {}
        for node in self.inputs:
            if self.random.random() < 0.7:
                free = self.random.random() < 0.3 or not numbers
                donated[node] = -1 if free else numbers.pop()
        return Plan(roots, self.inputs, donated)


def check_random(first: int, count: int) -> int:
    """Checks the plans of ``count`` random graphs; returns how many inputs were written over."""
    over = 0
    for seed in range(first, first + count):
        plan = Maker(seed).plan()
        try:
            plan.check()
        except InternalError as error:
            raise AssertionError(f"the plan of seed {seed} is wrong: {error}") from error
        over += len(plan.program.donated)
    return over


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_plans_of_random_graphs(first: int) -> None:
    assert check_random(first, 500) > 250


if __name__ == "__main__":
    print("inputs written over:", check_random(100_000, int(sys.argv[1])))

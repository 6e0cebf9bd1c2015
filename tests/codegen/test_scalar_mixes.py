"""Single numbers and large values in one graph: what computes numbers falls into several launches,
some of which read what others compute.

``python -m tests.codegen.test_scalar_mixes 20000`` plans more of the random graphs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.ir.printer import print_graph
from lazyt.plan.planning import realize
from lazyt.runtime.cpu import compile
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer

#: Functions by their number of operands, and those that make positive numbers of positive ones with
#: hardly an error, whatever is between them.
FUNCTIONS = {1: ("neg", "exp", "sqrt"), 2: ("add", "sub", "mul", "div", "maximum")}
POSITIVE = {1: ("sqrt",), 2: ("add", "mul", "div", "maximum")}


class Mix:
    """A random graph."""

    def __init__(self, seed: int, functions: dict[int, tuple[str, ...]] | None = None) -> None:
        self.random = random.Random(seed)
        self.functions = functions or FUNCTIONS
        large = self.random.choice(((3, 16), (2, 3, 8), (40,), (7, 64)))
        shapes = [(), (), (), self.random.choice(((1,), (4,), (1, 1))), large, large]
        if self.random.random() < 0.4:
            shapes.append(self.random.choice(((5, 9), (33,), (3, 16))))
        kept = [shape for shape in shapes if self.random.random() < 0.85]
        self.inputs = [ops.input_(shape, float32) for shape in kept or [()]]
        self.values = list(self.inputs)
        for _ in range(self.random.randint(4, 26)):
            self.values += self.step()
        made = [v for v in dict.fromkeys(self.values) if v.op.name != "input"]
        made = made or [ops.apply("neg", self.inputs[0])]
        self.roots = self.random.sample(made, min(len(made), self.random.randint(1, 5)))
        if self.random.random() < 0.5:
            self.roots = list(dict.fromkeys([*self.roots, made[-1]]))

    def pick(self, values: Sequence[Node]) -> Node:
        """One of the values, rather a late one."""
        return values[-1 - int(len(values) * self.random.random() ** 1.5)]

    def function(self, operands: int) -> str:
        """The name of a function of so many operands."""
        return self.random.choice(self.functions[operands])

    def step(self) -> list[Node]:
        """What is computed next: single numbers of others above all."""
        numbers = [v for v in self.values if v.size == 1]
        larger = [v for v in self.values if v.size > 1]
        kind = self.random.random()
        if kind < 0.5:
            a, b = (
                self.pick(numbers if numbers and self.random.random() < 0.7 else self.values)
                for _ in range(2)
            )
            if a.size == 1:
                a = ops.broadcast_to(ops.reshape(a, ()), b.shape)
            elif b.size == 1:
                b = ops.broadcast_to(ops.reshape(b, ()), a.shape)
            same = a.shape == b.shape
            return [ops.apply(self.function(2), a, b)] if same else []
        if kind < 0.65:
            return [ops.apply(self.function(1), self.pick(self.values))]
        if kind < 0.85:
            return self.reduced(self.pick(larger)) if larger else []
        value = self.pick(self.values)
        if value.size == 1:
            return [ops.reshape(value, self.random.choice(((), (1,), (1, 1))))]
        if self.random.random() < 0.5:
            return [ops.reshape(value, (value.size,))]
        return [ops.permute(value, tuple(reversed(range(len(value.shape)))))]

    def reduced(self, value: Node) -> list[Node]:
        """A reduction, and perhaps the value without it."""
        rank = len(value.shape)
        axes = tuple(sorted(self.random.sample(range(rank), self.random.randint(1, rank))))
        found = ops.reduce_(self.random.choice(("sum", "max", "sum")), value, axes)
        if self.random.random() < 0.7:
            return [found]
        shape = tuple(1 if n in axes else extent for n, extent in enumerate(value.shape))
        spread = ops.broadcast_to(ops.reshape(found, shape), value.shape)
        return [found, ops.apply(self.function(2), value, spread)]


def plan_random(first: int, count: int) -> None:
    """Plans ``count`` random graphs; each is proved to read what it should."""
    for seed in range(first, first + count):
        made = Mix(seed)
        try:
            compile_graph(made.roots, made.inputs)
        except Exception as error:
            raise AssertionError(f"no plan for seed {seed}\n{print_graph(made.roots)}") from error


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_plans_of_random_graphs(first: int) -> None:
    plan_random(first, 500)


@pytest.mark.skipif(not compile.available(), reason="needs a C compiler")
@pytest.mark.parametrize("first", (2000, 2020, 2040))
def test_values_of_random_graphs(first: int) -> None:
    mixes = [Mix(seed, POSITIVE) for seed in range(first, first + 20)]
    generator = np.random.default_rng(first)
    for made in mixes:
        for node in made.inputs:
            node.data = Buffer(node.nbytes)
            node.data.copy_from(generator.random(node.shape, np.float32).tobytes())
    roots = [root for made in mixes for root in made.roots]
    wanted = interpret(roots)
    realize(roots)
    for root, array in zip(roots, wanted, strict=True):
        assert root.data is not None
        found = root.data.as_numpy(root.dtype, root.shape)
        np.testing.assert_allclose(found, array, rtol=1e-4, err_msg=repr(root))


@pytest.mark.lazy
def test_a_number_that_two_launches_of_numbers_share() -> None:
    """Each of the numbers is what another group of numbers computes, too, but for one of them."""
    a, b, c, d, e, g = (lt.tensor(v) for v in (0.5, 0.7, 0.9, 1.3, 1.7, 0.4))
    x, y = (lt.linspace(0, 1, 768).reshape(1, 3, 16, 16) * n for n in (1, 0.5))
    lt.realize(a, b, c, d, e, g, x, y)

    def values() -> list[lt.Tensor]:
        found = [a * c, 1.0 / d.sqrt(), 1.0 / e.sqrt()]
        found.append(b * found[2])
        found.append(found[2].log() - found[3].log())
        found.append(found[1] * (found[1] - found[4]))
        found.append(found[3] * x - found[5] * (found[4] * y))
        found.append(c.log() - found[0].log())
        found.append((found[7] - g) / found[7])
        return [*found, (found[6] - found[8] * found[6]).sum()]

    whole = values()[-1].item()
    with lt.config.override(interpret=True):
        assert whole == pytest.approx(values()[-1].item(), rel=1e-5)


if __name__ == "__main__":
    plan_random(100_000, int(sys.argv[1]))
    print("all of them have plans")

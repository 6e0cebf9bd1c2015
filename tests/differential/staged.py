"""Parts of random programs under ``lazyt.jit``, with plans that the interpreter computes.

    python -m tests.differential.staged --seeds 0:1000 [--compile]

``lazyt.testing.programs.captured`` says what the parts are and what is compared. Without
``--compile`` plans are interpreted, which changes nothing for captures and replays.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import lazyt
from lazyt import ops
from lazyt.ir.graph import Node, make, topological
from lazyt.plan import planning
from lazyt.plan.fallback.interpreter import values_of
from lazyt.runtime.memory import Buffer
from lazyt.testing.programs.captured import difference, report, stages
from lazyt.testing.programs.making import make_program
from lazyt.tracing import jit


class Interpreted:
    """What ``planning.prepare`` makes, but computed by the interpreter."""

    def __init__(self, roots: Sequence[Node], owners: Mapping[Node, int]) -> None:
        self.roots = list(roots)
        self.order = topological(self.roots, lambda n: n.data is not None)
        self.leaves = [n for n in self.order if n.data is not None]
        self._leaves = self.leaves
        # Computed nodes forget how they were made, so it is noted here.
        self._made = [(n, n.op, n.inputs, n.params) for n in self.order]
        places = {root: -1 - self.leaves.index(leaf) for leaf, root in owners.items()}
        results = [places.get(n, n) for n in range(len(self.roots))]
        program = types.SimpleNamespace(results=results)
        code = types.SimpleNamespace(executable=None, program=program, heat=None)
        self.plan = types.SimpleNamespace(code=code, launcher=None, may_change=False)
        self.fixed: list[Buffer] = []
        self._owners = {self.leaves.index(n): root for n, root in owners.items()}
        self.overwritten = [*self._owners]

    def run(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """The roots' values where the leaves have those of ``inputs``."""
        now: dict[Node, Node] = {}
        for leaf, data in zip(self._leaves, inputs, strict=True):
            now[leaf] = ops.input_(leaf.shape, leaf.dtype, data)
        for node, op, operands, params in self._made:
            if node not in now:
                given = tuple(now[i] for i in operands)
                now[node] = make(op, given, params) if given else node
        found = values_of([now[root] for root in self.roots])
        results = [array_buffer(array) for array in found]
        for place, root in self._owners.items():
            results[root], new = inputs[place], results[root]
            results[root].copy_from(new.ptr, new.nbytes)
        return results


def array_buffer(array: np.ndarray[Any, Any]) -> Buffer:
    buffer = Buffer(array.nbytes)
    buffer.copy_from(np.ascontiguousarray(array).tobytes())
    return buffer


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Captures and replays as always, but no plan is compiled."""
    old, real = planning.prepare, vars(jit)["config"]
    planning.prepare = Interpreted  # type: ignore[assignment]
    vars(jit)["config"] = types.SimpleNamespace(eager=False, interpret=False, memory_budget=1.0)
    try:
        with lazyt.config.override(interpret=True):
            yield
    finally:
        planning.prepare = old
        vars(jit)["config"] = real


def main() -> int:
    """The command; returns the number of stages that differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--each", type=int, default=2, help="functions of every program")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    wrong = total = replayed = 0
    for seed in range(first, end):
        program = make_program(seed)
        with contextlib.nullcontext() if options.compile else interpreted():
            for stage in stages(program.steps, random.Random(seed), options.each):
                found, why = difference(stage)
                total += 1
                replayed += bool(why) and why[-1] == "captured"
                if found is not None:
                    wrong += 1
                    print(f"---- seed {seed}\n{report(stage, found, why)}\n", flush=True)
    print(f"{total} functions, {replayed} replayed, {wrong} differ")
    return wrong


if __name__ == "__main__":
    main()

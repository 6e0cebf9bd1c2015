"""Derivatives of graphs that were differentiated before: the same ops on other values.

What ``vjp`` appends depends on the structure of a graph alone: ops, parameters, types and how they
hang together. A training loop builds the same structure at every step. So what was appended is
noted as a list of instructions, and carried out again the next time, without asking the ops' rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.ir.graph import Head, Node, make_like, make_of, position_to_note, topological
from lazyt.ops.leaves import INPUT, VARIABLE, input_

#: Entries of all kept keys, and steps, together.
_MOST = 500_000


class Walk:
    """What a derivative depends on: the differentiable part of a graph, numbered, inputs first.

    Args:
        outputs, wrt: as ``vjp`` takes them.
        given: outputs and their cotangents in turn.

    Attributes:
        numbers: the nodes that need gradients, what they read, and ``given``.
        key: equal for graphs of one structure.
        outside: those of the nodes that the key only knows the type of.
    """

    __slots__ = ("key", "numbers", "outside")

    def __init__(self, outputs: Sequence[Node], wrt: Sequence[Node], given: Sequence[Node]) -> None:
        numbers: dict[Node, int] = {}
        outside: list[Node] = []
        key: list[Any] = []
        stack = [*outputs]
        stack.reverse()
        while stack:
            node = stack[-1]
            if node in numbers:
                stack.pop()
            elif not node.needs_grad:
                stack.pop()
                numbers[node] = len(numbers)
                key.append(node.form)
                outside.append(node)
            else:
                depth = len(stack)
                for item in node.inputs:
                    if item not in numbers:
                        if item.needs_grad:
                            stack.append(item)
                        else:
                            numbers[item] = len(numbers)
                            key.append(item.form)
                            outside.append(item)
                if len(stack) == depth:
                    stack.pop()
                    key.append(node.head if node.op is not VARIABLE else VARIABLE)
                    for item in node.inputs:
                        key.append(numbers[item])
                    numbers[node] = len(numbers)
                elif len(stack) > depth + 1:
                    stack[depth:] = stack[: depth - 1 : -1]
        key.append((len(outputs), len(wrt)))
        for node in (*outputs, *wrt, *given):
            number = numbers.get(node)
            if number is None:
                number = numbers[node] = len(numbers)
                key.append(node.form)
                outside.append(node)
            key.append(number)
        self.numbers = numbers
        self.key = tuple(key)
        self.outside = outside

    def copy(self) -> dict[Node, Node]:
        """The numbered nodes over fresh leaves in place of those outside: equal to what a rule
        makes only where the key says so."""
        new = {node: input_(node.shape, node.dtype) for node in self.outside}
        for node in self.numbers:
            if node not in new:
                new[node] = make_of(node.head, tuple([new[item] for item in node.inputs]))
        return {node: new[node] for node in self.numbers}


class Step(NamedTuple):
    """One node to make: ``pick`` takes its inputs out of the values so far."""

    head: Head
    pick: Callable[[list[Node]], Any]


class Derivation:
    """What ``vjp`` appended to a graph, to be appended to others of the same structure."""

    __slots__ = ("_results", "_steps")

    def __init__(self, steps: list[Step], results: list[int | None]) -> None:
        self._steps = steps
        self._results = results

    def __len__(self) -> int:
        return len(self._steps)

    def apply(self, numbers: dict[Node, int]) -> list[Node | None]:
        """The results, over the numbered nodes of another graph."""
        source = position_to_note()
        values = list(numbers)
        for head, pick in self._steps:
            arity = head.arity
            picked = pick(values)
            inputs = picked if arity > 1 else (picked,) if arity else ()
            values.append(make_like(head, inputs, source))
        return [None if n is None else values[n] for n in self._results]


def note(numbers: dict[Node, int], results: Sequence[Node | None]) -> Derivation | None:
    """How ``results`` are made of the numbered nodes; None where they hold leaves of their own."""
    places = dict(numbers)
    steps = []
    wanted = [node for node in results if node is not None]
    for node in topological(wanted, lambda node: node in numbers):
        if node in numbers:
            continue
        if node.op is INPUT:
            return None
        inputs = [places[item] for item in node.inputs]
        steps.append(Step(node.head, itemgetter(*inputs) if inputs else _nothing))
        places[node] = len(places)
    return Derivation(steps, [None if node is None else places[node] for node in results])


def _nothing(values: list[Node]) -> tuple[Node, ...]:
    return ()


class Known:
    """The derivations of structures that were met twice."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Derivation | None] = {}  # None after the first time
        self._size = 0

    def find(self, key: tuple[Any, ...]) -> Derivation | None:
        """What was kept for a structure."""
        return self._found.get(key)

    def offer(
        self, walk: Walk, derive: Callable[[dict[Node, Node]], list[Node | None]]
    ) -> Derivation | None:
        """How results are made of a graph, which is kept, if the structure was met before.

        Args:
            derive: gives the results for a copy of the graph.
        """
        key, made, size = walk.key, None, len(walk.key)
        if key in self._found:
            new = walk.copy()
            numbers = {node: number for number, node in enumerate(new.values())}
            made = note(numbers, derive(new))
            size = 0 if made is None else len(made)
        if self._size + size > _MOST:
            self._found.clear()
            self._size = 0
        if size <= _MOST:
            self._found[key] = made
            self._size += size
        return made


known = Known()


# Compositions that are noted: the same ops on other values, without asking why again.
#
# A composite function decides, from shapes, dtypes and settings, which ops it is made of. In a loop
# the answer is the same at every step, so it is noted once and carried out from then on.

#: Types and settings of one function that are remembered at a time.
_MOST_TYPES = 2048


def repeated(build: Callable[..., Node]) -> Callable[..., Node]:
    """Decorator: note what ``build`` makes of nodes of given types with given settings.

    ``build`` takes nodes, None, and hashable settings, all by position, and gives one node. It must
    not look at more of the nodes than shape and dtype, nor make leaves.
    """
    known: dict[tuple[Any, ...], Derivation] = {}

    @functools.wraps(build)
    def composed(*args: Any) -> Node:
        numbers: dict[Node, int] = {}
        key: list[Any] = []
        for item in args:
            if isinstance(item, Node):
                number = numbers.get(item)
                if number is None:
                    number = numbers[item] = len(numbers)
                key += (Node, item.form, number)
            else:
                key.append(item)
        whole = tuple(key)
        found = known.get(whole)
        if found is None:
            found = _noted(build, args, numbers)
            if len(known) >= _MOST_TYPES:
                known.clear()
            known[whole] = found
        (result,) = found.apply(numbers)
        assert result is not None
        return result

    return composed


def _noted(
    build: Callable[..., Node], args: tuple[Any, ...], numbers: dict[Node, int]
) -> Derivation:
    """How ``build`` makes its result, found on leaves that equal nothing else."""
    fresh = {node: ops.input_(node.shape, node.dtype) for node in numbers}
    made = build(*[fresh[item] if isinstance(item, Node) else item for item in args])
    found = note({fresh[node]: number for node, number in numbers.items()}, [made])
    assert found is not None, f"{build.__name__} makes leaves of its own"
    return found

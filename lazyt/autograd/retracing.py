"""What gradients were made of, found along the tape once a later backward has to know.

A backward without hooks on its way asks the graph alone, with ``create_graph``, too: that is fast,
and such a gradient's history is in the graph. Its grad_fn does not tell which functions it came
through. Hooks may be registered between that backward and the one that differentiates its
gradients, and values may be replaced without autograd knowing. Then the first backward is followed
once more, function by function and without calling anything, and the gradients get the history
that a backward along the tape would have given them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lazyt.handle.tape import AccumulateGrad, GradFn, Moves, next_number, output_number
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node

if TYPE_CHECKING:
    from lazyt.autograd.traversal import Place, Root


class Retracing:
    """A backward that asked the graph alone.

    Attributes:
        roots: where it started.
        nodes: those of the outputs, which the tape refers to weakly only.
        targets: the places that it was for, with their nodes; None for all leaves.
        accumulates: whether it added to the leaves' gradients.
        number: grad_fns that it would have made come after those with smaller numbers.
        done: the gradients that it would have given, once they are known.
    """

    __slots__ = ("__weakref__", "accumulates", "done", "nodes", "number", "roots", "targets")

    def __init__(
        self,
        roots: Sequence[Root],
        nodes: Iterable[Node],
        targets: Mapping[Place, Node] | None,
        accumulates: bool,
    ) -> None:
        self.roots, self.nodes = tuple(roots), tuple(nodes)
        self.targets = None if targets is None else dict(targets)
        self.accumulates, self.number = accumulates, next_number()
        self.done: dict[Place, Tensor] | None = None
        _open.add(self)

    def note(self, gradient: Tensor, place: Place) -> Tensor:
        """``gradient``, whose history is that of the gradient of ``place``."""
        fn = gradient._storage.fn
        if fn is not None and not fn.parents:
            fn.extra.retraced = (self, place)
        return gradient

    def gradients(self) -> Mapping[Place, Tensor]:
        """The gradients with a history along the tape; their values are those they had."""
        from lazyt.autograd.traversal import Traversal

        if self.done is None:
            link([root.fn for root in self.roots])
            found: dict[Place, Tensor] = {}

            def arrived(leaf: AccumulateGrad, gradient: Tensor) -> None:
                found[leaf, 0] = gradient

            first = next_number()
            run = Traversal(self.roots, self.targets, True, arrived, self.accumulates, silent=True)
            self.done = {**found, **run.captured}
            self._renumber(first)
            _open.discard(self)
        return self.done

    def _renumber(self, first: float) -> None:
        """The functions made just now come where they would have been made, before later ones."""
        from lazyt.autograd.engine import walk_tape

        assert self.done is not None
        roots = [fn for tensor in self.done.values() if (fn := tensor._fn) is not None]
        new = sorted((f for f in walk_tape(roots, None) if f.number > first), key=_number)
        for place, fn in enumerate(new, 1):
            fn.number = self.number + place / (len(new) + 1)


def _number(fn: GradFn) -> float:
    return fn.number


#: Backwards whose gradients may still be told what they were made of.
_open: weakref.WeakSet[Retracing] = weakref.WeakSet()


def behind(roots: Sequence[GradFn]) -> list[GradFn]:
    """The grad_fns below ``roots`` with those that gradients there were made of, where some of
    these are not on the tape; else none."""
    if not _open:
        return []
    stack, known, more = [*roots], set(roots), False
    while stack:
        fn = stack.pop()
        below = [parent for parent in fn.parents if parent is not None]
        if not fn.parents and fn._extra is not None and fn._extra.retraced is not None:
            starts = fn._extra.retraced[0].roots
            below = [root.fn for root in starts] + [
                maker for root in starts if (maker := root.gradient._fn) is not None
            ]
            more = True
        for item in below:
            if item not in known:
                known.add(item)
                stack.append(item)
    return [*known] if more else []


def link(roots: Sequence[GradFn]) -> None:
    """Put on the tape what the gradients below ``roots`` were made of."""
    stack, known = [*roots], set(roots)
    while stack:
        fn = stack.pop()
        if not fn.parents and fn._extra is not None and fn._extra.retraced is not None:
            retracing, place = fn._extra.retraced
            gradient = retracing.gradients().get(place)
            maker = None if gradient is None else gradient._fn
            if gradient is None or maker is None:
                fn._extra.retraced = None
            else:  # the value is computed in another way, but it is the same one
                fn.parents = (maker,)
                index = output_number(maker, gradient.node) if maker.several else 0
                fn.operands = Moves((), tuple(gradient.shape), gradient.dtype, index)
        for item in fn.parents:
            if item is not None and item not in known:
                known.add(item)
                stack.append(item)

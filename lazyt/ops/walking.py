"""Evaluates graph nodes at an index as kernel expressions, by the ops' pointwise rules.

This is the one engine behind fusion (which probes what a fused value would read) and lowering
(which emits it). It never recurses, so chains of any length can be walked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from lazyt.errors import InternalError
from lazyt.ir.graph import Node
from lazyt.ir.index import Linear, Var, datum
from lazyt.ir.scalar import Expr

Index = tuple[Linear, ...]
Pair = tuple[Node, Index, bool]

#: Ops whose inputs may only be evaluated where a guard holds.
GUARDING = frozenset({"pad", "concat"})


class Walker(ABC):
    """Evaluates nodes at indices; subclasses decide what is a leaf and how values are named."""

    def __init__(self) -> None:
        self._positions: dict[Pair, str] = {}

    @abstractmethod
    def leaf(self, node: Node, index: Index) -> Expr | None:
        """The expression of a value that is not to be looked into, or None to descend."""

    @abstractmethod
    def known(self, pair: Pair) -> Expr | None:
        """The expression already made for a pair, if it can be used here."""

    @abstractmethod
    def remember(self, pair: Pair, expr: Expr, leaf: bool) -> None:
        """Takes note of a pair's expression (and may name it)."""

    @abstractmethod
    def index_name(self, node: Node, value: Expr, extent: int) -> str:
        """The name of a data-dependent index, clamped to the extent."""

    def evaluate(self, node: Node, index: Index, guarded: bool = False) -> Expr:
        """The expression of element ``index`` of ``node``.

        ``guarded`` values hang below a guard: they must not be computed elsewhere.
        """
        root: Pair = (node, index, guarded)
        stack = [root]
        while stack:
            pair = stack[-1]
            if self.known(pair) is not None:
                stack.pop()
                continue
            item, where, inside = pair
            found = self.leaf(item, where)
            if found is not None:
                self.remember(pair, found, True)
                stack.pop()
                continue
            missing: list[Pair] = []
            expr = self._lower(item, where, inside, missing)
            if missing:
                stack.extend(reversed(missing))
                continue
            self.remember(pair, expr, False)
            stack.pop()
        result = self.known(root)
        assert result is not None
        return result

    def _lower(self, node: Node, index: Index, inside: bool, missing: list[Pair]) -> Expr:
        inside = inside or node.op.name in GUARDING

        def read(item: Node, where: Index) -> Expr:
            pair = (item, where, inside)
            found = self.known(pair)
            if found is None:
                missing.append(pair)
                return Var("?", item.dtype)
            return found

        rule = node.op.lower
        if callable(rule):
            result: Expr = rule(node, index, read)
            return result
        if rule == "gather":
            return self._gather((node, index, inside), read, missing)
        raise InternalError("ops.walking", f"{node!r} has no pointwise rule")

    def _gather(self, pair: Pair, read: Callable[[Node, Index], Expr], missing: list[Pair]) -> Expr:
        node, index, _ = pair
        operand, positions = node.inputs
        axis, batch = node.params
        middle = len(positions.shape) - batch
        value = read(positions, (*index[:batch], *index[axis : axis + middle]))
        if missing:
            return value
        extent = operand.shape[axis]
        # The rule is tried again once the operand is known: the index keeps its name.
        name = self._positions.pop(pair, None) or self.index_name(node, value, extent)
        at = (*index[:axis], datum(name, extent), *index[axis + middle :])
        result = read(operand, at)
        if missing:
            self._positions[pair] = name
        return result

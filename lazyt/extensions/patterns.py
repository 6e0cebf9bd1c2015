"""Patterns over graphs, and passes made of rules that rewrite what matches.

A pattern says what a value is computed by::

    P.map("mul", P.any("x"), P.scalar("c"))          # x * c and c * x
    P.op("contract", P.map("mul", P.any("x"), P.scalar("c")), P.any("w"))

It sees calls of scalar functions wherever they are: as nodes of their own, or as parts of the
expression of a larger ``map``. It sees both forms of constants, nodes and literals, also repeated
to a larger shape, and both orders of the operands of commutative functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lazyt import ops
from lazyt.errors import LazytError
from lazyt.ir.graph import Node, rebuild, remake
from lazyt.ir.scalar import FUNCTIONS, Arg, Call, Const, Expr, Number


@dataclass(frozen=True)
class Value:
    """What a pattern is matched with: a node, or a part of the expression of one."""

    node: Node
    expr: Expr | None = None

    @property
    def as_node(self) -> Node:
        """The value as a node of its own."""
        if self.expr is None or self.expr is self.node.params:
            return self.node
        if isinstance(self.expr, Arg):
            return self.node.inputs[self.expr.index]
        if isinstance(self.expr, Const):
            return ops.constant(self.expr.value, self.expr.dtype)
        return ops.elementwise(self.expr, list(self.node.inputs))

    @property
    def call(self) -> tuple[str, tuple[Value, ...]] | None:
        """The scalar function that computes it, and its arguments; None for anything else."""
        expr = self.expr
        if expr is None and self.node.op.name == "map":
            expr = self.node.params
        if isinstance(expr, Arg):
            return Value(self.node.inputs[expr.index]).call
        if isinstance(expr, Call):
            return expr.fn.name, tuple(Value(self.node, part) for part in expr.args)
        return None

    @property
    def number(self) -> Number | None:
        """The constant that it is at all of its elements, None where it is none."""
        node = self.node
        if isinstance(self.expr, Const):
            return self.expr.value
        if isinstance(self.expr, Arg):
            node = self.node.inputs[self.expr.index]
        elif self.expr is not None:
            return None
        while node.op.name in ("expand", "reshape"):
            node = node.inputs[0]
        return node.params.value if node.op.name == "const" else None


#: What the names of a pattern stand for: nodes, and numbers.
Found = dict[str, Any]


class Pattern:
    """What a value has to be. ``P`` makes patterns."""

    def match(self, node: Node) -> Found | None:
        """What its names stand for where ``node`` matches, else None."""
        return next(self.matches(Value(node), {}), None)

    def matches(self, value: Value, found: Found) -> Iterator[Found]:
        """All ways in which ``value`` matches, given what names stand for already."""
        raise NotImplementedError

    def names(self) -> set[str]:
        """The names that stand for something where a value matches."""
        own: str | None = getattr(self, "name", None)
        parts: Sequence[Pattern] = getattr(self, "parts", ())
        return ({own} if own else set[str]()).union(*[part.names() for part in parts])


def _bound(name: str | None, what: object, found: Found) -> Iterator[Found]:
    if name is None:
        yield found
    elif name not in found:
        yield found | {name: what}
    elif found[name] is what or (not isinstance(what, Node) and found[name] == what):
        yield found


@dataclass(frozen=True)
class _Any(Pattern):
    name: str | None
    where: Callable[[Node], bool] | None

    def matches(self, value: Value, found: Found) -> Iterator[Found]:
        node = value.as_node
        if self.where is None or self.where(node):
            yield from _bound(self.name, node, found)


@dataclass(frozen=True)
class _Scalar(Pattern):
    name: str | None
    value: Number | None

    def matches(self, value: Value, found: Found) -> Iterator[Found]:
        number = value.number
        if number is not None and (self.value is None or number == self.value):
            yield from _bound(self.name, number, found)


@dataclass(frozen=True)
class _Map(Pattern):
    function: str
    parts: tuple[Pattern, ...]
    name: str | None

    def matches(self, value: Value, found: Found) -> Iterator[Found]:
        called = value.call
        if called is None or called[0] != self.function:
            return
        orders = [called[1]]
        if FUNCTIONS[self.function].commutative and len(called[1]) == 2:
            orders.append(called[1][::-1])
        for values in orders:
            for one in _all(self.parts, values, found):
                yield from _bound(self.name, value.as_node, one) if self.name else (one,)


@dataclass(frozen=True)
class _Op(Pattern):
    op: str
    parts: tuple[Pattern, ...]
    name: str | None
    params: Mapping[str, Any]

    def matches(self, value: Value, found: Found) -> Iterator[Found]:
        if value.expr is not None and not isinstance(value.expr, Arg):
            return
        node = value.as_node
        if node.op.name != self.op or len(node.inputs) != len(self.parts):
            return
        if any(getattr(node.params, key, None) != wanted for key, wanted in self.params.items()):
            return
        for one in _all(self.parts, tuple(map(Value, node.inputs)), found):
            yield from _bound(self.name, node, one)


def _all(parts: Sequence[Pattern], values: Sequence[Value], found: Found) -> Iterator[Found]:
    if not parts:
        yield found
        return
    for one in parts[0].matches(values[0], found):
        yield from _all(parts[1:], values[1:], one)


class P:
    """Makes patterns. A name stands for the same value wherever a pattern has it."""

    @staticmethod
    def any(name: str | None = None, where: Callable[[Node], bool] | None = None) -> Pattern:
        """Any value, bound to ``name`` as a node, for which ``where`` holds.

        An operand of a map is bound as it is, of a smaller shape where the map repeats it:
        ``ops.broadcast_to(x, node.shape)`` is the whole.
        """
        return _Any(name, where)

    @staticmethod
    def scalar(name: str | None = None, value: Number | None = None) -> Pattern:
        """A constant, bound to ``name`` as a number: of that ``value``, or any.

        A pass that has to see numbers declares ``needs_constants=True``: else a number that changes
        from call to call is an input of the graph.
        """
        return _Scalar(name, value)

    @staticmethod
    def map(function: str, *parts: Pattern, name: str | None = None) -> Pattern:
        """A call of a scalar function. Raises LazytError for one that there is not, and for another
        number of arguments than it takes."""
        if function not in FUNCTIONS:
            raise LazytError(f"there is no scalar function {function!r}")
        if len(parts) != FUNCTIONS[function].arity:
            raise LazytError(
                f"{function} takes {FUNCTIONS[function].arity} argument(s), not {len(parts)}"
            )
        return _Map(function, parts, name)

    @staticmethod
    def op(op: str, *parts: Pattern, name: str | None = None, **params: Any) -> Pattern:
        """A node of an op with these inputs, and parameters where these are given. Raises
        LazytError for an op that there is not."""
        if op not in ops.OPS:
            raise LazytError(f"there is no op {op!r}")
        return _Op(op, parts, name, params)


@dataclass
class Rule:
    """What takes the place of what matches.

    Attributes:
        pattern: what matches.
        build: makes the new value of what the pattern's names stand for, and of ``node``, the whole
            that matched, each by its name; None leaves it as it is.
        name: what the rule is called in counts.
        fired: how often it has rewritten something.

    Raises LazytError where ``build`` does not take ``node`` and the names of the pattern.
    """

    DEFINED_BY: ClassVar = ("pattern", "build", "name")

    pattern: Pattern
    build: Callable[..., Node | None]
    name: str = ""
    fired: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        names = sorted(self.pattern.names())
        try:
            takes = inspect.signature(self.build)
        except ValueError:  # Python does not know what it takes
            return
        try:
            takes.bind(node=None, **dict.fromkeys(names))
        except TypeError as error:
            wanted = ", ".join(["node", *names])
            raise LazytError(
                f"rule {self.name or repr(self.build)}: build is called with {wanted}, but {error}"
            ) from None


def _fits(new: Node, made: Node) -> bool:
    """Whether a value can be repeated to the shape of another."""
    pairs = zip(reversed(new.shape), reversed(made.shape))
    return len(new.shape) <= len(made.shape) and all(a in (1, b) for a, b in pairs)


class Rewriting:
    """A pass made of rules: ``run`` of a ``compiler.Pass``.

    Every node is rewritten by the first rule that matches it, inputs before what reads them. What a
    rule makes is repeated to the node's shape where it is smaller, as operands of a map are. Parts
    of a map's expression are seen below the root of a pattern, but are not rewritten themselves.

    Raises LazytError where a rule makes a value of another dtype, or of a shape that does not fit.

    Example:
        >>> from lazyt import compiler, ops
        >>> from lazyt.extensions.patterns import P, Rewriting, Rule
        >>> twice = Rule(P.map("mul", P.any("x"), P.scalar(value=2)),
        ...              lambda node, x: ops.apply("add", x, x), "twice")
        >>> step = compiler.Pass("doubling", Rewriting([twice]), "additions are cheaper",
        ...                      needs_constants=True)
        >>> import lazyt
        >>> with compiler.register_pass(step, before="simplify"):
        ...     (2 * lazyt.tensor([1.0, 3.0])).tolist()
        [2.0, 6.0]
        >>> twice.fired
        1
    """

    DEFINED_BY: ClassVar = ("rules",)

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = list(rules)

    def __call__(self, roots: Sequence[Node]) -> list[Node]:
        return rebuild(roots, self._change)

    def _change(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        made = remake(node, inputs)
        for rule in self.rules:
            found = rule.pattern.match(made)
            if found is None:
                continue
            new = rule.build(node=made, **found)
            if new is None:
                continue
            if new.dtype is made.dtype and new.shape != made.shape and _fits(new, made):
                new = ops.broadcast_to(new, made.shape)  # an operand that was repeated
            if new.type != made.type:
                raise LazytError(f"rule {rule.name or rule.build!r} made {new!r} of {made!r}")
            rule.fired += 1
            return new
        return made

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule has fired, by its name."""
        return {rule.name: rule.fired for rule in self.rules}

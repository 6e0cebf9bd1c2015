"""Graphs in which structural ops meet, and graphs grown from those that reached something new.

A chain is a small graph of three or four structural ops, so that every three of them meet in turn;
``chains`` makes one graph of many, ``functions`` one of many functions of elements. ``Explorer``
keeps graphs that reached a line, a rewrite or a kind of group as the first, and changes them: an
operand becomes the result of another op, an input the result of another graph, a number another
number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from lazyt import ops
from lazyt.errors import LazytError
from lazyt.ir.dtypes import ALL, DType, bool_, float32, float64, int32
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.ir.scalar import FUNCTIONS, ScalarFunction
from lazyt.ir.verifier import verify_graph
from lazyt.runtime.value_checks import work_of
from lazyt.testing.coverage import Coverage
from lazyt.testing.graph_maker import (
    LARGEST_SIZE,
    Chooser,
    GraphMaker,
    RandomGraph,
    SeededChooser,
    Value,
    long_extent,
)
from lazyt.testing.structural_ops import STRUCTURAL, fold_span
from lazyt.testing.value_ranges import Span, binary_span

#: Chains of a graph; attempts for each op of one.
CHAINS, ATTEMPTS = 6, 6
#: Functions of a graph, each a kernel.
FUNCTIONS_OF_A_GRAPH = 24
#: Values of a graph of rows.
ROW_STEPS = 14
#: The cost from which on a function that NumPy lacks is a long approximation.
APPROXIMATED = 30
#: Functions with operands of other dtypes, or of a part of all numbers only.
_SPECIAL = ("where", "exp_nonpositive")
#: What a grown graph may have, in nodes and in steps to interpret.
MOST_NODES, MOST_WORK = 40, 400_000
#: Graphs that are kept: of more, the oldest go.
KEPT = 400


# ----------------------------------------------------------------------------- chains


def chains(seed: int, count: int = CHAINS) -> RandomGraph:
    """A graph of ``count`` chains of structural ops over inputs of their own.

    Every three of them follow one another in one of the chains of so many seeds, whichever the
    first seed is. A chain begins or ends with a function of each element now and then, and what
    stands inside of one is a root now and then, so that others read it, too.
    """
    maker = GraphMaker(SeededChooser(seed))
    for place in range(count):
        _chain(maker, _three(seed * count + place))
    return maker.finish()


def chain(number: int) -> RandomGraph:
    """The graph of one chain; of all threes of ops in turn, as ``chains``."""
    maker = GraphMaker(SeededChooser(number))
    _chain(maker, _three(number))
    return maker.finish()


def _three(number: int) -> tuple[int, int, int]:
    """Three of the rules, all threes in turn; those of neighbouring numbers differ everywhere."""
    base = len(STRUCTURAL)
    found = number * _coprime(base**3) % base**3
    return found % base, found // base % base, found // base**2


def _coprime(total: int) -> int:
    """A step that visits all numbers below ``total``, far from its neighbours each time."""
    step = int(total * 0.618) | 1
    while math.gcd(step, total) != 1:
        step += 2
    return step


def _chain(maker: GraphMaker, rules: Sequence[int]) -> None:
    choose = maker.choose
    maker.keep(maker.leaf(_distinct(choose) if choose.number(0, 1) else None))
    value = maker.values[-1]
    steps = list(rules)
    if choose.number(0, 3) == 0:
        steps.append(choose.number(0, len(STRUCTURAL) - 1))
    for number in steps:
        for _ in range(ATTEMPTS):
            if choose.number(0, 11) == 0:
                between = maker.unary()
                if between is not None and maker.keep(between):
                    value = maker.values[-1]
            made = STRUCTURAL[number](maker, value)
            if made is not None and maker.keep(made):
                value = maker.values[-1]
                break


def _distinct(choose: Chooser) -> tuple[int, ...]:
    """Three axes or four of different extents: what takes one for another shows there."""
    rest = [1, 2, 3, 4, 5, 7]
    return tuple(rest.pop(choose.number(0, len(rest) - 1)) for _ in range(choose.number(3, 4)))


# ------------------------------------------------------------------------------ rows


def rows(seed: int, count: int = ROW_STEPS) -> RandomGraph:
    """A graph of folds over rows of one matrix, in which rows are also compared with what they
    folded to, moved within the matrix, and joined: kernels over the same rows that read one another
    at the same place and at others."""
    maker = GraphMaker(SeededChooser(seed))
    choose = maker.choose
    columns = choose.pick((3, 5, 8, 17, 40, *(long_extent(choose, 200) for _ in range(3))))
    height = choose.pick((2, 6, columns, columns))
    shape = (height if height * columns <= LARGEST_SIZE else 4, columns)
    maker.keep(maker.leaf(shape, choose.pick((float32, float32, float64, int32))))
    for _ in range(count * 3):
        if len(maker.values) > count:
            break
        value = maker.any(lambda v: v.node.shape == shape)
        assert value is not None  # the matrix itself is one
        way = choose.number(0, 4)
        if way == 0:
            maker.keep(maker.unary())
        elif way == 1:
            maker.keep(maker.binary())
        elif way == 2:
            maker.keep(_moved(value, choose))
        else:
            folded = _row_fold(maker, value)
            if not maker.keep(folded) or way == 3:
                continue
            assert folded is not None
            column = ops.expand(ops.reshape(folded.node, (shape[0], 1)), shape)
            if value.node.dtype is not bool_ and maker.keep(Value(column, folded.span)):
                name = choose.pick(("sub", "maximum", "minimum"))
                joined = binary_span(name, value.span, folded.span, value.node.dtype)
                if joined is not None:
                    maker.keep(Value(ops.apply(name, value.node, column), joined))
    return maker.finish()


def _row_fold(maker: GraphMaker, value: Value) -> Value | None:
    """A fold of each row of a matrix."""
    truth = value.node.dtype is bool_
    kind = maker.choose.pick(("any", "all") if truth else ("sum", "max", "min"))
    span = value.span if truth else fold_span(kind, value.span, value.node.shape[1], value)
    return span and Value(ops.reduce_(kind, value.node, (1,)), span)


def _moved(value: Value, choose: Chooser) -> Value:
    """A matrix whose rows or columns have changed places."""
    node = value.node
    height, width = node.shape
    axis = choose.number(0, 1)
    way = choose.number(0, 2)
    if way == 0 and height == width:
        return Value(ops.permute(node, (1, 0)), value.span)
    if way == 1:
        return Value(ops.flip(node, (axis,)), value.span)
    first = choose.number(1, node.shape[axis] - 1)  # those before it go to the end
    starts = [[0, 0], [0, 0]]
    sizes = [[height, width], [height, width]]
    starts[0][axis], sizes[0][axis], sizes[1][axis] = first, node.shape[axis] - first, first
    parts = [ops.slice_(node, s, n, [1, 1]) for s, n in zip(starts, sizes, strict=True)]
    return Value(ops.concat(parts, axis), value.span)


# ------------------------------------------------------------------------- functions


def functions(seed: int, count: int = FUNCTIONS_OF_A_GRAPH) -> RandomGraph:
    """A graph of ``count`` functions of elements, those that programs have defined among them, each
    of inputs of its own; all functions of all dtypes in turn, and conversions of each to each."""
    maker = GraphMaker(SeededChooser(seed))
    pairs: list[tuple[str | DType, DType]] = []
    for dtype in ALL:
        pairs += [(name, dtype) for name in _functions_of(dtype)]
        pairs += [(to, dtype) for to in ALL if to is not dtype]
    step = _coprime(len(pairs))
    shape = (maker.choose.pick((3, 17, 33, 64, long_extent(maker.choose, 100))),)
    for place in range(count):
        function, dtype = pairs[(seed * count + place) * step % len(pairs)]
        first = maker.leaf(shape, dtype)
        if isinstance(function, DType):
            made = ops.cast(first.node, function)
        else:
            others = range(FUNCTIONS[function].arity - 1)
            made = ops.apply(function, first.node, *(maker.leaf(shape, dtype).node for _ in others))
        maker.values.append(Value(made, Span(-math.inf, math.inf, math.inf)))
    return maker.finish()


def _functions_of(dtype: DType) -> list[str]:
    """The functions whose operands and result have one dtype, or whose result is a truth; without
    those of a part of all numbers, and without higher transcendental ones, whose meaning and C are
    two approximations that part at hostile inputs by more than a few units in the last place."""
    return [
        name
        for name, fn in FUNCTIONS.items()
        if dtype.kind in fn.kinds and fn.result in ("same", "bool") and name not in _SPECIAL
        and not (dtype.kind == "f" and fn.cost >= APPROXIMATED and _is_own(fn))
    ]  # fmt: skip


def _is_own(function: ScalarFunction) -> bool:
    return not isinstance(function.evaluate, np.ufunc)


# ------------------------------------------------------------------------- what grows


class Explorer:
    """Graphs that reached something new, and new ones made of these.

    Attributes:
        coverage: what has been reached.
        kept: the graphs.
    """

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.kept: list[list[Node]] = []

    def learn(self, roots: Sequence[Node]) -> None:
        """Keeps the graph that was looked at last if it reached something as the first."""
        if self.coverage.take() and small_enough(roots):
            self.kept.append(_without_data(roots))
            del self.kept[:-KEPT]

    def grow(self, seed: int) -> list[Node] | None:
        """A graph that is no longer one of those kept; None where nothing came of it."""
        if not self.kept:
            return None
        choose = SeededChooser(seed)
        recent = choose.number(0, 1) * len(self.kept) // 2
        roots = self.kept[choose.number(recent, len(self.kept) - 1)]
        other = choose.pick(self.kept)
        for _ in range(choose.pick((1, 1, 2, 3))):
            way = choose.pick((inserted, inserted, grafted, extended, renumbered))
            try:
                made = way(roots, other, choose)
                if made is None:
                    continue
                verify_graph(made)
            except (LazytError, ValueError, TypeError, IndexError):
                continue  # the change does not fit this graph
            if small_enough(made):
                roots = made
        return roots


def small_enough(roots: Sequence[Node]) -> bool:
    """Whether a graph may be grown."""
    nodes = topological(roots)
    return len(nodes) <= MOST_NODES and work_of(roots) <= MOST_WORK


def _without_data(roots: Sequence[Node]) -> list[Node]:
    return parse_graph(print_graph(roots), ops.OPS)[1]


def spread(node: Node) -> Value:
    """A node as a value that rules can go on from: what it holds is made anew in any case."""
    span = Span(0, 1, 0) if node.dtype is bool_ else Span(0, 3, 0)
    return Value(node, span)


def inserted(roots: Sequence[Node], other: Sequence[Node], choose: Chooser) -> list[Node] | None:
    """An operand of a node becomes the result of one more structural op, cut to the old shape."""
    place = choose.pick(topological(roots))
    rule = choose.pick(STRUCTURAL)
    maker = GraphMaker(choose)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = remake(node, inputs)
        if node is not place:
            return made
        found = rule(maker, spread(made))
        return made if found is None else fitted(found.node, made, choose)

    return rebuild(roots, change)


def grafted(roots: Sequence[Node], other: Sequence[Node], choose: Chooser) -> list[Node] | None:
    """An input becomes a value of another graph, cut to its shape."""
    leaves = [node for node in topological(roots) if node.op.name == "input"]
    if not leaves:
        return None
    leaf = choose.pick(leaves)
    sources = topological(other)
    alike = [node for node in sources if node.dtype is leaf.dtype]
    source = choose.pick(alike or sources)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        return fitted(source, leaf, choose) if node is leaf else remake(node, inputs)

    return rebuild(roots, change)


def extended(roots: Sequence[Node], other: Sequence[Node], choose: Chooser) -> list[Node] | None:
    """One more root: a structural op of any value."""
    made = choose.pick(STRUCTURAL)(GraphMaker(choose), spread(choose.pick(topological(roots))))
    return None if made is None else [*roots, made.node]


def renumbered(roots: Sequence[Node], other: Sequence[Node], choose: Chooser) -> list[Node]:
    """A number of the graph's text is another one; what follows from it is inferred anew. Raises
    ParseError where that is no graph."""
    text = re.sub(r" : \w+\[[^\]]*\]$", "", print_graph(roots), flags=re.MULTILINE)
    places = list(re.finditer(r"(?<![%$\w.])\d+(?![\w.:])", text))
    place = choose.pick(places)
    number = int(place.group())
    instead = choose.pick((0, 1, 2, 3, number + 1, max(number - 1, 0), number * 2, 17,
                           long_extent(choose, 200)))  # fmt: skip
    start, end = place.span()
    if choose.number(0, 1):  # wherever it stands: an extent is in several types
        made = re.sub(rf"(?<![%$\w.]){number}(?![\w.:])", str(instead), text)
    else:
        made = text[:start] + str(instead) + text[end:]
    return parse_graph(made, ops.OPS)[1]


def fitted(node: Node, like: Node, choose: Chooser) -> Node:
    """``node`` as a value of the type of another: converted, axes added or folded away, and each
    cut, repeated or padded to its extent."""
    if node.dtype is not like.dtype:
        node = ops.cast(node, like.dtype)
    if node.shape == like.shape:
        return node
    if node.size == math.prod(like.shape):
        return ops.reshape(node, like.shape)
    rank = len(like.shape)
    if len(node.shape) > rank:
        kept = len(node.shape) - rank
        merged = (math.prod(node.shape[: kept + 1]), *node.shape[kept + 1 :])
        node = ops.reshape(node, merged if rank else (node.size,))
    if len(node.shape) < rank:
        node = ops.reshape(node, (*((1,) * (rank - len(node.shape))), *node.shape))
    if rank == 0:
        if not node.size:
            return like
        return ops.reshape(ops.slice_(node, (0,), (1,), (1,)), ())
    wide = tuple(w if e == 1 else e for e, w in zip(node.shape, like.shape, strict=True))
    if wide != node.shape:
        node = ops.expand(node, wide)
    lacking = [max(w - e, 0) for e, w in zip(node.shape, like.shape, strict=True)]
    if any(lacking):
        before = [choose.number(0, n) for n in lacking]
        after = [n - b for n, b in zip(lacking, before, strict=True)]
        node = ops.pad(node, before, after, [0] * rank, choose.number(0, 1))
    starts = [choose.number(0, e - w) for e, w in zip(node.shape, like.shape, strict=True)]
    return ops.slice_(node, starts, like.shape, [1] * rank)

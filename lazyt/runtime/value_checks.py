"""What a graph computes of inputs that fit it, and whether a stage of the compiler changed that.

Graphs are interpreted on inputs of several kinds, hostile ones among them. A stage may not change a
bit of any result. Where two right implementations may differ, in functions such as the exponential
and in 16-bit floats, the graph is interpreted again with errors of that size put in, and what comes
out of these says how far results may be apart. So nobody has to guess a tolerance, and results that
depend on no such function are compared bit by bit.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from lazyt.errors import VerifyError, warn
from lazyt.ir.dtypes import DType, bfloat16, bool_, encode_bfloat16
from lazyt.ir.graph import Node, topological
from lazyt.ir.printer import annotate, graph_lines
from lazyt.ir.scalar import Call, Expr, ScalarFunction, applied, post_order
from lazyt.ir.verifier import verify_graph, verify_roots
from lazyt.runtime.interpreter import interpret, load
from lazyt.runtime.kernel_bits import is_exact, ordered

Array = np.ndarray[Any, Any]
#: Stored arrays of leaves.
Given = Mapping[Node, Array]

#: Kinds of inputs: evenly spread in -1 to 1, in 0.5 to 2, small whole numbers, mostly zeros of both
#: signs, and what is hard: NaN, infinities, subnormals, the largest and the smallest numbers.
KINDS = ("uniform", "positive", "whole", "zeros", "hostile")
#: Small inputs are drawn more than once, until so many elements have been seen.
ELEMENTS, MOST_ROUNDS = 64, 8
#: Values of a graph and multiply-adds beyond which it is not interpreted: some seconds.
MOST_WORK = 20_000_000
#: Units in the last place by which functions may be off, in each of two implementations.
ULPS = 8
#: How often a graph is interpreted with errors, and by how much results may exceed what these show.
TRIALS, SLACK = 3, 4.0
#: Errors may cancel in all trials: an element that depends on a function may be off by as much as
#: half of the others are, and by so many units in the last place.
LEAST = 4 * ULPS

_EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


# ---------------------------------------------------------------------- inputs that fit


def leaves_of(roots: Sequence[Node]) -> list[Node]:
    """The inputs of a graph, in the order in which it is printed."""
    return [node for node in topological(roots, _has_value) if node.op.name == "input"]


def _has_value(node: Node) -> bool:
    return node.data is not None


def index_limits(roots: Sequence[Node]) -> dict[Node, int]:
    """For each integer input that positions are computed from: how many positions there are.

    An input in that range makes most positions valid, also where a program adds the extent to
    negative ones or clamps; positions outside are clamped by every implementation.
    """
    limits: dict[Node, int] = {}
    for node in topological(roots, _has_value):
        if node.op.name not in ("gather", "scatter"):
            continue
        extent = node.inputs[0].shape[node.params.axis]
        work, seen = [node.inputs[1]], set()
        while work:
            item = work.pop()
            if item in seen or item.dtype.kind not in "ui":
                continue
            seen.add(item)
            if item.op.name == "input":
                limits[item] = min(limits.get(item, extent), max(extent, 1))
            elif item.op.name == "map" or item.op.movement:
                work.extend(item.inputs)
    return limits


def make_inputs(
    leaves: Sequence[Node], kind: str, seed: int = 0, limits: Mapping[Node, int] | None = None
) -> dict[Node, Array]:
    """A stored array for each leaf.

    Args:
        leaves: nodes; only their types matter.
        kind: one of KINDS.
        seed: of the generator; equal seeds make equal arrays.
        limits: for integer leaves, the number that values are below (``index_limits``); of hostile
            ones some are outside.
    """
    rng = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    found = limits or {}
    return {leaf: _array(leaf.shape, leaf.dtype, kind, rng, found.get(leaf)) for leaf in leaves}


def _array(
    shape: tuple[int, ...], dtype: DType, kind: str, rng: np.random.Generator, limit: int | None
) -> Array:
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "ui":
        return _integers(shape, dtype, kind, rng, limit)
    if kind == "uniform":
        values = rng.uniform(-1, 1, shape)
    elif kind == "positive":
        values = rng.uniform(0.5, 2, shape)
    else:
        values = rng.integers(-4, 5, shape).astype(np.float64)
    if kind == "zeros":
        values = np.where(rng.random(shape) < 0.8, rng.choice([0.0, -0.0], shape), values)
    if kind == "hostile":
        hard = _hard_numbers(dtype)
        values = np.where(rng.random(shape) < 0.5, rng.choice(hard, shape), values)
    with np.errstate(all="ignore"):
        narrow = values.astype(np.float32 if dtype is bfloat16 else dtype.numpy)
    return encode_bfloat16(narrow) if dtype is bfloat16 else narrow


def _integers(
    shape: tuple[int, ...], dtype: DType, kind: str, rng: np.random.Generator, limit: int | None
) -> Array:
    info = np.iinfo(dtype.numpy)
    if limit is not None:
        most = min(limit, int(info.max) + 1)
        inside = rng.integers(0, most, shape, dtype.numpy)
        if kind != "hostile":
            return inside
        outside = np.array([max(info.min, -1), max(info.min, -most), min(most, info.max)])
        return np.where(rng.random(shape) < 0.2, rng.choice(outside, shape), inside).astype(
            dtype.numpy
        )
    low, high = (0, 9) if dtype.kind == "u" else (-4, 5)
    values = rng.integers(low, high, shape, dtype.numpy)
    if kind != "hostile":
        return values
    hard = np.array([info.min, info.max, info.max - 1, 0, 1], dtype.numpy)
    return np.where(rng.random(shape) < 0.5, rng.choice(hard, shape), values)


def _hard_numbers(dtype: DType) -> Array:
    # Kernels round 16-bit floats where they are stored: what overflows there is not decided.
    small, large = {
        "float16": (6e-8, 100.0), "bfloat16": (1e-40, 1e4), "float32": (1e-45, 3.4e38),
        "float64": (5e-324, 1.7e308),
    }[dtype.name]  # fmt: skip
    return np.array(
        [math.nan, math.inf, -math.inf, 0.0, -0.0, small, -small, large, -large, 1.0, -1.0, 0.5]
    )


def work_of(roots: Sequence[Node]) -> int:
    """How much there is to interpret: elements of values, and multiply-adds of products."""
    total = 0
    for node in topological(roots, _has_value):
        total += node.size
        if node.op.name == "contract":
            params = node.params
            extents = dict(zip(params.left, node.inputs[0].shape))
            extents |= dict(zip(params.right, node.inputs[1].shape))
            total += math.prod(extents.values())
        elif node.op.name in ("reduce", "scan", "window"):
            total += node.inputs[0].size
    return total


# ------------------------------------------------------- how far right values may be apart


def is_inexact(node: Node) -> bool:
    """Whether two right implementations of a node may differ in float results."""
    if node.dtype.kind != "f" or node.op.movement or node.op.is_identity or not node.inputs:
        return False
    if node.dtype.is_half:
        return True
    if node.op.name == "map":
        return not all(map(is_exact, applied(node.params)))
    return node.op.name == "library"


class _Errors:
    """Evaluates nodes with an error where implementations may have one."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, node: Node, *arrays: Array) -> Any:
        if not is_inexact(node):
            return ordered(node, *arrays)
        if node.op.name == "map":
            changed = SimpleNamespace(params=self._expression(node.params), shape=node.shape)
            result = node.op.evaluate(changed, *arrays)
        else:
            result = ordered(node, *arrays)
            if not node.dtype.is_half:
                result = self.disturb(result, node.dtype, 8 * ULPS)
        return self.disturb(result, node.dtype, 2) if node.dtype.is_half else result

    def disturb(self, values: Any, dtype: DType, ulps: float) -> Any:
        """``values`` off by as many units in the last place at random, up or down."""
        values = np.asarray(values)
        size = ulps * 2 * _EPSILON[dtype.name]
        factors = 1 + size * self.rng.choice((-1.0, 1.0), values.shape)
        return (values * factors).astype(values.dtype)

    def _expression(self, root: Expr) -> Expr:
        made: dict[Expr, Expr] = {}
        for expr in post_order(root):
            if not isinstance(expr, Call):
                made[expr] = expr
                continue
            fn = expr.fn
            if expr.dtype.kind == "f" and not is_exact(fn):
                fn = dataclasses.replace(fn, evaluate=self._wrapped(fn, expr.dtype))
            made[expr] = Call(fn, tuple(made[a] for a in expr.args), expr.dtype)
        return made[root]

    def _wrapped(self, fn: ScalarFunction, dtype: DType) -> Any:
        kind = dtype.compute

        def evaluate(*operands: Any) -> Any:
            return self.disturb(fn.evaluate(*operands), kind, ULPS)

        return evaluate


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a root is, of some inputs.

    Attributes:
        value: the stored array.
        apart: by how much each element may be off; None where none may.
    """

    value: Array
    apart: Array | None


def wanted(roots: Sequence[Node], given: Given) -> list[Wanted]:
    """What ``roots`` are of the inputs ``given``, and how far right results may be from it."""
    values = interpret(roots, given, ordered)
    if not any(is_inexact(node) for node in topological(roots, _has_value)):
        return [Wanted(value, None) for value in values]
    apart: list[Array | None] = [None] * len(values)
    for seed in range(TRIALS):
        for n, other in enumerate(interpret(roots, given, _Errors(seed))):
            dtype = roots[n].dtype
            if dtype.kind == "f":
                off = _distance(load(values[n], dtype), load(other, dtype))
            else:  # a decision that hangs on a rounding
                off = np.where(values[n] != other, np.inf, 0.0)
            if off.any():
                before = apart[n]
                apart[n] = off if before is None else np.maximum(before, off)
    return [
        Wanted(value, None if off is None else _allowed(value, off, root.dtype))
        for value, off, root in zip(values, apart, roots, strict=True)
    ]


def _allowed(value: Array, off: Array, dtype: DType) -> Array:
    """How far elements may be off, given how far they were in trials."""
    if dtype.kind != "f":
        return off
    found = load(value, dtype).astype(np.float64)
    size = np.where(np.isfinite(found), np.abs(found), 0.0)
    usual = off[(off > 0) & np.isfinite(off)]
    least = np.median(usual) if usual.size else 0.0
    return SLACK * np.maximum(off, least) + LEAST * 2 * _EPSILON[dtype.name] * size


def _distance(a: Array, b: Array) -> Array:
    with np.errstate(all="ignore"):
        off = np.abs(a.astype(np.float64) - b.astype(np.float64))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))


def difference(got: Array, want: Wanted, dtype: DType, tolerance: float = 0.0) -> str:
    """In words, by what a result is wrong, or nothing. NaN equals NaN, and 0.0 equals -0.0 only
    where errors are allowed.

    Args:
        got: the stored array.
        want: what it should be.
        dtype: of both.
        tolerance: what a stage that reorders may be off, relative to the largest value.
    """
    value = want.value
    if got.shape != value.shape or got.dtype != value.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {value.dtype}{list(value.shape)}"
    if dtype.kind != "f":
        wrong = got != value
        if want.apart is not None:
            wrong &= want.apart == 0
        return _described(wrong, got, value)
    a, b = load(got, dtype), load(value, dtype)
    both = np.isnan(a) & np.isnan(b)
    if want.apart is None and tolerance == 0:
        wrong = ~(both | ((a == b) & (np.signbit(a) == np.signbit(b))))
        return _described(wrong, a, b)
    allowed: Any = 0.0 if want.apart is None else want.apart
    if math.isinf(tolerance):  # anything will do
        return ""
    if tolerance:
        finite = b[np.isfinite(b)]
        allowed = allowed + tolerance * (np.abs(finite).max() if finite.size else 0.0)
    # A value may round to infinity, or be flushed to zero, where a neighbour of it does not.
    wrong = ~(_distance(a, b) <= allowed)
    return _described(wrong, a, b)


def _described(wrong: Array, got: Array, want: Array) -> str:
    if not wrong.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if wrong.ndim else ()
    place = f" at {list(at)}" if at else ""
    count = (
        f"{int(wrong.sum())} of {wrong.size} elements differ, first" if wrong.size > 1 else "it is"
    )
    return f"{count}{place}: {got[at]!s} instead of {want[at]!s}"


class Cases:
    """Inputs of several kinds for a graph, and what its roots are of each; of small graphs so many
    as ``rounds`` says.

    Attributes:
        leaves: the inputs.
        kinds: a name for each case.
        given: the leaves' arrays, for each case.
        wants: what the roots are, for each case.
    """

    def __init__(
        self, roots: Sequence[Node], kinds: Sequence[str] = KINDS, seed: int = 0,
        rounds: int = MOST_ROUNDS,
    ) -> None:  # fmt: skip
        self.leaves = leaves_of(roots)
        limits = index_limits(roots)
        if not any(leaf.data is None for leaf in self.leaves):
            kinds = ("the program's own",)  # all inputs have values
        free = [leaf for leaf in self.leaves if leaf.data is None]
        size = min((leaf.size for leaf in free), default=ELEMENTS)
        rounds = min(max(ELEMENTS // max(size, 1), 1), rounds)
        self.kinds = tuple(kinds) * (rounds if free else 1)
        self.given: list[dict[Node, Array]] = [
            make_inputs(free, kind, seed + 1000 * (n // len(kinds)), limits)
            for n, kind in enumerate(self.kinds)
        ]
        self.wants = [wanted(roots, given) for given in self.given]

    def __iter__(self) -> Iterator[tuple[str, dict[Node, Array], list[Wanted]]]:
        return iter(zip(self.kinds, self.given, self.wants, strict=True))

    def take_over(self, roots: Sequence[Node]) -> None:
        """Let what ``roots`` are be right from now on."""
        self.wants = [wanted(roots, given) for given in self.given]

    def fault(self, roots: Sequence[Node], tolerance: float = 0.0) -> Fault | None:
        """The first root of another graph over the same leaves whose value is another one."""
        for kind, given, wants in self:
            got = interpret(roots, given, ordered)
            for number, (root, value, want) in enumerate(zip(roots, got, wants, strict=True)):
                text = difference(value, want, root.dtype, tolerance)
                if text:
                    return Fault(number, kind, text, given)
        return None


@dataclasses.dataclass(frozen=True)
class Fault:
    """A result that is wrong.

    Attributes:
        root: the number of the root.
        kind: of which inputs.
        text: what is wrong with it.
        given: those inputs.
    """

    root: int
    kind: str
    text: str
    given: Given

    def __str__(self) -> str:
        return f"root {self.root}, {self.kind} inputs: {self.text}"


def first_new_value(before: Sequence[Node], after: Sequence[Node], fault: Fault) -> Node:
    """The first node of ``after`` below the wrong root whose value no node of ``before`` of its
    type has, which is most likely what went wrong; the root itself where there is none."""
    old = topological(before, _has_value)
    known: dict[tuple[Any, ...], set[bytes]] = {}
    for node, value in zip(old, interpret(old, fault.given, ordered), strict=True):
        known.setdefault((node.shape, node.dtype), set()).add(value.tobytes())
    root = after[fault.root]
    order = topological([root], _has_value)
    were = set(old)
    for node, value in zip(order, interpret(order, fault.given, ordered), strict=True):
        alike = known.get((node.shape, node.dtype), set())
        if node not in were and alike and value.tobytes() not in alike:
            return node
    return root


class GraphChecker:
    """Verifies what each pass makes of a graph: its rules and roots, and with ``values`` what it
    computes.

    Args:
        roots: the graph before the first pass.
        values: whether to interpret it. A graph with more than MOST_WORK to do is not interpreted,
            and a RuntimeWarning says so.
    """

    def __init__(self, roots: Sequence[Node], values: bool) -> None:
        verify_graph(roots)
        self.roots = list(roots)
        self.cases: Cases | None = None
        if not values:
            return
        work = work_of(roots)
        if any(node.op.name == "custom" for node in topological(roots, _has_value)):
            return  # a user's kernel means what its text says, which is not interpreted
        if work > MOST_WORK:
            text = f"the values of a graph are not verified: {work:,} steps to interpret"
            warn(f"{text}, more than {MOST_WORK:,}", RuntimeWarning)
        else:
            self.cases = Cases(roots)

    def check(self, name: str, after: Sequence[Node], tolerance: float = 0.0) -> None:
        """Verify the graph after the pass ``name``, which may be off by ``tolerance`` of the
        largest value. Raises VerifyError that names the pass, with the IR after it, marked."""
        try:
            verify_roots(self.roots, after)
            verify_graph(after)
        except VerifyError as error:
            raise VerifyError(f"after pass {name}: {error}") from error
        if self.cases is not None and list(after) != self.roots:
            fault = self.cases.fault(after, tolerance)
            if fault is not None:
                raise VerifyError(self._told(name, after, fault))
            if tolerance:
                self.cases.take_over(after)
        self.roots = list(after)

    def _told(self, name: str, after: Sequence[Node], fault: Fault) -> str:
        near = first_new_value(self.roots, after, fault)
        complaints: dict[int, list[str]] = {}
        if near is not after[fault.root]:
            complaints[id(near)] = ["no value before the pass is this one"]
        complaints.setdefault(id(after[fault.root]), []).append(str(fault))
        text = f"pass {name} has changed a value: {fault}\n"
        return text + annotate(graph_lines(after), complaints)

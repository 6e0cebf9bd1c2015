"""Why a graph had no plan: what tells it apart from the nearest one that was computed before."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from lazyt.ir.graph import Node
from lazyt.ir.scalar import Call

_KEPT = 256  # graphs that are remembered


@dataclass(frozen=True)
class _Summary:
    """A graph in short: what it calculates, from what, and how much of it is asked for."""

    ops: tuple[str, ...]
    leaves: tuple[str, ...]
    results: tuple[str, ...]
    where: str


_history: OrderedDict[tuple[tuple[str, ...], int], _Summary] = OrderedDict()


def clear() -> None:
    """Forgets all graphs."""
    _history.clear()


def explain_new(
    order: Sequence[Node], leaves: Sequence[Node], roots: Sequence[Node], where: str
) -> str:
    """What is new about a graph, one clause; remembers it for the next.

    Args:
        order: its nodes, inputs first.
        leaves, roots: those of them that are given, and those that are asked for.
        where: the user's line that made the first result.
    """
    given = set(leaves)
    summary = _Summary(
        tuple(_name(n) for n in order if n not in given),
        tuple(_type(n) for n in leaves),
        tuple(_type(n) for n in roots),
        where,
    )
    key = (summary.ops, len(summary.leaves))
    twin = _history.get(key)
    nearest = twin or _nearest(summary)
    _history[key] = summary
    _history.move_to_end(key)
    if len(_history) > _KEPT:
        _history.popitem(last=False)
    if nearest is None:
        return "the first graph of its kind"
    if twin is None:
        return _other_ops(summary, nearest)
    if twin.leaves != summary.leaves:
        changed = [
            f"input {i} is {new}, was {old}"
            for i, (new, old) in enumerate(zip(summary.leaves, twin.leaves, strict=True))
            if new != old
        ]
        return "the same operations on other inputs: " + _listed(changed)
    if twin.results != summary.results:
        return (
            f"the same operations with other results: {_listed(list(summary.results))} "
            f"and not {_listed(list(twin.results))}"
        )
    return "the same operations with other parameters, or combined in another way"


def _name(node: Node) -> str:
    """The op; for a map, the function that makes its values."""
    expr = node.params if node.op.name == "map" else None
    return expr.fn.name if isinstance(expr, Call) else node.op.name


def _type(node: Node) -> str:
    return f"{node.dtype.name}{list(node.shape)}"


def _listed(parts: list[str], most: int = 4) -> str:
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more} more" if more > 0 else "")


def _nearest(summary: _Summary) -> _Summary | None:
    """The remembered graph whose operations differ least, one of the same line before others;
    None when all differ by more than half."""
    counts = Counter(summary.ops)
    best, score = None, 0.5
    for other in reversed(_history.values()):
        difference = _distance(counts, other.ops) / max(len(summary.ops), len(other.ops), 1)
        if other.where == summary.where:
            difference /= 2
        if difference < score:
            best, score = other, difference
    return best


def _distance(counts: Counter[str], ops: tuple[str, ...]) -> int:
    others = Counter(ops)
    return sum((counts - others).values()) + sum((others - counts).values())


def _other_ops(summary: _Summary, nearest: _Summary) -> str:
    new, old = Counter(summary.ops), Counter(nearest.ops)
    parts = [f"{count} {name} more" for name, count in sorted((new - old).items())]
    parts += [f"{count} {name} less" for name, count in sorted((old - new).items())]
    if not parts:
        given, had = len(summary.leaves), len(nearest.leaves)
        parts = [f"{given} inputs instead of {had}" if given != had else "another order"]
    line = f" of {nearest.where}" if nearest.where != summary.where else " of this line"
    return f"compared with the nearest graph before ({len(nearest.ops)} operations{line}): " + (
        _listed(parts)
    )

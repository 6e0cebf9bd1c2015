"""What ``explain()`` returns: the kernels of a plan, with reasons, as text and as HTML."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt.ir.graph import Node
from lazyt.ir.scalar import Call

if TYPE_CHECKING:
    from lazyt.plan.footprint import Footprint


@dataclass(frozen=True)
class KernelFacts:
    """One kernel of a plan.

    Attributes:
        name: its C function.
        kind: ``map``, ``row``, ``contract``, ``scatter``, ``update``, ``scan``, ``sort`` or
            ``library``, a call that is not compiled.
        computes: the values it writes, as ``op dtype[shape]``.
        bytes_read, bytes_written: memory traffic when every buffer is touched once.
        flops: arithmetic operations, functions counted at their cost.
        scratch: bytes of scratch memory beside inputs and outputs.
        phases: parallel sections with a barrier in between.
        segments: how many independent computations share the launch; the first is the one that
            ``computes`` and ``reasons`` are about, the other figures are those of all.
        reasons: what was fused, and why no more.
        sources: the user's ``file:line`` of the operations in it.
        form: how the target does it, where there is a choice.
        again: whether it computes values that were there before, to save memory.
    """

    name: str
    kind: str
    computes: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    flops: float
    scratch: int
    phases: int
    reasons: tuple[str, ...]
    sources: tuple[str, ...]
    form: str
    segments: int = 1
    again: bool = False

    @staticmethod
    def from_note(note: dict[str, Any]) -> KernelFacts:
        """The facts that code generation left in a Program."""
        return KernelFacts(
            name=note["name"],
            kind=note["kind"],
            computes=tuple(note["computes"]),
            bytes_read=int(note["bytes_read"]),
            bytes_written=int(note["bytes_written"]),
            flops=float(note["flops"]),
            scratch=int(note["scratch"]),
            phases=int(note["phases"]),
            reasons=tuple(note["reasons"]),
            sources=tuple(note["sources"]),
            form=str(note.get("form", "")),
            segments=int(note.get("segments", 1)),
            again=bool(note.get("again", False)),
        )


def _amount(number: float, unit: str = "") -> str:
    """1234567 -> '1.23 M'."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}".rstrip()


#: Lines of the table that are no kernels: a collective is started, or waited for.
_TRANSFERS = ("collective", "wait")


class Explanation:
    """The kernels that a computation takes; prints as a table, renders in Jupyter.

    Attributes:
        kernels: one KernelFacts per launch, in order.
        arena_bytes: scratch memory shared by all kernels.
        footprint: memory and time, predicted and measured; None where library calls make several
            plans of a computation.
        tier: what runs these kernels, or runs instead of them for now; empty where nothing but
            them ever does.
    """

    def __init__(
        self,
        notes: Sequence[dict[str, Any]],
        arena_bytes: int,
        footprint: Footprint | None = None,
        tier: str = "",
    ) -> None:
        self.kernels = [KernelFacts.from_note(n) for n in notes]
        self.arena_bytes = arena_bytes
        self.footprint = footprint
        self.tier = tier

    def followed_by(self, later: Explanation) -> Explanation:
        """The steps of both, one after the other."""
        both = Explanation((), max(self.arena_bytes, later.arena_bytes))
        both.kernels = [*self.kernels, *later.kernels]
        return both

    _HEAD = ("#", "kind", "computes", "read", "written", "flops", "scratch", "source")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(number),
                k.kind,
                "; ".join(k.computes) + (f"; {k.segments} segments" if k.segments > 1 else ""),
                _amount(k.bytes_read, "B"),
                _amount(k.bytes_written, "B"),
                _amount(k.flops),
                _amount(k.scratch, "B"),
                k.sources[-1].rsplit("/", 1)[-1] if k.sources else "",
            )
            for number, k in enumerate(self.kernels, 1)
        ]

    def __str__(self) -> str:
        if not self.kernels:
            return "no kernels: the value is already computed, or nothing has to be"
        rows = [self._HEAD, *self._rows()]
        widths = [max(len(r[c]) for r in rows) for c in range(len(self._HEAD))]
        lines = [
            "  ".join(t.ljust(w) for t, w in zip(r, widths, strict=True)).rstrip() for r in rows
        ]
        lines.insert(1, "  ".join("-" * w for w in widths))
        for number, kernel in enumerate(self.kernels, 1):
            lines.append("")
            if kernel.kind == "library":
                lines.append(f"library call {number}: {kernel.name}")
            elif kernel.kind == "python":
                lines.append(f"call of Python {number}: {kernel.name}")
            elif kernel.kind in _TRANSFERS:
                what = "end of transfer" if kernel.kind == "wait" else "transfer"
                lines.append(f"{what} {number}: {kernel.name}")
            else:
                lines.append(f"kernel {number}: {kernel.name}, {kernel.phases} phase(s)")
            if kernel.form:
                lines.append(f"  form: {kernel.form}")
            lines += [f"  - {reason}" for reason in kernel.reasons]
        calls = sum(k.kind == "library" for k in self.kernels)
        transfers = sum(k.kind == "collective" for k in self.kernels)
        bodies = sum(k.kind == "python" for k in self.kernels)
        count = sum(k.kind not in (*_TRANSFERS, "library", "python") for k in self.kernels)
        total = f"{count} {'kernel' if count == 1 else 'kernels'}"
        if calls:
            total += f", {calls} library {'call' if calls == 1 else 'calls'}"
        if bodies:
            total += f", {bodies} {'call' if bodies == 1 else 'calls'} of Python"
        if transfers:
            total += f", {transfers} {'transfer' if transfers == 1 else 'transfers'}"
        again = sum(k.again for k in self.kernels)
        if again:
            total += f", {again} of them to compute values again"
        lines += ["", f"{total}, arena {_amount(self.arena_bytes, 'B')}"]
        if self.tier:
            lines.append(self.tier)
        if self.footprint is not None:
            lines.append(self.footprint.memory_text())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table for notebooks; reasons open on demand."""
        import html

        head = "".join(f"<th>{html.escape(t)}</th>" for t in self._HEAD)
        body = []
        for row, kernel in zip(self._rows(), self.kernels, strict=True):
            cells = "".join(f"<td>{html.escape(t)}</td>" for t in row)
            reasons = "".join(f"<li>{html.escape(r)}</li>" for r in kernel.reasons)
            body.append(
                f"<tr>{cells}</tr><tr><td></td><td colspan={len(row) - 1}><details>"
                f"<summary>{html.escape(kernel.name)}</summary><ul>{reasons}</ul></details></td></tr>"
            )
        below = f"<p>{html.escape(self.tier)}</p>" if self.tier else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{below}"


# Why a graph had no plan: what tells it apart from the nearest one that was computed before.


_KEPT = 256  # graphs that are remembered


@dataclass(frozen=True)
class _Summary:
    """A graph in short: what it calculates, from what, and how many results it has."""

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
        leaves, roots: those of them that are given, and those that are requested.
        where: the user's line that made the first result.
    """
    given = set(leaves)
    summary = _Summary(
        tuple(op_name(n) for n in order if n not in given),
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


def op_name(node: Node) -> str:
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

"""What ``explain()`` returns: the kernels of a plan, with reasons, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazyt.footprint import Footprint


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
            else:
                lines.append(f"kernel {number}: {kernel.name}, {kernel.phases} phase(s)")
            if kernel.form:
                lines.append(f"  form: {kernel.form}")
            lines += [f"  - {reason}" for reason in kernel.reasons]
        calls = sum(k.kind == "library" for k in self.kernels)
        count = len(self.kernels) - calls
        total = f"{count} {'kernel' if count == 1 else 'kernels'}"
        if calls:
            total += f", {calls} library {'call' if calls == 1 else 'calls'}"
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

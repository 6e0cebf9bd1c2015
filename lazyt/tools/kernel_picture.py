"""A kernel as a picture: its buffers, and the phases with their stages that read and write them."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lazyt.ir.index import Load, sub_expressions
from lazyt.ir.kernel import (
    AnyPhase,
    Buffer,
    CallPhase,
    ContractPhase,
    Kernel,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.printer import format_type, kernel_lines
from lazyt.ir.scalar import Expr

_BUFFER, _MIDDLE, _GAP, _MARGIN = 172, 560, 110, 20
_LINE, _BUFFER_HEIGHT, _PAD = 16, 40, 8
#: Characters of a statement that fit.
_MOST = 72
#: Lines of a stage that are drawn; the tooltip has all.
_MOST_LINES = 14
_FILL = {
    "in": "#dbe7f5",
    "out": "#e3f2e1",
    "inout": "#fbe3c6",
    "work": "#eeeeee",
    "band": "#e9def3",
}
_STYLE = """
.kernel text { font: 12px ui-monospace, monospace; }
.kernel .dim { fill: #555; font-size: 11px; }
.kernel .title { font-weight: 600; }
.kernel .buffer rect { stroke: #777; }
.kernel .phase { fill: #fafafa; stroke: #999; }
.kernel .stage > rect { fill: #fff; stroke: #bbb; }
.kernel .edge { fill: none; stroke: #9aa7b5; stroke-width: 1.3; }
.kernel .edge.write { stroke: #4b8b52; }
.kernel .buffer:hover rect, .kernel .stage:hover > rect { stroke: #0b57d0; stroke-width: 2; }
"""


@dataclass
class _Block:
    """A stage, or a part of a contraction: its lines, and the buffers that it uses."""

    title: str
    lines: list[str] = field(default_factory=list)
    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, None] = field(default_factory=dict)

    @property
    def shown(self) -> list[str]:
        """The lines that are drawn."""
        if len(self.lines) <= _MOST_LINES:
            return self.lines
        return [*self.lines[: _MOST_LINES - 1], f"... {len(self.lines) - _MOST_LINES + 1} more"]

    @property
    def height(self) -> int:
        """Its height in the picture."""
        return _LINE * (len(self.shown) + 1) + 2 * _PAD

    def add(self, item: object, text: str) -> None:
        """One line, and what its expression reads and writes."""
        self.lines.append(text)
        value: Expr | None = item if isinstance(item, Expr) else None
        if isinstance(item, Statement):
            value = item.value
        if isinstance(item, Store):
            self.writes[item.buffer] = None
            if item.combine is not None:
                self.reads[item.buffer] = None
        for part in sub_expressions(value) if value is not None else ():
            if isinstance(part, Load):
                self.reads[part.buffer] = None


@dataclass
class _Section:
    """A phase with its blocks."""

    title: str
    blocks: list[_Block] = field(default_factory=list)

    @property
    def height(self) -> int:
        """Its height in the picture."""
        return _LINE + 2 * _PAD + sum(block.height + _PAD for block in self.blocks)


def _sections(kernel: Kernel) -> Iterator[_Section]:
    """The phases in order, made of the lines of the kernel's text."""
    found: list[_Section] = []
    for item, line in kernel_lines(kernel):
        text = line.strip().removesuffix(" {")
        if item is None or item is kernel:
            continue
        if isinstance(item, AnyPhase):
            found.append(_Section(f"{len(found)}: {text}"))
            if isinstance(item, CallPhase):
                block = _Block("routine", [text])
                block.reads.update(dict.fromkeys(item.reads))
                block.writes.update(dict.fromkeys((*item.writes, *item.work)))
                found[-1].blocks.append(block)
            if isinstance(item, ContractPhase):
                found[-1].blocks.append(_Block("for each row, column and inner index"))
        elif isinstance(item, Stage):
            found[-1].blocks.append(_Block(text))
        else:
            blocks = found[-1].blocks
            if isinstance(item, Statement) and blocks[-1].title.startswith("for each row, column"):
                blocks.append(_Block("for each row and column, with the finished sum"))
            blocks[-1].add(item, text)
    yield from found


class _Drawing:
    """One kernel's picture."""

    def __init__(self, kernel: Kernel, top: int) -> None:
        self.kernel, self.top = kernel, top
        self.sections = list(_sections(kernel))
        written = {name for s in self.sections for b in s.blocks for name in b.writes}
        self.left = [b for b in kernel.buffers if b.name not in written]
        self.right = [b for b in kernel.buffers if b.name in written]
        phases = sum(section.height + 2 * _PAD for section in self.sections)
        sides = (_BUFFER_HEIGHT + _PAD) * max(len(self.left), len(self.right))
        self.height = 3 * _LINE + max(phases, sides)
        self.x = _MARGIN + _BUFFER + _GAP
        self.ends: dict[str, tuple[float, float]] = {}
        self.parts: list[str] = []
        self.edges: list[str] = []

    def text(self) -> str:
        """Its elements."""
        kernel = self.kernel
        facts = f" in bands of {kernel.bands.points} x {kernel.bands.rows}" if kernel.bands else ""
        if kernel.segments:
            facts += f", {len(kernel.segments)} segments"
        self._write(_MARGIN, self.top + _LINE, f"kernel {kernel.name}{facts}", "title")
        self._buffers(self.left, _MARGIN, _MARGIN + _BUFFER)
        right = self.x + _MIDDLE + _GAP
        self._buffers(self.right, right, right)
        y = self.top + 2 * _LINE
        for section in self.sections:
            self._section(section, y)
            y += section.height + 2 * _PAD
        return "".join([*self.edges, *self.parts])

    def _write(self, x: float, y: float, text: str, kind: str = "") -> None:
        named = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}"{named}>{html.escape(text)}</text>')

    def _buffers(self, buffers: Sequence[Buffer], x: float, end: float) -> None:
        for number, buffer in enumerate(buffers):
            y = self.top + 2 * _LINE + number * (_BUFFER_HEIGHT + _PAD)
            kind = format_type(buffer.shape, buffer.dtype)
            self.ends[buffer.name] = end, y + _BUFFER_HEIGHT / 2
            self.parts.append(
                f'<g class="buffer"><title>{html.escape(f"{buffer.role} {buffer.name}: {kind}")}'
                f'</title><rect x="{x:.0f}" y="{y}" width="{_BUFFER}" height="{_BUFFER_HEIGHT}" '
                f'rx="5" fill="{_FILL[buffer.role]}"/>'
            )
            self._write(x + 8, y + 16, f"{buffer.role} {buffer.name}")
            self._write(x + 8, y + 32, _cut(kind, 24), "dim")
            self.parts.append("</g>")

    def _section(self, section: _Section, top: int) -> None:
        self.parts.append(
            f'<rect class="phase" x="{self.x}" y="{top}" width="{_MIDDLE}" '
            f'height="{section.height}" rx="7"/>'
        )
        self._write(self.x + _PAD, top + _LINE, _cut(section.title, _MOST), "title")
        y = top + _LINE + _PAD
        for block in section.blocks:
            self._block(block, y)
            y += block.height + _PAD

    def _block(self, block: _Block, y: int) -> None:
        x, width = self.x + _PAD, _MIDDLE - 2 * _PAD
        whole = html.escape("\n".join([block.title, *block.lines]))
        self.parts.append(
            f'<g class="stage"><title>{whole}</title><rect x="{x}" y="{y}" width="{width}" '
            f'height="{block.height}" rx="4"/>'
        )
        self._write(x + _PAD, y + _LINE, _cut(block.title, _MOST), "dim")
        for number, line in enumerate(block.shown):
            self._write(x + _PAD, y + _LINE * (number + 2), _cut(line, _MOST - 2))
        self.parts.append("</g>")
        middle = y + block.height / 2
        for name in block.reads:
            self._edge(name, middle - 4, "read")
        for name in block.writes:
            self._edge(name, middle + 4, "write")

    def _edge(self, name: str, y: float, kind: str) -> None:
        if name not in self.ends:
            return
        ex, ey = self.ends[name]
        x = self.x + _PAD if ex < self.x else self.x + _MIDDLE - _PAD
        half = (x + ex) / 2
        arrow = ' marker-end="url(#to)"' if kind == "write" else ' marker-start="url(#to)"'
        self.edges.append(
            f'<path class="edge {kind}"{arrow} d="M{x} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} '
            f'{ey:.1f} {ex} {ey:.1f}"><title>{html.escape(f"{kind} {name}")}</title></path>'
        )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def draw_kernels(kernels: Sequence[Kernel]) -> str:
    """Kernels below each other, as self-contained SVG: what they only read on the left, what they
    write on the right."""
    parts, top = [], _MARGIN
    for kernel in kernels:
        drawing = _Drawing(kernel, top)
        parts.append(drawing.text())
        top += drawing.height + 2 * _MARGIN
    width = 2 * (_MARGIN + _BUFFER + _GAP) + _MIDDLE
    arrow = (
        '<defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#7a8794"/>'
        "</marker></defs>"
    )
    return (
        f'<svg class="kernel" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" '
        f'viewBox="0 0 {width} {top}">\n<style>{_STYLE}</style>{arrow}\n{"".join(parts)}\n</svg>\n'
    )


def draw_kernels_page(kernels: Sequence[Kernel], title: str) -> str:
    """The same in a page of its own, which needs no network."""
    name = html.escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{name}</title><style>body {{ margin: 1em; font: 14px sans-serif; }}</style></head>"
        f"<body><h1>{name}</h1>\n{draw_kernels(kernels)}</body></html>\n"
    )

"""A graph as a picture: SVG, or an HTML page with the details of the node under the pointer."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import NamedTuple

from lazyt.ir.graph import Node, source_text, topological
from lazyt.ir.printer import format_type, graph_lines, is_leaf

BOX_WIDTH, BOX_HEIGHT = 168, 40
COLUMN, ROW, MARGIN = 188, 84, 24
#: Fill by what a node does to memory and time.
COLOURS = {
    "input": "#dbe7f5", "const": "#eeeeee", "iota": "#eeeeee", "random": "#eeeeee",
    "map": "#e3f2e1", "reduce": "#fbe3c6", "scan": "#fbe3c6", "contract": "#f7d4d4",
    "gather": "#e9def3", "scatter": "#e9def3", "update": "#e9def3",
}  # fmt: skip
_STYLE = """
text { font: 12px ui-monospace, monospace; text-anchor: middle; }
.type { font-size: 10.5px; fill: #555; }
.node rect { stroke: #777; rx: 5; }
.node.root rect { stroke-width: 2.5; stroke: #222; }
.node:focus { outline: none; }
.node:focus rect, .node:hover rect { stroke: #0b57d0; stroke-width: 2.5; }
.edge { fill: none; stroke: #999; }
.edge.near { stroke: #0b57d0; stroke-width: 2; }
"""
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ margin: 0; font: 14px sans-serif; display: flex; height: 100vh; }}
main {{ flex: 1; overflow: auto; }}
aside {{ width: 24em; padding: 1em; overflow: auto; border-left: 1px solid #ccc; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
</style></head><body>
<main>{svg}</main>
<aside aria-live="polite"><h1>{title}</h1>
<p>{summary}</p><p>Tab or the arrow keys go from node to node: up to an input, down to a user,
left and right in a layer.</p><pre id="details"></pre></aside>
<script>
const facts = {facts};
const byId = (id) => document.getElementById("n" + id);
function show(id) {{
  document.getElementById("details").textContent = facts[id].text;
  document.querySelectorAll(".edge").forEach((edge) => edge.classList.toggle("near",
    edge.dataset.from === String(id) || edge.dataset.to === String(id)));
}}
document.querySelectorAll(".node").forEach((node) => {{
  const id = Number(node.id.slice(1));
  node.addEventListener("focus", () => show(id));
  node.addEventListener("mouseenter", () => show(id));
  node.addEventListener("keydown", (event) => {{
    const next = facts[id][event.key];
    if (next === undefined || next < 0) return;
    event.preventDefault();
    byId(next).focus();
    byId(next).scrollIntoView({{block: "nearest", inline: "nearest"}});
  }});
}});
</script></body></html>
"""


class Picture:
    """Numbers, places and texts of the nodes of one graph."""

    def __init__(self, roots: Sequence[Node]) -> None:
        self.roots = frozenset(roots)
        self.places = place_nodes(roots)
        leaves = [n for n in self.places if is_leaf(n)]
        inner = [n for n in self.places if not is_leaf(n)]
        self.numbers = {n: i for i, n in enumerate([*leaves, *inner])}
        self.lines = {n: text for n, text in graph_lines(roots) if n is not None}

    def centre(self, node: Node) -> tuple[float, float]:
        """The middle of a node's box."""
        place = self.places[node]
        x = MARGIN + BOX_WIDTH / 2 + COLUMN * place.column
        return x, MARGIN + BOX_HEIGHT / 2 + ROW * place.layer

    def title(self, node: Node) -> str:
        """What a node's box says first."""
        text = self.lines.get(node, "")
        body = text[text.find("{") : text.rfind("}") + 1] if node.params is not None else ""
        label = f"%{self.numbers[node]} {node.op.name} {body}".rstrip()
        return label if len(label) <= 23 else label[:22] + "…"

    def details(self, node: Node) -> str:
        """All that is known about a node, in lines."""
        kind = format_type(node.shape, node.dtype)
        text = self.lines.get(node, f"%{self.numbers[node]} = input : {kind}")
        return f"{text}\n\n{node.size} elements, {node.nbytes} bytes\n{source_text(node.source)}"

    def edges(self) -> list[str]:
        """Curves from inputs to users."""
        found = []
        for node in self.places:
            x, bottom = self.centre(node)
            y = bottom - BOX_HEIGHT / 2
            for item in dict.fromkeys(node.inputs):
                a, top = self.centre(item)
                b, middle = top + BOX_HEIGHT / 2, (top + BOX_HEIGHT / 2 + y) / 2
                ends = f'data-from="{self.numbers[item]}" data-to="{self.numbers[node]}"'
                path = f"M{a:.1f} {b:.1f}C{a:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {y:.1f}"
                found.append(f'<path class="edge" {ends} d="{path}"/>')
        return found

    def box(self, node: Node) -> str:
        """One node: a box with two lines of text and a tooltip."""
        x, y = self.centre(node)
        left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
        colour = COLOURS.get(node.op.name, "#ffffff")
        kind = "node root" if node in self.roots else "node"
        label = html.escape(self.details(node), quote=True)
        size = f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" fill="{colour}"'
        return (
            f'<g class="{kind}" id="n{self.numbers[node]}" tabindex="0" role="img" '
            f'aria-label="{html.escape(self.title(node), quote=True)}"><title>{label}</title>'
            f'<rect x="{left:.1f}" y="{top:.1f}" {size}/>'
            f'<text x="{x:.1f}" y="{y - 3:.1f}">{html.escape(self.title(node))}</text>'
            f'<text class="type" x="{x:.1f}" y="{y + 13:.1f}">'
            f"{html.escape(format_type(node.shape, node.dtype))}</text></g>"
        )

    def svg(self) -> str:
        """The whole picture."""
        places = self.places.values()
        columns = max((p.column for p in places), default=0.0)
        layers = max((p.layer for p in places), default=0)
        width = 2 * MARGIN + BOX_WIDTH + COLUMN * columns
        height = 2 * MARGIN + BOX_HEIGHT + ROW * layers
        body = "\n".join([*self.edges(), *map(self.box, self.places)])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
        )

    def neighbours(self) -> dict[Node, dict[str, int]]:
        """Where the arrow keys lead from each node; -1 for nowhere."""
        users: dict[Node, Node] = {}
        rows: dict[int, list[tuple[float, Node]]] = {}
        for node, place in self.places.items():
            rows.setdefault(place.layer, []).append((place.column, node))
            for item in node.inputs:
                users.setdefault(item, node)
        found: dict[Node, dict[str, int]] = {}
        for row in rows.values():
            nodes = [n for _, n in sorted(row, key=lambda item: item[0])]
            for at, node in enumerate(nodes):
                left = self.numbers[nodes[at - 1]] if at else -1
                right = self.numbers[nodes[at + 1]] if at + 1 < len(nodes) else -1
                up = self.numbers[node.inputs[0]] if node.inputs else -1
                down = self.numbers[users[node]] if node in users else -1
                found[node] = {
                    "ArrowLeft": left, "ArrowRight": right, "ArrowUp": up, "ArrowDown": down,
                }  # fmt: skip
        return found

    def page(self, title: str) -> str:
        """The picture in a page of its own, with a panel of details; needs no network."""
        near = self.neighbours()
        by_number = sorted(self.places, key=self.numbers.__getitem__)
        facts = [{"text": self.details(n), **near[n]} for n in by_number]
        # "</" would end the script element inside of a string.
        data = json.dumps(facts).replace("</", "<\\/")
        summary = f"{len(facts)} nodes, {len(self.roots)} results"
        return _PAGE.format(title=html.escape(title), svg=self.svg(), facts=data, summary=summary)


def draw_svg(roots: Sequence[Node]) -> str:
    """The graph of ``roots`` as self-contained SVG with tooltips."""
    return Picture(roots).svg()


def draw_html(roots: Sequence[Node], title: str) -> str:
    """The graph of ``roots`` as a self-contained HTML page, usable with the keyboard."""
    return Picture(roots).page(title)


# Where the nodes of a picture go: layers by depth, few crossings within a layer.


#: Sweeps over the layers that reorder nodes by the middle of their neighbours.
SWEEPS = 6


class Place(NamedTuple):
    """A node's layer, counted from the inputs, and its centre in columns."""

    layer: int
    column: float


def _layers(order: Sequence[Node]) -> dict[Node, int]:
    """Longest distance from a leaf; leaves stand just above their first user."""
    layer: dict[Node, int] = {}
    nearest: dict[Node, int] = {}
    for node in order:
        layer[node] = 1 + max((layer[i] for i in node.inputs), default=-1)
    for node in order:
        for item in node.inputs:
            nearest[item] = min(nearest.get(item, layer[node]), layer[node])
    for node in order:
        if not node.inputs and node in nearest:
            layer[node] = nearest[node] - 1
    return layer


def _spread(row: list[Node], wish: dict[Node, float], columns: dict[Node, float]) -> None:
    """Orders a row by where its nodes wish to be, one column apart at least, centred on wishes."""
    row.sort(key=lambda n: (wish[n], columns[n]))
    at = -1e9
    for node in row:
        at = max(at + 1, wish[node])
        columns[node] = at
    shift = sum(wish[n] - columns[n] for n in row) / len(row)
    for node in row:
        columns[node] += shift


def place_nodes(roots: Sequence[Node]) -> dict[Node, Place]:
    """A place for every node that ``roots`` depend on, columns starting at 0. Iterative."""
    order = topological(roots)
    layer = _layers(order)
    rows: list[list[Node]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    users: dict[Node, list[Node]] = {n: [] for n in order}
    columns: dict[Node, float] = {}
    for node in order:
        columns[node] = float(len(rows[layer[node]]))
        rows[layer[node]].append(node)
        for item in node.inputs:
            users[item].append(node)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wish = {}
            for node in row:
                near = node.inputs if down else users[node]
                total = sum(columns[n] for n in near)
                wish[node] = total / len(near) if near else columns[node]
            _spread(row, wish, columns)
    least = min(columns.values(), default=0.0)
    return {n: Place(layer[n], columns[n] - least) for n in order}

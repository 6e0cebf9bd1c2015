"""``python -m lazyt report``: a capture as one page that needs no network.

A line of the user's program, the graph before and after each pass, groups with their reasons,
kernels with their forms, and C stand beside each other; what belongs together is marked together.
Below: where time goes, the roofline, and the arena over the launches.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lazyt.tools.arguments import Parser, write_output
from lazyt.tools.captures import figures
from lazyt.tools.captures.files import Captured, CapturedPlan, CaptureError, GraphText, numbers_in

_PAGES = Path(__file__).resolve().parents[1] / "pages"
#: Nodes of a graph up to which there is a picture of it.
_MOST_DRAWN = 120
#: Lines of a user's file that are shown around those that nodes come from.
_AROUND = 12
_NODE = re.compile(r"%\d+")


def _escape(text: str) -> str:
    return html.escape(text, quote=True)


class _PlanPage:
    """The part of the page that is about one plan."""

    def __init__(self, plan: CapturedPlan, sources: dict[str, str], roof: Any) -> None:
        self.plan, self.sources, self.roof = plan, sources, roof
        self.stages = [("as asked for", plan.graph)]
        self.stages += [(f"after {name}", text) for name, text in plan.passes]
        #: Keys of the user's lines.
        self.positions: dict[str, str] = {}
        for _, text in self.stages:
            for position in text.positions:
                if position:
                    self.positions.setdefault(position, f"s{len(self.positions)}")
        self.groups_of = self._groups_of_nodes()
        self.values = [value_keys(text) for _, text in self.stages]
        last = dict(self.values[-1])
        #: Groups by the key of a value, so that nodes before the passes are known, too.
        self.groups_of_value: dict[str, list[int]] = {}
        for number, groups in self.groups_of.items():
            if number in last:
                self.groups_of_value.setdefault(last[number], []).extend(groups)
        launches = plan.launches["launches"]
        self.launch_keys = [_group_keys(launch["groups"]) for launch in launches]

    def _groups_of_nodes(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, group in enumerate(self.plan.groups):
            for node in dict.fromkeys([*group["nodes"], *group["members"]]):
                found.setdefault(node, []).append(number)
        return found

    def _node_keys(self, stage: int, number: int, position: str) -> str:
        value = self.values[stage].get(number, "")
        if stage == len(self.stages) - 1:
            groups = self.groups_of.get(number, [])
        else:
            groups = self.groups_of_value.get(value, [])
        return " ".join(
            filter(None, [value, self.positions.get(position, ""), _group_keys(groups)])
        )

    # ------------------------------------------------------------------ panes

    def text(self, number: int) -> str:
        """The part, hidden until it is chosen."""
        return (
            f'<section class="plan" id="plan{number}" hidden>{self._figures()}'
            f'<div class="panes">{self._source_pane()}{self._graph_pane()}{self._group_pane()}'
            f'{self._kernel_pane()}</div><div class="drawings">{self._drawings()}</div></section>'
        )

    def _figures(self) -> str:
        plan = self.plan
        facts = [
            (str(len(plan.graph.lines) - 1), "nodes"),
            (str(len(self.stages[-1][1].lines) - 1), "after the passes"),
            (str(len(plan.groups)), "groups"),
            (str(len(plan.program.launches)), "launches"),
            (str(len(plan.program.kernels)), "kernels"),
            (figures.size(plan.program.arena_bytes), "arena"),
        ]
        if isinstance(plan.times.get("plan"), float):
            facts.append((figures.duration(plan.times["plan"]), "a run"))
        items = "".join(f"<span><b>{_escape(a)}</b> {_escape(b)}</span>" for a, b in facts)
        reason = _escape(str(plan.launches.get("reason", "")))
        note = '<span class="pinned-note" aria-live="polite"></span>'
        return f'<p class="figures">{items}<span>{reason}</span>{note}</p>'

    def _source_pane(self) -> str:
        wanted: dict[str, set[int]] = {}
        for position in self.positions:
            name, _, line = position.rpartition(":")
            wanted.setdefault(name, set()).add(int(line))
        parts = []
        for name, numbers in wanted.items():
            lines = self.sources.get(name, "").splitlines()
            parts.append(f'<div class="row"><b>{_escape(os.path.basename(name))}</b></div>')
            before = 0
            for number in sorted({n + d for n in numbers for d in range(-_AROUND, _AROUND + 1)}):
                if not 0 < number <= max(len(lines), max(numbers)):
                    continue
                if number > len(lines) and number not in numbers:
                    continue
                if number > before + 1:
                    parts.append('<div class="row"><span class="no">⋯</span></div>')
                before = number
                line = lines[number - 1] if number <= len(lines) else "(the file is not there)"
                keys = self.positions.get(f"{name}:{number}", "")
                parts.append(
                    _row(
                        str(number), line, keys and f"{keys} {self._groups_at(f'{name}:{number}')}"
                    )
                )
        body = "".join(parts) or '<div class="row">no positions were recorded</div>'
        return _pane("Program", body)

    def _groups_at(self, position: str) -> str:
        groups = [n for n, group in enumerate(self.plan.groups) if position in group["sources"]]
        return _group_keys(groups)

    def _graph_pane(self) -> str:
        options, parts = [], []
        for stage, (title, text) in enumerate(self.stages):
            changed = stage == 0 or text.text != self.stages[stage - 1][1].text
            label = title if changed else f"{title} (no change)"
            chosen = " selected" if stage == len(self.stages) - 1 else ""
            options.append(f'<option value="{stage}"{chosen}>{_escape(label)}</option>')
            hidden = "" if chosen else " hidden"
            rows = [_row("", text.lines[0], "")] if text.lines else []
            for (number, line), position in zip(
                numbers_in(text.lines), text.positions, strict=False
            ):
                rows.append(_row("", line, self._node_keys(stage, number, position)))
            parts.append(f'<div class="stage" data-stage="{stage}"{hidden}>{"".join(rows)}</div>')
            drawn = self._picture(stage) if stage in (0, len(self.stages) - 1) else ""
            if drawn:
                options.append(f'<option value="p{stage}">picture, {_escape(title)}</option>')
                parts.append(
                    f'<div class="stage picture" data-stage="p{stage}" hidden>{drawn}</div>'
                )
        choice = f'<select aria-label="stage">{"".join(options)}</select>'
        return _pane(f"Graph {choice}", "".join(parts))

    def _picture(self, stage: int) -> str:
        from lazyt.errors import ParseError
        from lazyt.ir.parser import parse_graph
        from lazyt.ops import OPS
        from lazyt.tools.picture import Picture

        text = self.stages[stage][1]
        if len(text.lines) > _MOST_DRAWN:
            return ""
        try:
            _, roots = parse_graph(text.text, OPS)
        except ParseError as error:
            raise CaptureError(
                f"{self.plan.path}, graph {self.stages[stage][0]}: {error}"
            ) from None
        # Its style would be that of all texts of the page, which has one of its own.
        drawn = re.sub(r"<style>.*?</style>", "", Picture(roots).svg(), flags=re.S)
        pairs = zip(numbers_in(text.lines), text.positions, strict=False)
        positions = {number: position for (number, _), position in pairs}

        def replace(match: re.Match[str]) -> str:
            number = int(match[1])
            keys = self._node_keys(stage, number, positions.get(number, ""))
            return f'data-k="{_escape(keys)}" tabindex="0"' if keys else 'tabindex="-1"'

        return re.sub(r'id="n(\d+)" tabindex="0"', replace, drawn)

    def _group_pane(self) -> str:
        parts = []
        for number, group in enumerate(self.plan.groups):
            lines = " ".join(self.positions.get(position, "") for position in group["sources"])
            keys = f"g{number} {lines}".strip()
            reasons = "".join(f"<li>{_escape(_shorter(r))}</li>" for r in group["reasons"])
            again = ", again" if group.get("again") else ""
            computes = _escape("; ".join(group["computes"]))
            parts.append(
                f'<div class="card" data-k="{_escape(keys)}" tabindex="0"><b>{number}</b> '
                f'<span class="kind">{_escape(group["kind"])}{again}</span> '
                f'<span class="mono">{computes}</span><ul>{reasons}</ul></div>'
            )
        return _pane("Groups and reasons", "".join(parts))

    def _kernel_pane(self) -> str:
        from lazyt.ir.printer import print_kernel

        plan = self.plan
        texts = {kernel.name: kernel.text for kernel in plan.program.kernels}
        seconds = plan.times["launches"]
        seen: dict[str, int] = {}
        parts: list[str] = []
        for number, launch in enumerate(plan.program.launches):
            note = plan.program.notes[number]
            time = f", {figures.duration(seconds[number])}" if number < len(seconds) else ""
            form = str(note.get("form", ""))
            shown = f'<div class="form">{_escape(form)}</div>' if form else ""
            ir = print_kernel(plan.kernels[number]) if number < len(plan.kernels) else ""
            if launch.kernel in seen:
                c = f"as of launch {seen[launch.kernel]}"
            else:
                seen[launch.kernel] = number
                c = texts[launch.kernel]
            parts.append(
                f'<details class="kernel" data-k="{_escape(self._keys_of_launch(number))}">'
                f"<summary><b>{number}</b> <code>{_escape(launch.kernel)}</code>{_escape(time)}"
                f"{shown}</summary><h3>kernel IR</h3><pre>{_escape(ir)}</pre>"
                f"<h3>{'CUDA C' if plan.program.target == 'cuda' else 'C'}</h3>"
                f"<pre>{_escape(c)}</pre></details>"
            )
        return _pane("Launches: kernel, form, C", "".join(parts))

    def _keys_of_launch(self, number: int) -> str:
        return self.launch_keys[number] if number < len(self.launch_keys) else ""

    # ------------------------------------------------------------------ drawings

    def _drawings(self) -> str:
        plan = self.plan
        launches = plan.program.launches
        seconds = [float(s) for s in plan.times["launches"] if isinstance(s, (int, float))]
        rows = [
            (f"{n} {launch.kernel}", s, self._keys_of_launch(n))
            for n, (launch, s) in enumerate(zip(launches, seconds))
        ]
        steps = [(str(k), float(s), "") for k, s in plan.times["passes"].items()]
        compiler = plan.times.get("compiler")
        took = compiler.get("seconds") if isinstance(compiler, dict) else None
        if isinstance(took, (int, float)):
            steps.append(("C compiler", float(took), ""))
        parts = [
            _drawing("Seconds of each launch", figures.bars(rows, "seconds of launches"),
                     "The median of some runs on copies of the inputs."),
            _drawing("Seconds of compiling", figures.bars(steps, "seconds of compiling"), ""),
            self._roofline(seconds),
            _drawing("The arena over launches", figures.arena(
                plan.program,
                figures.spans(plan.program, plan.launches["launches"], self.launch_keys),
            ), "Each rectangle is a value that lives between launches, or scratch of one."),
        ]  # fmt: skip
        return "".join(parts)

    def _roofline(self, seconds: Sequence[float]) -> str:
        if not self.roof:
            return ""
        points = [
            figures.Point(
                f"{n} {launch.kernel}",
                _number(note.get("bytes_read")) + _number(note.get("bytes_written")),
                _number(note.get("flops")), s, self._keys_of_launch(n),
            )
            for n, (launch, note, s) in enumerate(
                zip(self.plan.program.launches, self.plan.program.notes, seconds)
            )
        ]  # fmt: skip
        bandwidth, peak = self.roof
        below = (
            f"Bounds of the machine of the capture: {bandwidth / 1e9:.3g} GB/s, "
            f"{peak / 1e9:.4g} GFLOP/s. What is above the slope found its data in a cache."
        )
        return _drawing("Roofline", figures.roofline(points, bandwidth, peak), below)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _group_keys(groups: Sequence[int]) -> str:
    return " ".join(f"g{n}" for n in dict.fromkeys(groups))


def value_keys(text: GraphText) -> dict[int, str]:
    """A key for each node that is the same wherever the same is computed of the same inputs, so
    that a node is found again after passes that number it anew."""
    known: dict[str, str] = {}
    header = text.lines[0] if text.lines else ""
    for number, kind in re.findall(r"(%\d+): (\w+\[[^\]]*\])", header):
        known[number] = f"{number} {kind}"
    found: dict[int, str] = {}
    for number, line in numbers_in(text.lines):
        body = line.partition(" = ")[2]
        said = _NODE.sub(lambda match: known.get(match[0], match[0]), body)
        key = hashlib.blake2b(said.encode(), digest_size=6).hexdigest()
        known[f"%{number}"] = key
        found[number] = f"v{key}"
    return found


def _shorter(reason: str) -> str:
    """A reason with the names of files without folders."""
    return re.sub(r"\((?:[^()]*/)?([^()/]*:\d+)\)", r"(\1)", reason)


def _row(number: str, line: str, keys: str) -> str:
    marked = f' data-k="{_escape(keys.strip())}" tabindex="0"' if keys else ""
    place = f'<span class="no">{number}</span>' if number else ""
    return f'<div class="row mono"{marked}>{place}{_escape(line)}</div>'


def _pane(title: str, body: str) -> str:
    return f'<div class="pane"><h2>{title}</h2><div class="scroll">{body}</div></div>'


def _drawing(title: str, picture: str, below: str) -> str:
    if not picture:
        return ""
    kind = "drawing wide" if figures.is_wide(picture) else "drawing"
    return f'<div class="{kind}"><h3>{_escape(title)}</h3>{picture}<p>{_escape(below)}</p></div>'


def page(captured: Captured) -> str:
    """The page of a capture. Raises CaptureError where a file of it is damaged."""
    sources, roof = captured.sources(), captured.roofline()
    parts = [_PlanPage(plan, sources, roof).text(n) for n, plan in enumerate(captured.plans)]
    buttons = [
        f'<button type="button" data-name="{_escape(plan.name)}" aria-pressed="false">'
        f"{_escape(plan.name)}<small>{len(plan.program.launches)} launches{_run_time(plan)}</small>"
        "</button>"
        for plan in captured.plans
    ]
    manifest = captured.manifest
    program = " ".join(map(str, manifest["program"].get("arguments", [])))
    machine, lazyt = manifest["machine"], manifest.get("lazyt")
    compiler = manifest.get("c_compiler")
    made = [
        str(machine.get("model", "")), f"{machine.get('cores')} cores",
        f"vectors of {machine.get('vector_bytes')} bytes",
        str(compiler.get("version", "")) if isinstance(compiler, dict) else "",
        f"lazyt {lazyt.get('version')}" if isinstance(lazyt, dict) else "",
        f"Python {manifest.get('python')}",
    ]  # fmt: skip
    settings = ", ".join(f"{name} {value}" for name, value in manifest["settings"].items())
    body = (
        f"<header><h1>Capture of <code>{_escape(program)}</code></h1>"
        f"<p>{_escape(' · '.join(filter(None, made)))}</p><p>{_escape(settings)}</p>"
        "<p>Point at a line, a node, a group, a launch or a figure to see what belongs to it; a "
        "click, or Enter, holds it and scrolls all panes there.</p></header>"
        f"<nav>{''.join(buttons)}</nav>{''.join(parts)}"
    )
    if not parts:
        body += '<p style="padding: 1em 1.2em">No plan ran in this capture.</p>'
    text = (_PAGES / "report.html").read_text(encoding="utf-8")
    script = (_PAGES / "report.js").read_text(encoding="utf-8")
    filled = {"TITLE": _escape(f"lazyt: {program}"), "BODY": body, "SCRIPT": script}
    return re.sub("@(TITLE|BODY|SCRIPT)@", lambda match: filled[match[1]], text)


def _run_time(plan: CapturedPlan) -> str:
    found = plan.times.get("plan")
    return f", {figures.duration(found)}" if isinstance(found, float) else ""


def run(argv: Sequence[str]) -> int:
    """The command. Raises UsageError and CaptureError."""
    parser = Parser(loads=True, prog="lazyt report", description=__doc__)
    parser.add_argument("folder", help="a capture")
    parser.add_argument("-o", "--output", default="-", help="the page, - for standard output")
    given = parser.parse_args(argv)
    write_output(given.output, page(Captured(given.folder)))
    return 0

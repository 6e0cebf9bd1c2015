"""Two captures side by side, as one page that needs no network."""

from __future__ import annotations

import html
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lazyt.tools.captures.compare import Comparison, Level, Pair, Part

#: Equal lines that are shown around a change.
_AROUND = 3
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --old: #d9302622; --new: #1a7f3722; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1.2em; max-width: 110em; }
h1 { font-size: 1.3em; margin: 0 0 .4em; }
code, td, th { font-family: ui-monospace, monospace; font-size: 12.5px; }
.equal { color: #1a7f37; } .different { color: #d93026; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5em 0; padding: .3em .7em; }
details details { margin-left: 1em; }
summary { cursor: pointer; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; margin: .4em 0; }
td { white-space: pre-wrap; overflow-wrap: anywhere; vertical-align: top; padding: 0 .5em; }
td.number { width: 3.2em; text-align: right; opacity: .5; white-space: nowrap; }
th { text-align: left; border-bottom: 1px solid var(--line); }
tr.changed td.old { background: var(--old); } tr.changed td.new { background: var(--new); }
tr.gap td { text-align: center; opacity: .5; border-block: 1px dashed var(--line); }
.times td, .times th { width: auto; text-align: right; } .times { width: auto; }
"""


def page(found: Comparison) -> str:
    """The page."""
    sides = [html.escape(side.path) for side in (found.before, found.after)]
    different = sum(not pair.is_equal for pair in found.pairs)
    state = (
        f'<span class="different">{different} of {len(found.pairs)} plans differ</span>'
        if different
        else f'<span class="equal">all {len(found.pairs)} plans are equal</span>'
    )
    others = "".join(f"<li><code>{html.escape(line)}</code></li>" for line in found.surroundings)
    made = f"<p>Made with other</p><ul>{others}</ul>" if others else ""
    body = "\n".join(map(_pair, found.pairs))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>lazyt diff</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>Two captures</h1><p>A: <code>{sides[0]}</code><br>B: <code>{sides[1]}</code></p>"
        f"<p>{state}</p>{made}\n{body}\n</body></html>\n"
    )


def _pair(pair: Pair) -> str:
    title = html.escape(pair.title)
    if pair.is_equal:
        return f'<details><summary><b>{title}</b> <span class="equal">equal</span></summary>' + (
            f"{_times(pair)}</details>"
        )
    first = pair.first
    if first is None:
        side = "A" if pair.after is None else "B"
        return f'<details><summary><b>{title}</b> <span class="different">only in {side}</span>' + (
            "</summary></details>"
        )
    levels = "\n".join(_level(level, level is first) for level in pair.levels)
    return (
        f'<details open><summary><b>{title}</b> <span class="different">differs first at '
        f"{html.escape(first.name)}</span></summary>\n{levels}{_times(pair)}</details>"
    )


def _level(level: Level, is_first: bool) -> str:
    kind = "different" if level.changed else "equal"
    head = f'<span class="{kind}">{html.escape(level.summary())}</span>'
    if not level.changed:
        return f"<p>{head}</p>"
    tables = "\n".join(map(_table, level.changed))
    return f"<details{' open' if is_first else ''}><summary>{head}</summary>{tables}</details>"


def _table(part: Part) -> str:
    rows = "\n".join(_rows(part))
    title = f"<p><code>{html.escape(part.title)}</code></p>" if part.title else ""
    widths = '<col style="width:3.6em"><col><col style="width:3.6em"><col>'
    return f"{title}<table><colgroup>{widths}</colgroup>{rows}</table>"


def _rows(part: Part) -> Iterator[str]:
    before, after = part.before.splitlines(), part.after.splitlines()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_AROUND)):
        if number:
            yield '<tr class="gap"><td colspan="4">...</td></tr>'
        for kind, a, c, b, d in group:
            for n in range(max(c - a, d - b)):
                old = _cells(before, a + n, c, "old")
                new = _cells(after, b + n, d, "new")
                yield f"<tr{'' if kind == 'equal' else ' class=changed'}>{old}{new}</tr>"


def _cells(lines: list[str], number: int, end: int, side: str) -> str:
    if number >= end:
        return '<td class="number"></td><td></td>'
    return f'<td class="number">{number + 1}</td><td class="{side}">' + (
        f"{html.escape(lines[number])}</td>"
    )


def _times(pair: Pair) -> str:
    if not pair.times:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{1e6 * a:.1f}</td><td>{1e6 * b:.1f}</td>"
        f"<td>{f'{b / a:.2f}' if a else ''}</td></tr>"
        for name, a, b in pair.times
    )
    head = "<tr><th></th><th>A, us</th><th>B, us</th><th>B : A</th></tr>"
    return f'<details><summary>times</summary><table class="times">{head}{rows}</table></details>'

"""``python -m lazyt show broadcast``: how shapes broadcast, as text or as an interactive page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from lazyt.tools.arguments import Parser, UsageError, write_output

_PAGES = Path(__file__).parent / "pages"
#: The page has this many colours.
_MOST_OPERANDS = 4


def parse_shape(text: str) -> tuple[int, ...]:
    """The sizes in ``8,1,6``, ``(8, 1, 6)`` or ``8x1x6``; nothing is the shape of one number.

    Raises UsageError for anything else.
    """
    inner = text.strip().lstrip("([").rstrip(")]").strip().removesuffix(",")
    if not inner:
        return ()
    parts = re.split(r"\s*[,x]\s*|\s+", inner)
    wrong = [part for part in parts if not re.fullmatch("[0-9]+", part)]
    if wrong:
        raise UsageError(f"{text!r} is no shape: {wrong[0]!r} is no size; write for example 8,1,6")
    return tuple(int(part) for part in parts)


def broadcast_page(shapes: Sequence[Sequence[int]]) -> str:
    """A self-contained page that explains any shapes typed into it, beginning with ``shapes``.

    It has two to four fields; fewer shapes are filled up with (). Raises UsageError for more.
    """
    if len(shapes) > _MOST_OPERANDS:
        raise UsageError(f"the page shows at most {_MOST_OPERANDS} shapes, not {len(shapes)}")
    texts = [", ".join(map(str, shape)) for shape in shapes]
    texts += [""] * (2 - len(texts))
    page = (_PAGES / "broadcast.html").read_text(encoding="utf-8")
    script = (_PAGES / "broadcast.js").read_text(encoding="utf-8")
    return page.replace("__SHAPES__", json.dumps(texts)).replace("__SCRIPT__", script)


def run(argv: Sequence[str]) -> int:
    """The command; returns 0 also for shapes that do not fit: that is an answer, too."""
    from lazyt.broadcasting import explain_broadcast

    parser = Parser(prog="lazyt show broadcast", description="Explain how shapes broadcast.")
    parser.add_argument("shape", nargs="+", help="sizes with commas, such as 8,1,6,1")
    parser.add_argument("--html", metavar="FILE", help="write an interactive page, - for stdout")
    options = parser.parse_args(argv)
    shapes = [parse_shape(text) for text in options.shape]
    if options.html is not None:
        write_output(options.html, broadcast_page(shapes))
    else:
        print(explain_broadcast(*shapes))
    return 0

"""Why shapes broadcast, or do not: the rule at each dimension, as text, as HTML and as data."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from lazyt.errors import DTypeError, ShapeError
from lazyt.functional.operands import broadcast_all
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import contiguous_strides
from lazyt.ir.graph import Shape
from lazyt.tools.arguments import Parser, UsageError, write_output

EQUAL, STRETCHED, MISSING, CONFLICT = "equal", "stretched", "missing", "conflict"


@dataclass(frozen=True)
class Step:
    """What happens at one dimension.

    Attributes:
        dim: the dimension, counted from the end: -1 is the last.
        sizes: its size in each operand, None where the operand has no such dimension.
        rules: for each operand ``equal`` (it has the size of the result), ``stretched`` (1 is
            repeated), ``missing`` (taken as 1, then repeated) or ``conflict``.
        result: the size of the result; None for a conflict.
    """

    dim: int
    sizes: tuple[int | None, ...]
    rules: tuple[str, ...]
    result: int | None

    @property
    def text(self) -> str:
        """The step as a sentence."""
        said = []
        for at, (size, rule) in enumerate(zip(self.sizes, self.rules)):
            name = name_of(at)
            if rule == MISSING:
                said.append(f"{name} has no such dimension: missing -> 1" + self._copies())
            elif rule == STRETCHED:
                said.append(f"{name} has 1" + self._copies())
            else:
                said.append(f"{name} has {size}")
        if self.result is None:
            return "; ".join(said) + ": conflict, the sizes differ and none of them is 1"
        if set(self.rules) == {EQUAL} and len(self.rules) > 1:
            return f"equal, all have {self.result}"
        return "; ".join(said)

    def _copies(self) -> str:
        if self.result is None or self.result == 1:
            return ""
        return ", dropped to 0" if self.result == 0 else f", stretched to {self.result}"


@dataclass(frozen=True)
class Broadcast:
    """How shapes fit together. Prints as a table with a sentence per dimension.

    Attributes:
        shapes: the shapes that were given.
        ok: whether they have a common shape.
        result: the common shape, or None.
        steps: one per dimension, from the last to the first.
        strides: for each operand the strides of its view in the common shape, 0 where elements
            are repeated; None when there is no common shape.
        error: PyTorch's message, or None.
        advice: what to do about a conflict, or None.
    """

    shapes: tuple[Shape, ...]
    result: Shape | None
    steps: tuple[Step, ...]
    strides: tuple[Shape, ...] | None
    error: str | None
    advice: str | None

    @property
    def conflict(self) -> Step | None:
        """The first step that fails, from the last dimension; None when the shapes fit."""
        return next((step for step in self.steps if step.result is None), None)

    @property
    def ok(self) -> bool:
        """Whether the shapes have a common shape."""
        return self.result is not None

    def rows(self) -> list[tuple[str, list[str]]]:
        """The right-aligned table: a name and a cell per dimension, the result last."""
        columns = self.steps[::-1]
        rows = [
            (name_of(at), ["" if c.sizes[at] is None else str(c.sizes[at]) for c in columns])
            for at in range(len(self.shapes))
        ]
        found = ["?" if c.result is None else str(c.result) for c in columns]
        return [*rows, ("result", found)]

    def __str__(self) -> str:
        heads = [str(step.dim) for step in self.steps[::-1]]
        table = [("dim", heads), *self.rows()]
        widths = [max(len(cells[i]) for _, cells in table) for i in range(len(heads))]
        lines = [
            f"{name:8}" + "".join(f"{c:>{w + 2}}" for c, w in zip(cells, widths))
            for name, cells in table
        ]
        if not heads:
            lines = ["no operand has a dimension"]
        lines.append("")
        lines += [f"dim {step.dim}: {step.text}" for step in self.steps]
        if self.result is None:
            lines += [f"\nerror: {self.error}", f"{self.advice}"]
        else:
            lines.append(f"\nresult: {shape_text(self.result)}")
            for at, strides in enumerate(self.strides or ()):
                lines.append(f"strides of {name_of(at)} there: {shape_text(strides)}")
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A table for notebooks; conflicting dimensions are marked with words and colour."""
        import html  # not for `import lazyt`

        columns = self.steps[::-1]
        heads = "".join(f'<th scope="col">{c.dim}</th>' for c in columns)
        body = []
        for at, (name, cells) in enumerate(self.rows()):
            marks = [
                (c.rules[at] if at < len(c.rules) else CONFLICT if c.result is None else "result")
                for c in columns
            ]
            body.append(
                f'<tr><th scope="row">{name}</th>'
                + "".join(
                    f'<td title="{mark}" style="text-align:right;{_STYLES.get(mark, "")}">{c}</td>'
                    for c, mark in zip(cells, marks)
                )
                + "</tr>"
            )
        steps = "".join(f"<li>dim {s.dim}: {html.escape(s.text)}</li>" for s in self.steps)
        if self.result is None:
            error, advice = html.escape(str(self.error)), html.escape(str(self.advice))
            end = f"<strong>{error}</strong><br>{advice}"
        else:
            end = f"result: {shape_text(self.result)}"
        return (
            f'<table><caption>Broadcasting</caption><tr><th scope="col">dim</th>{heads}</tr>'
            f"{''.join(body)}</table><ol>{steps}</ol><p>{end}</p>"
        )


#: Colours that keep their contrast on a white and on a dark page.
_STYLES = {
    STRETCHED: "background:#fff3cd;color:#4d3800",
    MISSING: "background:#e2e3e5;color:#2b2f32",
    CONFLICT: "background:#f8d7da;color:#6a1a21",
}


def name_of(at: int) -> str:
    """The letter of an operand: a, b, ..., z, then o26 and so on."""
    return chr(ord("a") + at) if at < 26 else f"o{at}"


def shape_text(shape: Sequence[int]) -> str:
    """A shape as Python prints a tuple."""
    return str(tuple(shape))


def _shape_of(operand: Any) -> tuple[Shape, Shape]:
    """Shape and strides of an operand."""
    if isinstance(operand, Tensor):
        return tuple(operand.shape), tuple(operand.stride())
    given = operand if isinstance(operand, (tuple, list)) else (operand,)
    try:
        shape = tuple(operator.index(size) for size in given)
    except TypeError:
        raise DTypeError(
            "explain_broadcast() takes shapes (ints, or tuples or lists of ints) and tensors, "
            f"not {operand!r}"
        ) from None
    if any(size < 0 for size in shape):
        raise ShapeError(f"explain_broadcast(): a size is negative in the shape {list(shape)}")
    return shape, contiguous_strides(shape)


def expanded_strides(shape: Shape, strides: Shape, result: Shape) -> Shape:
    """Strides of ``expand``: 0 where elements repeat; a new dimension of size 1 spans the rest."""
    found: list[int] = []
    inner = 1
    for back in range(1, len(result) + 1):
        there = back <= len(shape)
        size, stride = (shape[-back], strides[-back]) if there else (1, inner)
        found.append(stride if size == result[-back] else 0)
        inner = result[-back] * found[-1]
    return tuple(reversed(found))


def _step(dim: int, sizes: tuple[int | None, ...]) -> Step:
    others = {size for size in sizes if size not in (None, 1)}
    if len(others) > 1:
        rules = {None: MISSING, 1: STRETCHED}
        return Step(dim, sizes, tuple(rules.get(size, CONFLICT) for size in sizes), None)
    result = others.pop() if others else 1
    assert result is not None
    rules_of = [MISSING if s is None else EQUAL if s == result else STRETCHED for s in sizes]
    return Step(dim, sizes, tuple(rules_of), result)


def _fits(shape: Shape, other: Shape) -> bool:
    return all(1 in pair or pair[0] == pair[1] for pair in zip(shape[::-1], other[::-1]))


def _advice(first: int, a: Shape, second: int, b: Shape) -> str:
    """What would make two shapes fit: ones in between, a transposition, or other sizes."""
    short, at, long = (b, second, a) if len(b) <= len(a) else (a, first, b)
    name = name_of(at)
    for places in combinations(range(len(long)), len(short)):
        wide = [1] * len(long)
        for place, size in zip(places, short):
            wide[place] = size
        if _fits(tuple(wide), long):
            shape = shape_text(wide[places[0] :])
            return f"If {name} should line up elsewhere: {name}.reshape{shape} broadcasts."
    if len(short) > 1 and _fits((*short[:-2], short[-1], short[-2]), long):
        return f"If two dimensions of {name} are exchanged: {name}.transpose(-2, -1) broadcasts."
    return "Make the two sizes equal, or one of them 1."


def _conflict_advice(shapes: tuple[Shape, ...]) -> str:
    """Advice about the first pair of operands that do not fit."""
    for second in range(1, len(shapes)):
        for first in range(second):
            if not _fits(shapes[first], shapes[second]):
                return _advice(first, shapes[first], second, shapes[second])
    raise AssertionError("shapes that fit in pairs have a common shape")


def explain_broadcast(*operands: Tensor | Sequence[int] | int) -> Broadcast:
    """How PyTorch's broadcasting rule treats ``operands``: shapes, or tensors of any dtype.

    An int is a shape of one dimension, as for ``torch.broadcast_shapes``. A conflict is explained
    by the result, with the message that an operation on such tensors raises, and is no error here.
    Raises DTypeError for what is no shape and ShapeError for negative sizes. The rule:
    https://pytorch.org/docs/stable/notes/broadcasting.html
    """
    given = [_shape_of(operand) for operand in operands]
    shapes = tuple(shape for shape, _ in given)
    rank = max(map(len, shapes), default=0)
    steps = tuple(
        _step(-back, tuple(s[-back] if back <= len(s) else None for s in shapes))
        for back in range(1, rank + 1)
    )
    try:
        result = broadcast_all(shapes)
    except ShapeError as error:
        return Broadcast(shapes, None, steps, None, str(error), _conflict_advice(shapes))
    strides = tuple(expanded_strides(shape, stride, result) for shape, stride in given)
    return Broadcast(shapes, result, steps, strides, None, None)


# ``python -m lazyt show broadcast``: how shapes broadcast, as text or as an interactive page.


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

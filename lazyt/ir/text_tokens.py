"""Reading IR text: tokens, one at a time, with positions for errors."""

from __future__ import annotations

import re

from lazyt.errors import ParseError
from lazyt.ir.dtypes import DType, dtype_by_name
from lazyt.ir.graph import Shape

# ``%`` directly before a word is a reference; the remainder sign is followed by a space.
_TOKEN = re.compile(
    r"""(?:\s++|\#[^\n]*+)*+(?:
      (?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.])|-inf\b|nan\#[0-9a-f]{16})
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<reference>%[A-Za-z0-9_]+)
    | (?P<argument>\$\d+)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<sign>->|<=|//|[(){}\[\],:;=<>%*+@])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_SPACE = re.compile(r"(?:\s+|#[^\n]*)*")


class Reader:
    """A cursor over IR text. Spaces, line breaks and ``#`` comments only separate tokens.

    Attributes:
        kind: kind of the current token: ``number name reference argument string sign end``.
        text: its text.
        start: its offset in the source.
    """

    __slots__ = ("_end", "kind", "source", "start", "text")

    def __init__(self, source: str) -> None:
        self.source = source
        self._end = 0
        self.kind = self.text = ""
        self.start = 0
        self._scan()

    def _scan(self) -> None:
        match = _TOKEN.match(self.source, self._end)
        if match is None:
            space = _SPACE.match(self.source, self._end)
            self.start = space.end() if space else self._end
            self.kind, self.text = "unknown", self.source[self.start]
            raise self.error(f"unexpected character {self.text!r}")
        self.kind = kind = match.lastgroup or ""
        self.text = match.group(kind)
        self.start, self._end = match.span(kind)

    def take(self) -> str:
        """The current token's text; moves on to the next token."""
        text = self.text
        self._scan()
        return text

    def accept(self, text: str) -> bool:
        """Whether the current token is ``text``; if so, moves on."""
        if self.text == text and self.kind != "string":
            self._scan()
            return True
        return False

    def expect(self, text: str) -> None:
        """Moves past ``text``; raises ParseError when something else stands here."""
        if not self.accept(text):
            raise self.expected(f"'{text}'")

    def expect_kind(self, kind: str, what: str) -> str:
        """The current token's text when it is of ``kind``; raises ParseError otherwise."""
        if self.kind != kind:
            raise self.expected(what)
        return self.take()

    def expected(self, what: str) -> ParseError:
        """The error that says what should stand at the current token."""
        found = "the end of the text" if self.kind == "end" else f"'{self.text}'"
        return self.error(f"expected {what}, found {found}")

    def error(self, message: str, at: int | None = None) -> ParseError:
        """A ParseError at offset ``at`` (by default the current token) that shows the line."""
        at = self.start if at is None else at
        line = self.source.count("\n", 0, at) + 1
        begin = self.source.rfind("\n", 0, at) + 1
        end = self.source.find("\n", at)
        shown = self.source[begin : len(self.source) if end < 0 else end]
        column = at - begin + 1
        caret = " " * (column - 1) + "^"
        return ParseError(f"line {line}, column {column}: {message}\n  {shown}\n  {caret}")


def read_integer(reader: Reader) -> int:
    """A whole number."""
    if reader.kind != "number":
        raise reader.expected("a whole number")
    try:
        value = int(reader.text)
    except ValueError:
        raise reader.expected("a whole number") from None
    reader.take()
    return value


def read_dtype(reader: Reader) -> DType:
    """The name of an element type."""
    try:
        dtype = dtype_by_name(reader.text)
    except KeyError:
        raise reader.expected("an element type such as float32") from None
    reader.take()
    return dtype


def read_type(reader: Reader) -> tuple[Shape, DType]:
    """A shape and element type, such as ``float32[4, 5]``."""
    dtype = read_dtype(reader)
    reader.expect("[")
    shape: list[int] = []
    while not reader.accept("]"):
        if shape:
            reader.expect(",")
        shape.append(read_integer(reader))
        if shape[-1] < 0:
            raise reader.error("an extent cannot be negative")
    return tuple(shape), dtype


def format_type(shape: Shape, dtype: DType) -> str:
    """A shape and element type as text, such as ``float32[4, 5]``."""
    return f"{dtype.name}[{', '.join(map(str, shape))}]"

"""A user's C text as a tree: comments and known includes go, everything else has to be C functions.

Errors name line and column of the user's text, and show the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from pycparser import c_ast, c_parser

from lazyt.errors import SourceError

#: Characters of the longest text that is read, and how deep its brackets may nest.
MOST_CHARACTERS, MOST_DEPTH = 100_000, 200
#: Headers whose functions and types are known without them.
_HEADERS = frozenset({"float.h", "limits.h", "math.h", "stdbool.h", "stddef.h", "stdint.h"})
#: Names of types that C gets from headers, and ``real``, which stands for a type of floats.
TYPE_NAMES = (
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
    "size_t", "ptrdiff_t", "bool", "real",
)  # fmt: skip
_TYPEDEFS = " ".join(f"typedef int {name};" for name in TYPE_NAMES)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r"#\s*include\s*[<\"]([^>\"]*)[>\"]\s*$")
_PLACE = re.compile(r"(?:[^:\s]*):(\d+):(\d+): (.*)", re.DOTALL)
_PAIRS = {")": "(", "]": "[", "}": "{"}
#: Kinds of nodes, in words.
_WORDS: dict[str, str] = {
    "Alignas": "alignment", "Break": "break", "Case": "case", "Cast": "a cast",
    "CompoundLiteral": "a compound literal", "Continue": "continue", "DoWhile": "do ... while",
    "EllipsisParam": "a variable number of arguments", "Enum": "an enum", "FuncDecl":
    "the declaration of a function", "Goto": "goto", "InitList": "a list of values", "Label":
    "a label", "NamedInitializer": "a named initializer", "Pragma": "a pragma", "PtrDecl":
    "a pointer", "StaticAssert": "_Static_assert", "Struct": "a struct", "StructRef":
    "a member of a struct", "Switch": "switch", "Typedef": "typedef", "Union": "a union",
    "While": "while",
}  # fmt: skip


class Source:
    """One user's text, read.

    Attributes:
        text: the text as it was written.
        functions: its functions by name, in order.
        entry: the last of them, which is what is called from outside.
    """

    def __init__(
        self, text: str, pragmas: bool = False, words: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Read a text; with ``pragmas``, those stay. ``words`` are replaced before, each by one as
        long.

        Raises SourceError for what is no C, and for anything beside functions.
        """
        if not isinstance(text, str):
            raise SourceError(f"C text is a str, not {type(text).__name__}")
        self.text = text
        self.functions: dict[str, c_ast.FuncDef] = {}
        self._words = words
        self._read(self._cleaned(pragmas))

    @property
    def entry(self) -> c_ast.FuncDef:
        """The function that is called from outside: the last one."""
        return next(reversed(self.functions.values()))

    # -------------------------------------------------------------- errors

    def fail(self, what: str, node: Any = None) -> NoReturn:
        """Raise SourceError about a node of the tree."""
        coord = getattr(node, "coord", None)
        self.fail_at(what, coord.line if coord else 0, (coord.column or 1) if coord else 0)

    def fail_at(self, what: str, line: int, column: int) -> NoReturn:
        """Raise SourceError about a line and a column of the text."""
        raise SourceError(self.located(what, line, column), line, column)

    def located(self, what: str, line: int, column: int) -> str:
        """A message with its place, and the line below it."""
        lines = self.text.split("\n")
        if not 0 < line <= len(lines):
            return what
        shown = lines[line - 1].replace("\t", " ")[:200]
        mark = " " * (min(column, 200) - 1) + "^"
        return f"line {line}, column {column}: {what}\n    {shown}\n    {mark}"

    def refuse(self, node: Any, why: str) -> NoReturn:
        """Raise SourceError: there is no meaning for such a node, and ``why``."""
        word = _WORDS.get(type(node).__name__, type(node).__name__)
        self.fail(f"{word}: {why}", node)

    # ------------------------------------------------------------- reading

    def _cleaned(self, pragmas: bool) -> str:
        """The text without comments and includes, everything else at its place."""
        text = self.text
        if len(text) > MOST_CHARACTERS:
            raise SourceError(f"the text has {len(text)} characters, more than {MOST_CHARACTERS}")
        wrong = re.search(r"[^\t\n\r -~]", _COMMENT.sub(_blank, text))
        if wrong:
            self._fail_offset(f"the character {wrong[0]!r} is no C", wrong.start())
        text = _COMMENT.sub(_blank, text)
        for old, new in self._words.items():
            text = re.sub(rf"(?<!\w){old}(?!\w)", new, text)
        for mark, what in (
            ("/*", "the comment has no end"),
            ('"', "there are no strings"),
            ("\\", "there are no continued lines"),
            ("'", "there are no characters; write their numbers"),
        ):
            if mark in text and not (mark == '"' and _only_in_includes(text)):
                self._fail_offset(what, text.index(mark))
        lines = text.replace("\r", " ").split("\n")
        for number, line in enumerate(lines):
            if line.lstrip().startswith("#"):
                lines[number] = self._directive(line, number + 1, pragmas)
        text = "\n".join(lines)
        self._check_brackets(text)
        return text

    def _directive(self, line: str, number: int, pragmas: bool) -> str:
        column = line.index("#") + 1
        if re.match(r"\s*#\s*pragma\b", line):
            if pragmas:
                return line
            self.fail_at("pragmas have no meaning in a scalar function", number, column)
        found = _INCLUDE.match(line.strip())
        if found and found[1] in _HEADERS:
            return " " * len(line)
        if found:
            what = f"{found[1]!r} is not included: the functions of math.h are known without it"
            self.fail_at(what, number, column)
        self.fail_at("macros are not expanded; write constants and functions", number, column)

    def _check_brackets(self, text: str) -> None:
        open_: list[int] = []
        for place, letter in enumerate(text):
            if letter in "([{":
                open_.append(place)
                if len(open_) > MOST_DEPTH:
                    self._fail_offset(f"brackets nest more than {MOST_DEPTH} deep", place)
            elif letter in _PAIRS:
                if not open_:
                    self._fail_offset(f"'{letter}' closes nothing", place)
                if text[open_[-1]] != _PAIRS[letter]:
                    what = f"'{text[open_[-1]]}' is not closed before the '{letter}'"
                    self._fail_offset(
                        f"{what} of line {text[:place].count(chr(10)) + 1}", open_[-1]
                    )
                open_.pop()
        if open_:
            self._fail_offset(f"'{text[open_[-1]]}' is not closed", open_[-1])

    def _fail_offset(self, what: str, offset: int) -> NoReturn:
        before = self.text[:offset]
        self.fail_at(what, before.count("\n") + 1, offset - before.rfind("\n"))

    def _read(self, text: str) -> None:
        words = f'{_TYPEDEFS}\n#line 1 "source"\n{text}'
        parser = c_parser.CParser()
        try:
            unit = parser.parse(words)
        except c_parser.ParseError as error:
            found = _PLACE.match(str(error))
            said = found[3] if found else str(error).lstrip(": ")
            what = f"this is no C that can be read: {said}"
            if found and int(found[1]) <= text.count("\n") + 1:
                self.fail_at(what, int(found[1]), int(found[2]))
            self.fail_at(f"{what}, or before", *_reached(parser))
        except RecursionError:
            raise SourceError("the text nests too deep") from None
        for item in unit.ext:
            if getattr(item.coord, "file", "") == "source":
                self._take(item)
        if not self.functions:
            raise SourceError("the text has no function")

    def _take(self, item: Any) -> None:
        if isinstance(item, c_ast.Pragma):
            self.fail("a pragma stands before a loop", item)
        if not isinstance(item, c_ast.FuncDef):
            if isinstance(item, c_ast.Decl) and isinstance(item.type, c_ast.FuncDecl):
                self.fail(f"{item.name} has no body: only functions of the text are called", item)
            name = getattr(item, "name", None) or "this"
            self.fail(f"{name} is no function: a text has functions only, and no globals", item)
        if item.param_decls:
            self.fail("parameters are declared in the parentheses", item)
        name = item.decl.name
        self.check_name(item.decl, name)
        if name in self.functions:
            self.fail(f"{name} is defined twice", item)
        for word in (*item.decl.storage, *item.decl.funcspec):
            if word not in ("static", "inline"):
                self.fail(f"{word}: a function is plain, static or inline", item)
        self.functions[name] = item

    def check_name(self, node: Any, name: str | None) -> None:
        """Raise SourceError for a name that is kept for compilers, or for lazyt."""
        if name is None:
            self.fail("a name is missing", node)
        if name.startswith("lz_") or "__" in name or re.match(r"_[A-Z_]", name):
            self.fail(f"{name}: names with __ and those that begin with lz_ are taken", node)

    def parameters(self, function: c_ast.FuncDef) -> Sequence[c_ast.Decl]:
        """The parameters of a function, each with a name."""
        listed = function.decl.type.args
        found = [] if listed is None else list(listed.params)
        if len(found) == 1 and _is_void(found[0]):
            return []
        for item in found:
            if not isinstance(item, c_ast.Decl):
                what = "a parameter needs a name"
                if isinstance(item, c_ast.EllipsisParam):
                    what = "a variable number of arguments has no meaning here"
                self.fail(what, item if item.coord else function)
            self.check_name(item, item.name)
        names = [item.name for item in found]
        for item in found:
            if names.count(item.name) > 1:
                self.fail(f"two parameters are called {item.name}", item)
        return found


def _is_void(parameter: Any) -> bool:
    """Whether a parameter is the ``void`` of a list without any."""
    kind = getattr(getattr(parameter, "type", None), "type", None)
    return isinstance(parameter, c_ast.Typename) and getattr(kind, "names", None) == ["void"]


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _only_in_includes(text: str) -> bool:
    return all('"' not in line or _INCLUDE.match(line.strip()) for line in text.split("\n"))


def _reached(parser: c_parser.CParser) -> tuple[int, int]:
    """Line and column up to which a parser has read, 0 where it does not say."""
    state = vars(parser.clex)
    column = state.get("_pos", 1) - state.get("_line_start", 0)
    return state.get("_lineno", 0), max(column, 1)


def walk(tree: Any) -> Iterator[Any]:
    """All nodes of a tree, a node before what is in it."""
    work = [tree]
    while work:
        node = work.pop()
        yield node
        work.extend(child for _, child in reversed(node.children()))

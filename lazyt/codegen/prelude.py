"""The functions generated kernels call: C sections from ``prelude/*.h``, with what they depend on.

A section starts with a marker line and reaches to the next one::

    //@ name [types] -> [types] ulp=number

``name`` may hold ``@S``, then there is one section for each type in the first brackets, and
``@D``, one for each (other) type in the second. The lists name types by suffix or by group (see
``_GROUPS``). In the text ``@S`` and ``@D`` stand for the suffixes, ``@N`` for ``@S`` in capitals,
``@U`` for the unsigned type of its width, ``@W`` for that of at least 32 bits, ``@B`` for the
position of its top bit, ``@{a|b}`` for a in float32 and b in float64. ``ulp`` is the largest error
in units in the last place. A section depends on the sections whose names its text uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from lazyt.errors import InternalError
from lazyt.ir.scalar import FUNCTIONS

ULP: dict[str, float]
"""The largest error of each function with a stated bound, in units in the last place."""

_FOLDER = Path(__file__).with_suffix("")
_MARKER = re.compile(
    r"^//@ (\S+)(?: \[([^\]]*)\])?(?: -> \[([^\]]*)\])?(?: ulp=(\S+))?\n", re.MULTILINE
)
_CHOICE = re.compile(r"@\{([^|}]*)\|([^}]*)\}")
_NAME = re.compile(r"\blz_\w+")
_GROUPS = {
    "floats": ("f32", "f64"),
    "signed": ("i8", "i16", "i32", "i64"),
    "unsigned": ("u8", "u16", "u32", "u64"),
    "ints": ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
}
#: What functions of each kind of dtype end in.
SUFFIXES = {"f": _GROUPS["floats"], "i": _GROUPS["signed"], "u": _GROUPS["unsigned"]}
_OWN = re.compile(r"lz_(\w+)_([fiu]\d+)")


class _Section(NamedTuple):
    template: str
    source: str
    target: str
    ulp: float | None


#: What comes first where results have the same bits on all machines: ``LZ_FMA_*`` are emulated then
#: on those without the instruction.
_EXACT = "#define LZ_EXACT 1\n"
_is_exact: ContextVar[bool] = ContextVar("is_exact", default=False)


@contextmanager
def exactly(is_exact: bool) -> Iterator[None]:
    """A block in which the text is that of ``config.exact``, or not."""
    token = _is_exact.set(is_exact)
    try:
        yield
    finally:
        _is_exact.reset(token)


def is_exact() -> bool:
    """Whether text is made for ``config.exact``."""
    return _is_exact.get()


def sections_for(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The C text of the functions called ``names`` and of all they depend on.

    Returns (name, text) pairs, "base" first, every section after those it depends on; the order
    does not depend on the order of ``names``. Raises InternalError for an unknown name.
    """
    found: dict[str, str] = {"base": _EXACT * _is_exact.get() + _text("base")}
    for name in sorted(names):
        if not _is_known(name):
            raise InternalError("prelude", f"no function is called {name}")
        _add(name, found)
    return tuple(found.items())


def function_names() -> tuple[str, ...]:
    """The names of all sections, in the order of the files."""
    return tuple(_sections())


@cache
def has_paths(name: str) -> bool:
    """Whether a function is, or calls, one that C compilers do not see into (``paths.h``).

    A loop in which it is called under a condition is not vectorised.
    """
    return name in _sections() and any(other == "lz_paths" for other, _ in sections_for([name]))


@cache
def c_names() -> frozenset[str]:
    """All names of functions, types and macros in the prelude's text."""
    names = {name for section in _sections() for name in _NAME.findall(_text(section))}
    return frozenset(names)


def __getattr__(name: str) -> dict[str, float]:
    # The table needs every file read, which an import must not pay for.
    if name != "ULP":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return {key: section.ulp for key, section in _sections().items() if section.ulp is not None}


def _add(name: str, found: dict[str, str]) -> None:
    if name in found:
        return
    if name in _sections():
        text, needed = _text(name), _dependencies(name)
    else:
        text = _own_text(name)
        needed = tuple(n for n in dict.fromkeys(_NAME.findall(text)) if n != name and _is_known(n))
    for dependency in needed:
        _add(dependency, found)
    found[name] = text


def _is_known(name: str) -> bool:
    return name in _sections() or bool(_own_text(name))


def _own_text(name: str) -> str:
    """The text of a function from outside of the package, which may change; empty for others."""
    parts = _OWN.fullmatch(name)
    function = FUNCTIONS.get(parts[1]) if parts is not None else None
    if parts is None or function is None or not function.c_text:
        return ""
    return _written(function.c_text, parts[2], "")


@cache
def _dependencies(name: str) -> tuple[str, ...]:
    used = dict.fromkeys(_NAME.findall(_text(name)))
    return tuple(other for other in used if other != name and other in _sections())


@cache
def _sections() -> dict[str, _Section]:
    table: dict[str, _Section] = {}
    for path in sorted(_FOLDER.glob("*.h")):
        # split gives the text before the first marker, then four groups and a text each time.
        parts = _MARKER.split(path.read_text(encoding="utf-8"))
        for i in range(1, len(parts), 5):
            pattern, sources, targets, ulp, template = parts[i : i + 5]
            for source, target in _type_pairs(sources, targets):
                name = pattern.replace("@S", source).replace("@D", target)
                if name in table:
                    raise InternalError("prelude", f"{path.name} defines {name} a second time")
                bound = None if ulp is None else float(ulp)
                table[name] = _Section(template, source, target, bound)
    return table


def _type_pairs(sources: str | None, targets: str | None) -> list[tuple[str, str]]:
    pairs = product(_suffixes(sources), _suffixes(targets))
    return [(source, target) for source, target in pairs if source != target or not source]


def _suffixes(types: str | None) -> tuple[str, ...]:
    if not types:
        return ("",)
    return tuple(suffix for word in types.split() for suffix in _GROUPS.get(word, (word,)))


@cache
def _text(name: str) -> str:
    template, source, target, _ = _sections()[name]
    return _written(template, source, target)


def _written(template: str, source: str, target: str) -> str:
    """A section for these types."""
    if source:
        bits = int(source[1:])
        template = _CHOICE.sub(r"\1" if bits == 32 else r"\2", template)
        fields = {
            "@S": source,
            "@D": target,
            "@N": source.upper(),
            "@U": f"u{bits}",
            "@W": f"u{max(bits, 32)}",
            "@B": str(bits - 1),
        }
        for field, value in fields.items():
            template = template.replace(field, value)
    return template.rstrip() + "\n"

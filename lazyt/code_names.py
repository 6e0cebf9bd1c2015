"""Names that code mentions: they bound what it can read."""

from __future__ import annotations

import dis
import functools
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

_VARIABLES = frozenset({
    "LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME",
})  # fmt: skip


@functools.cache
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """Names that a code object, and those nested in it, read as globals: an attribute of the same
    name is another thing."""
    found: dict[str, None] = {}
    stack = [code]
    while stack:
        item = stack.pop()
        for step in dis.get_instructions(item):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                found[step.argval] = None
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))
    return tuple(found)


def _all_names(code: types.CodeType) -> Iterable[str]:
    """Names that a code object, and those nested in it, mention."""
    stack = [code]
    while stack:
        item = stack.pop()
        yield from item.co_names
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))


def names_of(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """All names that ``codes`` mention."""
    return frozenset(sys.intern(name) for code in codes for name in _all_names(code))


#: A field of a format that names attributes.
_FIELD = re.compile(r"\{(\w*\.[\w.]+)")
#: What reads attributes without mentioning their names.
_READS_ALL = frozenset({
    "__dict__", "__getstate__", "__reduce_ex__", "asdict", "astuple", "fields", "getattr",
    "getmembers", "vars",
})  # fmt: skip


def reads_all(names: frozenset[str]) -> bool:
    """Whether code that mentions ``names`` may read attributes of any name."""
    return not _READS_ALL.isdisjoint(names)


def readable_names(
    codes: Iterable[types.CodeType], ours: Iterable[types.CodeType]
) -> frozenset[str]:
    """Names of attributes that ``codes`` can read: those that they mention, and in ``ours``, the
    user's, those that texts hold, as ``hasattr``, ``attrgetter`` and patterns of classes have them.
    """
    texts = [text for text in texts_of(ours) if len(text) < 256]
    parts = [part for text in texts for part in text.split(".")]
    parts += [part for text in texts for field in _FIELD.findall(text) for part in field.split(".")]
    return names_of(codes) | {sys.intern(part) for part in parts if part.isidentifier()}


@functools.cache
def _bare_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Names of variables of modules in a code object, and names of everything else."""
    bare: set[str] = set()
    other: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opcode in dis.hasname:
            (bare if step.opname in _VARIABLES else other).add(step.argval)
    return frozenset(bare), frozenset(other)


def variable_names(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """Names that ``codes``, and those nested in them, mention as variables of modules alone, never
    as attributes."""
    bare: set[str] = set()
    other: set[str] = set()
    stack = list(codes)
    while stack:
        item = stack.pop()
        found = _bare_names(item)
        bare |= found[0]
        other |= found[1]
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))
    return frozenset(bare - other)


def texts_of(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """All texts among the constants of ``codes`` and of those nested in them."""
    found: set[str] = set()
    stack: list[Any] = list(codes)
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found.add(item)
        elif isinstance(item, (tuple, frozenset)):
            stack.extend(item)
        elif isinstance(item, types.CodeType):
            stack.extend(item.co_consts)
    return frozenset(found)

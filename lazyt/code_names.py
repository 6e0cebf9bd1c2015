"""Names that code mentions: they bound what it can read."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterable
from typing import Any


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

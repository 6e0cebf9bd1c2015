"""What users' own ops and scalar functions are defined as: caches of what was made by them must not
outlive an edit.

The package's own files are told apart by their times. A function from outside is as its code is,
and as everything is that this code names: other functions, classes, numbers, and modules by their
text. What is installed, and Python itself, counts as its name.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from lazyt.ir.graph import Node, topological
from lazyt.ir.op import Op
from lazyt.ir.scalar import FUNCTIONS, HOMES, Expr, ScalarFunction, applied

_PACKAGE = __name__.partition(".")[0]
#: Modules whose text does not change under a program that runs again.
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def definitions_outside(roots: Sequence[Node]) -> str:
    """A digest of the ops in a graph that are defined outside the package, and of the scalar
    functions from there; empty where the graph has none of either.

    Rules of ops may name any scalar function, so that all of these count.
    """
    ops: dict[str, str] = {}
    maps: set[str] = set()
    functions = {name for name, home in HOMES.items() if not _is_known(home)}
    for node in topological(roots):
        if not _is_known(node.op.home) and node.op.name not in ops:
            ops[node.op.name] = _digest(node.op)
        if functions and isinstance(node.params, Expr):
            maps.update(function.name for function in applied(node.params))
    if not ops and maps.isdisjoint(functions):
        return ""
    found = {name: _digest(FUNCTIONS[name]) for name in functions & FUNCTIONS.keys()}
    return repr((sorted(ops.items()), sorted(found.items())))


@functools.cache
def _digest(item: Op | ScalarFunction) -> str:
    """A digest of everything that an op or a function is defined by."""
    facts = {name: value for name, value in vars(item).items() if name != "heavy"}
    text = hashlib.blake2b(digest_size=20)
    for part in _Definition().parts(facts):
        text.update(part.encode() + b"\0")
    return text.hexdigest()


@functools.cache
def _is_known(module: str) -> bool:
    """Whether a module is the package's, NumPy's or Python's own."""
    top = module.partition(".")[0]
    return top in (_PACKAGE, "numpy") or (top in sys.stdlib_module_names and top != "__main__")


class _Definition:
    """A walk over what a definition consists of."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}  # which keeps them, so that no other has the number

    def parts(self, value: Any) -> Iterator[str]:
        """Texts that are equal for equal definitions."""
        if isinstance(value, (str, bytes, int, float, complex, type(None), type(Ellipsis))):
            yield repr(value)
        elif id(value) in self._seen:
            yield "again"
        else:
            self._seen[id(value)] = value
            yield from self._of_object(value)

    def _of_object(self, value: Any) -> Iterator[str]:
        if isinstance(value, (tuple, list)):
            yield f"{type(value).__name__} {len(value)}"
            for item in value:
                yield from self.parts(item)
        elif isinstance(value, (set, frozenset)):
            yield from sorted("".join(self.parts(item)) for item in value)
        elif isinstance(value, dict):
            for key, item in value.items():
                yield f"key {key!r}"
                yield from self.parts(item)
        elif isinstance(value, CodeType):
            yield from self._of_code(value)
        elif isinstance(value, (FunctionType, type)):
            yield from self._of_definition(value)
        elif isinstance(value, ModuleType):
            yield from self._of_module(value)
        elif isinstance(value, functools.partial):
            yield from self.parts((value.func, value.args, dict(value.keywords)))
        elif isinstance(value, MethodType):
            yield from self.parts((value.__func__, value.__self__))
        elif isinstance(value, (property, classmethod, staticmethod)):
            yield from self.parts([getattr(value, n, None) for n in ("fget", "__func__")])
        elif _is_known(type(value).__module__) or not hasattr(value, "__dict__"):
            name = getattr(value, "__qualname__", getattr(value, "name", ""))
            yield f"{type(value).__qualname__} {name}"
        else:
            yield from self.parts((type(value), dict(vars(value))))

    def _of_definition(self, value: FunctionType | type) -> Iterator[str]:
        """A function or class: by its name where it is the package's or an installed one."""
        yield f"{value.__module__}.{value.__qualname__}"
        if _is_known(value.__module__):
            return
        if isinstance(value, type):
            for base in value.__bases__:
                yield from self.parts(base)
            for name, item in vars(value).items():
                if not name.startswith("__") or callable(item):
                    yield name
                    yield from self.parts(item)
            return
        yield from self.parts(value.__code__)
        yield from self.parts((value.__defaults__, value.__kwdefaults__))
        yield from self.parts([_content(cell) for cell in value.__closure__ or ()])
        for name in _names(value.__code__):
            if name in value.__globals__:
                yield name
                yield from self.parts(value.__globals__[name])

    def _of_code(self, code: CodeType) -> Iterator[str]:
        yield code.co_code.hex()
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        yield from self.parts(code.co_consts)

    def _of_module(self, module: ModuleType) -> Iterator[str]:
        """A module by its text, where it is one of the user's."""
        yield module.__name__
        path = getattr(module, "__file__", None) or ""
        known = _is_known(module.__name__) or any(part in path for part in _INSTALLED)
        if path.endswith(".py") and not known and os.path.exists(path):
            with open(path, "rb") as file:
                yield hashlib.blake2b(file.read(), digest_size=20).hexdigest()


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return None


def _names(code: CodeType) -> Iterator[str]:
    """Global names that code reads, inner functions included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)

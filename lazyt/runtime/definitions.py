"""What is defined outside of the package: caches of what was made by it must not outlive an edit.

The package's own files are told apart by their times. A function from outside is as its code is,
and as everything is that this code names: other functions, classes, numbers, and modules by their
text. What is installed, and Python itself, counts as its name. Where code names an object that
nobody can look into, such as a tensor, there is no telling whether two versions are equal, and
nothing that was made by it may be kept on disk.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import re
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, topological
from lazyt.ir.op import Head, NoGradient, Op
from lazyt.ir.scalar import FUNCTIONS, HOMES, Expr, ScalarFunction, applied

_PACKAGE = __name__.partition(".")[0]
#: Modules whose text does not change under a program that runs again.
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_PLAIN = (str, bytes, bool, int, float, complex, type(None), type(Ellipsis))
#: Containers whose elements are all that there is to them.
_LISTS, _SETS = (tuple, list), (set, frozenset)
_MAPPINGS = (dict, OrderedDict, defaultdict)


class Definition(NamedTuple):
    """What something is defined as.

    Attributes:
        digest: equal for equal definitions; empty for what the package defines.
        hidden: descriptions of the objects that nobody can look into.
        homes: the modules from outside of the package that define it.
    """

    digest: str
    hidden: tuple[str, ...] = ()
    homes: frozenset[str] = frozenset()


#: Of what is all the package's.
NOTHING = Definition("")


def definitions_outside(roots: Sequence[Node]) -> Definition:
    """The ops in a graph that are defined outside the package, and the scalar functions from
    there; NOTHING where the graph has none of either.

    Rules of ops may name any scalar function, so that all of these count.
    """
    ops: dict[str, Op] = {}
    maps: set[str] = set()
    functions = _functions_outside()
    for node in topological(roots):
        if not is_known(node.op.home):
            ops.setdefault(node.op.name, node.op)
        if functions and isinstance(node.params, Expr):
            maps.update(function.name for function in applied(node.params))
    if not ops and maps.isdisjoint(functions):
        return NOTHING
    parts = [(name, _definition(op)) for name, op in sorted(ops.items())]
    parts += [(name, _definition(FUNCTIONS[name])) for name in sorted(functions & FUNCTIONS.keys())]
    homes = {op.home for op in ops.values()} | {HOMES[name] for name in functions}
    hidden = tuple([text for _, found in parts for text in found.hidden])
    digest = repr([(name, found.digest) for name, found in parts])
    return Definition(digest, hidden, frozenset(homes))


def are_ours(heads: Iterable[Head]) -> bool:
    """Whether no graph of these heads has anything that ``definitions_outside`` would find."""
    homes = {head.op.home for head in heads}
    return all(map(is_known, homes)) and not _functions_outside()


def _functions_outside() -> set[str]:
    return {name for name, home in HOMES.items() if not is_known(home)}


@functools.cache
def _definition(item: Op | ScalarFunction) -> Definition:
    """Everything that an op or a function is defined by."""
    return definition_of(_facts(item))


def _facts(item: Op | ScalarFunction) -> dict[str, Any]:
    """What it was made of, without what it has found out since."""
    return {field.name: getattr(item, field.name) for field in fields(item)}


def definition_of(value: Any) -> Definition:
    """What a value is defined as, whatever it consists of."""
    walk = _Walk()
    text = hashlib.blake2b(digest_size=20)
    for part in walk.parts(value):
        text.update(part.encode(errors="surrogatepass") + b"\0")
    return Definition(text.hexdigest(), tuple(dict.fromkeys(walk.hidden)))


@functools.cache
def is_known(module: str) -> bool:
    """Whether a module is the package's, NumPy's or Python's own."""
    top = module.partition(".")[0]
    return top in (_PACKAGE, "numpy") or (top in sys.stdlib_module_names and top != "__main__")


class _Walk:
    """A walk over what a definition consists of.

    Attributes:
        hidden: what could not be looked into.
    """

    def __init__(self) -> None:
        self.hidden: list[str] = []
        self._seen: dict[int, Any] = {}  # which keeps them, so that no other has the number
        self._name = ""  # what led to the value at hand

    def parts(self, value: Any) -> Iterator[str]:
        """Texts that are equal for equal definitions."""
        if type(value) in _PLAIN:
            yield repr(value)
        elif type(value) in (tuple, frozenset, CodeType):  # equal ones may be one object, or not
            yield from self._of_object(value)
        elif id(value) in self._seen:
            yield "again"
        else:
            self._seen[id(value)] = value
            yield from self._of_object(value)

    def _of_object(self, value: Any) -> Iterator[str]:
        if isinstance(value, CodeType):
            yield from self._of_code(value)
        elif isinstance(value, (FunctionType, type)):
            yield from self._of_function_or_class(value)
        elif isinstance(value, ModuleType):
            yield from self._of_module(value)
        elif isinstance(value, functools.partial):
            yield from self.parts((value.func, value.args, dict(value.keywords)))
        elif isinstance(value, MethodType):
            yield from self.parts((value.__func__, value.__self__))
        elif isinstance(value, property):
            yield from self.parts((value.fget, value.fset, value.fdel))
        elif isinstance(value, (classmethod, staticmethod)):
            yield from self.parts(value.__func__)
        elif isinstance(getattr(value, "__wrapped__", None), FunctionType):  # by functools.cache
            yield from self.parts(value.__wrapped__)
        else:
            yield from self._of_data(value)

    def _of_data(self, value: Any) -> Iterator[str]:
        """Containers, numbers and other values."""
        kind = type(value)
        if isinstance(value, enum.Enum):
            yield f"{kind.__qualname__}.{value.name}"
        elif kind in _SETS:
            yield from sorted("".join(self.parts(item)) for item in value)
        elif kind in _MAPPINGS:
            yield from self._of_mapping(value)
        elif isinstance(value, _LISTS):
            yield f"{kind.__name__} {len(value)}"
            for item in value:
                yield from self.parts(item)
        elif isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
            whole = np.ascontiguousarray(value)
            digest = hashlib.blake2b(whole.tobytes(), digest_size=20).hexdigest()
            yield f"array {value.dtype} {value.shape} {digest}"
        elif isinstance(value, (range, slice, np.dtype, re.Pattern, Expr, NoGradient)):
            yield f"{kind.__name__} {value!r}"
        elif isinstance(value, DType):
            yield value.name
        elif isinstance(value, (Op, ScalarFunction)):
            yield value.name
            yield from [] if is_known(_home_of(value)) else self.parts(_facts(value))
        else:
            yield from self._of_instance(value)

    def _of_mapping(self, value: Mapping[Any, Any]) -> Iterator[str]:
        for key, item in value.items():
            if isinstance(key, str):
                self._name = key
            yield "key"
            yield from self.parts(key)
            yield from self.parts(item)

    def _of_instance(self, value: Any) -> Iterator[str]:
        """An object of a class: one of the user's is as its attributes are, one of the package's as
        those that its class names in ``DEFINED_BY``, where it does."""
        kind = type(value)
        module = getattr(value, "__module__", None)
        if callable(value) and is_known(kind.__module__) and isinstance(module, str | None):
            name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
            if name:  # compiled functions, those of NumPy
                yield f"{module}.{name}"
                return
        if kind.__module__ == "typing":
            yield repr(value)
        elif is_known(kind.__module__) and hasattr(kind, "DEFINED_BY"):
            yield from self.parts(kind)
            yield from self.parts({name: getattr(value, name) for name in kind.DEFINED_BY})
        elif not is_known(kind.__module__) or _is_record(kind):
            yield from self.parts(kind)
            slots = [n for base in kind.__mro__ for n in vars(base).get("__slots__", ())]
            values = {name: getattr(value, name, None) for name in slots if name != "__weakref__"}
            yield from self.parts({**values, **getattr(value, "__dict__", {})})
        else:
            self.hidden.append(f"{self._name or 'a value'} ({kind.__qualname__})")
            yield kind.__qualname__

    def _of_function_or_class(self, value: FunctionType | type) -> Iterator[str]:
        """A function or class: by its name where it is the package's or an installed one."""
        yield f"{value.__module__}.{value.__qualname__}"
        known = is_known(value.__module__)
        if isinstance(value, type):
            yield from () if known else self._of_class(value)
            return
        # What a function of the package has been given may be from outside.
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self._name = name
            yield from self.parts(_content(cell))
        if known:
            return
        yield from self.parts(value.__code__)
        yield from self.parts((value.__defaults__, value.__kwdefaults__))
        for name in _names(value.__code__):
            if name in value.__globals__:
                yield name
                self._name = name
                yield from self.parts(value.__globals__[name])

    def _of_class(self, kind: type) -> Iterator[str]:
        for base in kind.__bases__:
            yield from self.parts(base)
        for name, item in vars(kind).items():
            if name in _OF_CLASSES or (name.startswith("__") and not callable(item)):
                continue
            yield name
            # What Python itself makes of a class (slots, fields of tuples) is in the class.
            written = isinstance(item, (FunctionType, property, classmethod, staticmethod))
            if written or not hasattr(type(item), "__get__"):
                yield from self.parts(item)

    def _of_code(self, code: CodeType) -> Iterator[str]:
        yield code.co_code.hex()
        yield getattr(code, "co_exceptiontable", b"").hex()
        yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        yield from self.parts(code.co_consts)

    def _of_module(self, module: ModuleType) -> Iterator[str]:
        """A module by its text, where it is one of the user's, and by those that it imports."""
        yield module.__name__
        path = getattr(module, "__file__", None) or ""
        known = is_known(module.__name__) or any(part in path for part in _INSTALLED)
        if path.endswith(".py") and not known and os.path.exists(path):
            with open(path, "rb") as file:
                yield hashlib.blake2b(file.read(), digest_size=20).hexdigest()
            for item in list(vars(module).values()):
                if not isinstance(item, ModuleType):
                    item = sys.modules.get(getattr(item, "__module__", None) or "")
                if isinstance(item, ModuleType):
                    yield from self.parts(item)


#: What every class has, and what tells of its place in a file.
_OF_CLASSES = frozenset({"__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"})


def _home_of(item: Op | ScalarFunction) -> str:
    return item.home if isinstance(item, Op) else HOMES.get(item.name, "")


def _is_record(kind: type) -> bool:
    """Whether the package's class only holds what it was given."""
    return hasattr(kind, "__dataclass_fields__")


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

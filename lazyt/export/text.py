"""Programs as JSON text, which names functions and runs nothing of Python's when it is read.

A function is written as its place below ``torch`` (``nn.functional.relu``), a method by its name,
an operator as ``operator.add``. Reading takes functions of tensors only, so that a file cannot name
others, such as those that read files.
"""

from __future__ import annotations

import builtins
import importlib
import math
import operator
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from lazyt.errors import CheckpointError
from lazyt.export.sizes import require
from lazyt.fx.experimental.control_flow import CONTROL_FLOW
from lazyt.fx.graph import Graph
from lazyt.fx.node import Node
from lazyt.fx.targets import place_of
from lazyt.handle.device import device
from lazyt.handle.function_table import entry_of
from lazyt.handle.layout import layout, memory_format
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType

__all__ = ["ProgramError", "graph_of", "text_of", "value_of", "value_text"]

#: Modules whose functions programs call.
_HOMES = ("", "nn.functional", "linalg", "fft", "special")
#: Functions of tensors that the table of functions does not have.
_PLAIN = ("detach", "detach_", "is_contiguous", "item", "size", "dim", "stride", "numel", "tolist")
_OPERATORS = frozenset(
    name
    for name in dir(operator)
    if not name.startswith("_") and name not in ("attrgetter", "itemgetter", "methodcaller", "call")
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


class ProgramError(CheckpointError):
    """A program that cannot be written, or a text that is no program."""


# ----------------------------------------------------------------------------- writing


def text_of(graph: Graph) -> list[dict[str, Any]]:
    """The nodes of a graph in order, as values that JSON has.

    Raises ProgramError for calls of functions that are none of tensors, and for constants of other
    types than numbers, texts, dtypes, devices and containers of these.
    """
    return [_node_text(node) for node in graph.nodes]


def _node_text(node: Node) -> dict[str, Any]:
    op, target, args = node.op, node.target, node.args
    if op == "call_method" and str(target).startswith("__"):
        op, target, args = _operator_of(node)
    if not isinstance(target, str):
        target = function_text(target, node.name)
    made: dict[str, Any] = {"op": op, "name": node.name, "target": target}
    if args:
        made["args"] = [value_text(value, node.name) for value in args]
    if node.kwargs:
        made["kwargs"] = {key: value_text(value, node.name) for key, value in node.kwargs.items()}
    return made


def _operator_of(node: Node) -> tuple[str, Any, tuple[Any, ...]]:
    """A call of ``__and__`` or ``__rand__`` as one of Python's operators."""
    name = str(node.target)[2:-2]
    for plain, args in ((name, node.args), (name.removeprefix("r"), node.args[::-1])):
        found = getattr(operator, f"__{plain}__", None)
        if found is not None and not node.kwargs:
            return "call_function", found, args
    raise ProgramError(f"{node.name} calls the method {node.target}, which cannot be written")


def function_text(function: Any, user: str) -> str:
    """Where a function of tensors is found.

    Args:
        user: what calls it, for errors.

    Raises ProgramError for other functions.
    """
    if function is require:
        return "program.require"
    called = getattr(function, "__name__", "")
    if called in CONTROL_FLOW and CONTROL_FLOW[called] is function:
        return f"func.{called}"
    name = getattr(function, "__name__", "")
    if function is getattr(builtins, name, None) and name in ("getattr", "len"):
        return f"builtins.{name}"
    if function is getattr(operator, name, None):
        return f"operator.{name}"
    schema = getattr(function, "_schema", None)
    if schema is not None:
        return f"ops.{schema.name.replace('::', '.')}"
    place = place_of(function)
    if place is not None:
        module, name = place
        inner = module.partition(".")[2]
        text = f"{inner}.{name}" if inner else name
        if _is_tensor_function(function) and (inner in _HOMES or inner == "Tensor"):
            return text
    where = f"{getattr(function, '__module__', '?')}.{name or function!r}"
    raise ProgramError(
        f"{user} calls {where}, which is no function of tensors and cannot be written"
    )


def _is_tensor_function(function: Any) -> bool:
    return callable(function) and not isinstance(function, type) and entry_of(function) is not None


def value_text(value: Any, user: str) -> Any:
    """A constant, or the name of a node, as a value that JSON has.

    Args:
        user: what uses it, for errors.

    Raises ProgramError for constants of other types.
    """
    if isinstance(value, Node):
        return {"node": value.name}
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if value is ...:
        return {"ellipsis": True}
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return {"slice": [value_text(part, user) for part in parts]}
    if isinstance(value, list):
        return [value_text(part, user) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [value_text(part, user) for part in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: value_text(part, user) for key, part in value.items()}}
    for kind, title in _NAMED.items():
        if isinstance(value, kind):
            return {title: str(value).removeprefix("torch.").removeprefix("lazyt.")}
    if callable(value):
        return {"function": function_text(value, user)}
    raise ProgramError(
        f"{user} has a constant of type {type(value).__name__}, which cannot be written"
    )


#: Constants that are written by their names.
_NAMED: dict[type, str] = {
    DType: "dtype",
    device: "device",
    layout: "layout",
    memory_format: "memory_format",
}


# ----------------------------------------------------------------------------- reading


def graph_of(nodes: Any, title: str = "the program") -> Graph:
    """The graph that a text describes.

    Args:
        title: what errors call the text.

    Raises ProgramError for anything else, and for functions that are none of tensors.
    """
    try:
        return _Reader(title).read(nodes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"{title} is damaged: {type(error).__name__}: {error}") from error


def value_of(text: Any, title: str = "the program") -> Any:
    """The constant that ``value_text`` wrote. Raises ProgramError for other texts."""
    try:
        return _Reader(title)._value(text)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"{title} is damaged: {type(error).__name__}: {error}") from error


class _Reader:
    def __init__(self, title: str) -> None:
        self.title = title
        self.graph = Graph()
        self.known: dict[str, Node] = {}

    def read(self, nodes: Any) -> Graph:
        if not isinstance(nodes, list) or not nodes or nodes[-1].get("op") != "output":
            raise ProgramError(f"{self.title} has no list of nodes that ends with an output")
        for entry in nodes:
            self._add(entry)
        return self.graph

    def _fail(self, text: str) -> ProgramError:
        return ProgramError(f"{self.title}: {text}")

    def _add(self, entry: dict[str, Any]) -> None:
        op, name, target = entry["op"], entry["name"], entry["target"]
        if op not in _OPS:
            raise self._fail(f"there is no operation {op!r}")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in self.known:
            raise self._fail(f"{name!r} is no name of a node, or is there twice")
        args = tuple(self._value(value) for value in entry.get("args", []))
        kwargs = {self._name(key): self._value(v) for key, v in entry.get("kwargs", {}).items()}
        if op == "output":
            self.graph.output(args[0])
            return
        target = self._target(op, target)
        if target is getattr:
            self._check_attribute(entry["args"])
        self.known[name] = self.graph.create_node(op, target, args, kwargs, name)

    def _check_attribute(self, args: list[Any]) -> None:
        """Attributes are read of tensors only, and only public ones."""
        name = args[1]
        if not isinstance(name, str) or name.startswith("_") or name == "grad_fn":
            raise self._fail(f"reads the attribute {name!r}")
        if not isinstance(getattr(Tensor, name, None), property):
            raise self._fail(f"{name!r} is no attribute of tensors")

    def _name(self, name: Any) -> str:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("__"):
            raise self._fail(f"{name!r} is no name")
        return name

    def _target(self, op: str, target: Any) -> Any:
        if not isinstance(target, str):
            raise self._fail(f"{target!r} is no name")
        if op == "placeholder":
            return self._name(target)
        if op in ("get_attr", "call_module"):
            for part in target.split("."):
                if not re.fullmatch(r"[A-Za-z0-9_]+", part) or part.startswith("__"):
                    raise self._fail(f"{target!r} is no path of an attribute")
            return target
        if op == "call_method":
            return self._method(target)
        return self._function(target)

    def _method(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise self._fail(f"{name!r} is no name")
        found = getattr(Tensor, name, None)
        if name not in _PLAIN and not _is_tensor_function(found):
            raise self._fail(f"{name!r} is no method that programs call")
        return name

    def _function(self, path: str) -> Callable[..., Any]:
        home, _, name = path.rpartition(".")
        self._name(name)
        if home == "builtins" and name in ("getattr", "len"):
            return getattr if name == "getattr" else len
        if path == "program.require":
            return require
        if home == "func" and name in CONTROL_FLOW:
            return CONTROL_FLOW[name]
        if home == "operator" and name in _OPERATORS:
            of_python: Callable[..., Any] = getattr(operator, name)
            return of_python
        if home.startswith("ops."):
            return self._defined(path)
        if home == "Tensor":
            method: Callable[..., Any] = getattr(Tensor, self._method(name))
            return method
        if home in _HOMES:
            module = importlib.import_module(f"lazyt.{home}" if home else "lazyt")
            found: Any = getattr(module, name, None)
            if _is_tensor_function(found):
                chosen: Callable[..., Any] = found
                return chosen
        raise self._fail(f"{path!r} is no function of tensors")

    def _defined(self, path: str) -> Callable[..., Any]:
        """An operator that the program which reads has defined, as ``ops.namespace.name``."""
        _, namespace, name, *overload = path.split(".")
        found = getattr(importlib.import_module("lazyt.ops"), self._name(namespace), None)
        found = getattr(found, self._name(name), None)
        if found is None:
            raise self._fail(f"torch.ops.{namespace}.{name} is not defined here")
        chosen: Callable[..., Any] = getattr(
            found, self._name(overload[0] if overload else "default")
        )
        return chosen

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(part) for part in value]
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        if kind == "node":
            if inner not in self.known:
                raise self._fail(f"uses the node {inner!r}, which is not there or stands behind")
            return self.known[inner]
        if kind == "float":
            return float(inner)
        if kind == "complex":
            return complex(float(inner[0]), float(inner[1]))
        if kind == "ellipsis":
            return ...
        if kind == "slice":
            return slice(*[self._value(part) for part in inner])
        if kind == "tuple":
            return tuple(self._value(part) for part in inner)
        if kind == "dict":
            return {str(key): self._value(part) for key, part in inner.items()}
        if kind == "function":
            return self._function(str(inner))
        if kind == "device":
            return device(inner)
        if kind in ("dtype", "layout", "memory_format"):
            found = getattr(sys.modules["lazyt"], self._name(inner), None)
            if not isinstance(found, tuple(k for k, title in _NAMED.items() if title == kind)):
                raise self._fail(f"{inner!r} is no {kind}")
            return found
        raise self._fail(f"there is no constant of the kind {kind!r}")

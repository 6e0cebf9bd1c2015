"""Proxies: what runs through a program in the place of values, and records what is done to it."""

from __future__ import annotations

import collections
import copy
import dis
import enum
import operator
import sys
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from lazyt.functional.overriding import start
from lazyt.fx.graph import magic_methods, reflectable_magic_methods
from lazyt.fx.node import BASE_TYPES, Argument, Node, Target, map_aggregate, map_arg
from lazyt.fx.targets import method_name
from lazyt.fx.traceback import current_meta
from lazyt.handle.device import device
from lazyt.handle.layout import layout, memory_format
from lazyt.nn.parameter import Parameter

if TYPE_CHECKING:
    from lazyt.fx.graph import Graph

__all__ = [
    "Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase",
]  # fmt: skip

_PLAIN = (*BASE_TYPES, enum.Enum, device, layout, memory_format)


class TraceError(ValueError):
    """A program that decides something by a value that is not known while it is traced."""


class Scope:
    """Which module is being traced.

    Attributes:
        module_path: its path in the root module, "" for that itself.
        module_type: its class.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Has ``scope`` say what ``current_scope`` does until it is left."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = copy.copy(scope)
        scope.__dict__.update(vars(current_scope))
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *_: object) -> None:
        self._scope.__dict__.update(vars(self._before))


class TracerBase:
    """What proxies ask to record what is done to them.

    Attributes:
        graph: where nodes go.
        record_stack_traces: note in each node where the program made the call.
        check_mutable_operations: taken for PyTorch's sake.
        trace_asserts: record ``assert`` about proxies as calls.
        proxy_buffer_attributes: give proxies for buffers of modules, not only for parameters.
        traced_func_name: the method of a module that is traced.
    """

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: collections.OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self, kind: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
        name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Insert a node; see ``Graph.create_node``. Override it to check or change them."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        given = current_meta()
        if given is not None:
            node.meta.update(given)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            stack = traceback.extract_stack(sys._getframe(1))
            first = next((i for i, frame in enumerate(stack) if frame.name == "forward"), None)
            frames = [] if first is None else [f for f in stack[first:] if not _is_own(f.filename)]
            if frames:
                lines = traceback.StackSummary.from_list(frames).format()
                node.stack_trace = "".join(lines).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy for a node. Override it to give proxies of a class of your own."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any],
        name: str | None = None, type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """Record a call and give the proxy for its result.

        Args:
            kind, target, args, kwargs, name, type_expr: as of ``Graph.create_node``, with proxies
                where those are nodes.
            proxy_factory_fn: gives the proxy for the node; ``proxy`` by default.
        """
        given, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, given, named, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """What stands in the graph for an argument of a call: the node of a proxy, containers of
        such, and other values as they are.

        Raises NotImplementedError for objects that cannot stand in a graph, and RuntimeError for
        dicts with proxies among their keys.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(type(a), "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(part) for part in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(part) for part in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            parts = [self.create_arg(part) for part in (a.start, a.stop, a.step)]
            return range(*parts)
        if is_dataclass(a) and not isinstance(a, type):
            named = {f.name: self.create_arg(getattr(a, f.name)) for f in fields(a)}
            return self.create_node("call_function", type(a), (), named)
        if isinstance(a, _PLAIN) or a is None or a is ... or isinstance(a, Node):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        def refuse(node: Node) -> Any:
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}"
            )

        return key if isinstance(key, str) else map_arg(self.create_arg(key), refuse)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a proxy: nobody knows. Raises TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a proxy: nobody knows how many there are. Raises TraceError."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """What ``**`` asks of a proxy: records a call of its method."""
        return Attribute(obj, "keys")()


def _is_own(filename: str) -> bool:
    """Whether a file is lazyt's, tests and examples not counted."""
    return "/lazyt/" in filename.replace("\\", "/") and filename.startswith(_PACKAGE)


_PACKAGE = __file__[: -len("fx/proxy.py")]


class GraphAppendingTracer(TracerBase):
    """Records what is done to proxies of nodes of a graph that is there already."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: object) -> None:
    """Raise AssertionError where ``x`` is not true: what ``assert`` is recorded as."""
    if not x:
        raise AssertionError("Assertion failed")


def _instruction(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    """The instructions of a frame, and the number of the one that runs."""
    found = list(dis.get_instructions(frame.f_code))
    return found, bisect_left(found, frame.f_lasti, key=lambda i: i.offset)


class Proxy:
    """Stands for the value of a node. Functions, methods and operators that are given one add a
    node to its graph, and give the proxy of that.

    >>> graph = lazyt.fx.Graph()
    >>> x = lazyt.fx.Proxy(graph.placeholder("x"))
    >>> x + 1
    Proxy(add)
    >>> lazyt.relu(x).sum(0)
    Proxy(sum_1)

    It has no value: a program cannot branch by one (``if``, ``while``) nor iterate over one, except
    to unpack it into a number of names.

    Args:
        node: the node.
        tracer: is told of what is done; by default what appends to the graph of the node.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        start(lasting=False)
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        # Asked of before it is made, as pickle and copy do, it would look for itself for ever.
        if name in ("tracer", "node"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = type(self).__new__(type(self))
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        code, at = _instruction(sys._getframe(1))
        if at < len(code) and code[at].opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(code[at].argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assertion(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Records a call of the method ``keys``; the tracer may do otherwise."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Callable[..., Any], types: Any, args: Any = None, kwargs: Any = None
    ) -> Any:
        """Records a call of one of lazyt's functions. Raises RuntimeError for proxies of several
        tracers."""
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def note(part: Any) -> None:
            if isinstance(part, cls):
                tracers[part.tracer] = None

        map_aggregate((args, kwargs), note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace "
                f"operations {orig_method}"
            )
        (tracer,) = tracers
        if method := method_name(orig_method):
            return tracer.create_proxy("call_method", method, args, kwargs)
        called = tracer.graph._target_to_str(orig_method)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=called)


def _is_assertion(frame: FrameType) -> bool:
    """Whether the truth that a frame asks for is that of an ``assert``."""
    code, at = _instruction(frame)
    # Later Pythons have instructions of their own around the jump.
    coming = [i for i in code[at : at + 4] if i.opname not in ("TO_BOOL", "NOT_TAKEN", "CACHE")]
    if len(coming) < 2:
        return False
    jump, following = coming[:2]
    raises = following.opname == "LOAD_ASSERTION_ERROR" or (
        following.opname in ("LOAD_GLOBAL", "LOAD_COMMON_CONSTANT")
        and "AssertionError" in str(following.argval)
    )
    return jump.opname.startswith("POP_JUMP") and jump.opname.endswith("IF_TRUE") and raises


class Attribute(Proxy):
    """An attribute of a proxy. It becomes a node where its value is used; where it is called, the
    call becomes one, of the method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute, made at its first use."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter, whose shape is known: a program may branch by that."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """Extent of every dimension."""
        return self.param.shape

    def size(self) -> Any:
        """Extent of every dimension."""
        return self.param.size()

    def dim(self) -> int:
        """Number of dimensions."""
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self.param.ndim)

    def numel(self) -> int:
        """Number of elements."""
        return int(self.param.numel())

    def nelement(self) -> int:
        """Number of elements."""
        return int(self.param.numel())


def _operator_of(name: str, is_reflected: bool) -> Callable[..., Any]:
    """The method of proxies for an operator."""
    target = getattr(operator, name)

    def operate(self: Proxy, *others: Any) -> Any:
        args = (*others, self) if is_reflected else (self, *others)
        return self.tracer.create_proxy("call_function", target, args, {})

    return operate


for _name in magic_methods:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator_of(_name, False))
for _name in reflectable_magic_methods:
    setattr(Proxy, f"__r{_name.strip('_')}__", _operator_of(_name, True))

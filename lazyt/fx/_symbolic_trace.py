"""Tracing: a program runs once with proxies in the place of its arguments, which record a graph."""

from __future__ import annotations

import collections
import copy
import inspect
import math
from collections.abc import Callable, Iterable
from itertools import count
from threading import get_ident, local
from types import CodeType, FunctionType, ModuleType
from typing import Any

from lazyt.compat.settings import _assert
from lazyt.errors import warn
from lazyt.functional.overriding import asking
from lazyt.fx.codegen import PyTreeCodeGen, PyTreeInfo
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Argument, map_aggregate
from lazyt.fx.patching import Patcher
from lazyt.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from lazyt.fx.wrapping import wrap, wrapped
from lazyt.handle.pytree import TreeSpec
from lazyt.handle.tensor import Tensor
from lazyt.nn.containers import Sequential
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.utils import _pytree as pytree

__all__ = [
    "PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing",
    "is_fx_tracing", "symbolic_trace", "wrap",
]  # fmt: skip

_STARS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

#: Classes whose construction is recorded.
_proxyable: dict[type, None] = {}


class _Active(local):
    """Whether this thread traces a program.

    Attributes:
        depth: how many traces run, one within the other.
    """

    def __init__(self) -> None:
        self.depth = 0


_active = _Active()


def is_fx_tracing() -> bool:
    """Whether a program is being traced."""
    return _active.depth > 0


def is_fx_symbolic_tracing() -> bool:
    """Whether a program is being traced."""
    return _active.depth > 0


class ProxyableClassMeta(type):
    """The metaclass of classes whose construction from proxies is recorded as a call."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if is_fx_tracing():
            found: list[Proxy] = []
            map_aggregate(
                (args, kwargs), lambda part: found.append(part) if isinstance(part, Proxy) else None
            )
            if found:
                return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """Stands in ``concrete_args`` for an argument, or a part of one, that stays open."""

    def __repr__(self) -> str:
        return "PH"


class PHWithMeta(PHBase):
    """The same with a name; its attributes become attributes of the node.

    Args:
        ph_key: the name.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


#: The one that has no attributes.
PH = PHBase()


@wrap
def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


class Tracer(TracerBase):
    """Traces modules and functions into graphs. Derive from it to change what is recorded: which
    modules are leaves (``is_leaf_module``), how calls of modules (``call_module``) and arguments
    (``create_arg``) are.

    >>> class Block(lazyt.nn.Module):
    ...     def forward(self, x):
    ...         return lazyt.relu(x) + 1
    >>> print(lazyt.fx.Tracer().trace(Block()).python_code("self").src.strip())
    def forward(self, x):
        relu = lazyt.relu(x);  x = None
        add = relu + 1;  relu = None
        return add

    Args:
        autowrap_modules: calls of their functions are recorded, as those of ``wrap`` are.
        autowrap_functions: functions of which the same holds.
        param_shapes_constant: whether the program may branch by shapes of parameters, which then
            become part of the graph as numbers.

    Attributes:
        root: the module that is traced; for functions a new one, which holds their constants.
    """

    root: Module

    def __init__(
        self, autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids |= set(map(id, autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.tensor_attrs: dict[Any, str] = {}
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    @classmethod
    def appending(cls, graph: Graph, root: Module) -> Tracer:
        """A tracer that adds to a graph that is there already, and takes every module for a leaf.

        Args:
            root: has what the graph names.
        """
        kind = type(cls.__name__, (cls,), {"is_leaf_module": lambda *_: True})
        made: Tracer = kind()
        made.graph, made.root = graph, root
        return made

    # ------------------------------------------------------------------ what may be overridden

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are recorded as one node: those of ``nn`` are, except
        ``Sequential``; what others do is recorded.

        Args:
            module_qualified_name: its path in the root module.
        """
        return m.__module__.startswith("lazyt.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module in the root module. Raises NameError where it is not in there."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, m in self.root.named_modules() if m is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a module gives: a proxy of its node for a leaf, and what ``forward`` does
        of others. Raises NameError for modules that are not in the root module."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            self.num_calls[path] = calls + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem()

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What a module's parameters, buffers and submodules read as: parameters as proxies.

        Args:
            attr: the name of the attribute.
            attr_val: its value.
            parameter_proxy_cache: the proxies that there are, by the paths of what they stand for.
        """
        named: Iterable[tuple[str, Any]] = ()
        if isinstance(attr_val, Parameter):
            named = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            named = self.root.named_buffers()
        path = next((name for name, value in named if value is attr_val), None)
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            factory: dict[str, Any] = {}
            if self.param_shapes_constant and isinstance(attr_val, Parameter):
                factory["proxy_factory_fn"] = lambda node: ParameterProxy(
                    self, node, path, attr_val
                )
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {}, **factory)
        return parameter_proxy_cache[path]

    def create_arg(self, a: Any) -> Argument:
        """What stands in the graph for an argument. In addition to what every tracer does: a
        ``get_attr`` for parameters, tensors and submodules of the root module. Tensors that are
        not in there become attributes ``_tensor_constant0``, ... of it.

        Raises NameError for parameters of other modules.
        """
        found: Iterable[tuple[str, Any]] = ()
        if isinstance(a, Parameter):
            found = self.root.named_parameters()
        elif isinstance(a, Tensor):
            found = self.root.named_buffers()
        elif isinstance(a, Module):
            found = self.root.named_modules()
        for name, value in found:
            if value is a:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, Parameter):
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            parts = tuple(self.create_arg(part) for part in a)
            return self.create_node("call_function", type(a), parts, {})
        if isinstance(a, (Tensor, TreeSpec)):
            kind = "_tensor_constant" if isinstance(a, Tensor) else "_tree_spec_constant"
            return self._constant(a, kind)
        if type(a) in _proxyable:
            return self._constant(a, f"_{type(a).__name__}_constant_")
        return super().create_arg(a)

    def _constant(self, value: Any, kind: str) -> Argument:
        known = self.tensor_attrs.get(value) if isinstance(value, (Tensor, TreeSpec)) else ""
        if not known:
            known = self.get_fresh_qualname(kind)
            if isinstance(value, (Tensor, TreeSpec)):
                self.tensor_attrs[value] = known
            setattr(self.root, known, value)
        return self.create_node("get_attr", known, (), {})

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root module does not have, from a prefix and a number."""
        return next(n for i in count() if not hasattr(self.root, n := f"{prefix}{i}"))

    # ------------------------------------------------------------------ tracing

    def trace(self, root: Module | Callable[..., Any], concrete_args: Any = None) -> Graph:
        """The graph of what a module or a function does.

        Args:
            concrete_args: values of arguments by their names, or a tuple of all of them, that the
                program sees as they are. Within nested ones ``PH`` stands for what stays open;
                the graph then has the leaves of the argument as its arguments.

        Raises TraceError where the program depends on values, and what the program raises.
        """
        _active.depth += 1
        try:
            with asking():
                return self._trace(root, concrete_args)
        finally:
            _active.depth -= 1

    def _trace(self, root: Module | Callable[..., Any], concrete_args: Any) -> Graph:
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in "
                    f"{type(root).__name__}"
                )
            function: Any = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {
            value: f"{path}.{name}" if path else name
            for path, module in self.root.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, (Tensor, TreeSpec))
        }
        names = function.__globals__
        is_module = isinstance(root, Module)
        traced, args = self.create_args_for_root(function, is_module, concrete_args)
        with Patcher() as patcher:
            self._patch_modules(patcher)
            for (_, name), held in list(wrapped.items()):
                patcher.function(held, name)
            for searched in (names, *map(vars, self._autowrap_search)):
                patcher.functions(searched, self._autowrap_function_ids)
            result = self.create_arg(traced(*args))
            said = _annotations(function).get("return")
            self.create_node("output", "output", (result,), {}, type_expr=said)
        self.submodule_paths = None
        return self.graph

    def _patch_modules(self, patcher: Patcher) -> None:
        cache: dict[str, Proxy] = {}
        read, call, thread = Module.__getattr__, Module.__call__, get_ident()

        def getattr_of(module: Module, name: str) -> Any:
            found = read(module, name)
            return self.getattr(name, found, cache) if get_ident() == thread else found

        def call_of(module: Module, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != thread:
                return call(module, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            names = getattr(getattr(module, "forward", module), "__globals__", {})
            patcher.functions(names, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        patcher.method(Module, "__getattr__", getattr_of)
        patcher.method(Module, "__call__", call_of)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function to call in the place of ``root_fn``, and the proxies and values to call it
        with. Raises RuntimeError for a number of concrete arguments that the function does not
        take, and where it has no parameter for the module itself."""
        written = inspect.unwrap(root_fn)
        code: CodeType = written.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        first = 0
        if is_module:
            if not total:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            first = 1
            args.append(self.root)
        if isinstance(concrete_args, tuple):
            if concrete_args and code.co_flags & _STARS and total == 1:
                for number, value in enumerate(concrete_args):
                    made = self.create_proxy("placeholder", f"input_{number}", (), {})
                    _hand_over(value, made.node)
                    args.append(made)
                return root_fn, args
            if total - first != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {total - first} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(names[first:total], concrete_args))
        signature = inspect.signature(written)
        said = _annotations(written)

        def placeholder(name: str) -> Any:
            return self._placeholder(name, concrete_args or {}, signature, said)

        args += [placeholder(name) for name in names[first:total]]
        if code.co_kwonlyargcount or code.co_flags & _STARS:
            starred = iter(names[total:])
            if code.co_flags & inspect.CO_VARARGS:
                args.append(placeholder("*" + next(starred)))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(placeholder("**" + next(starred)))
            root_fn = _with_plain_arguments(written, len(args))
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(part.is_leaf() for part in spec.children()):
            return root_fn, args
        self.graph._codegen = codegen = PyTreeCodeGen(PyTreeInfo(names[:total], spec, None))

        def flattened(*leaves: Any) -> Any:
            results, made = pytree.tree_flatten(root_fn(*pytree.tree_unflatten(leaves, spec)))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=made)
            return results

        return flattened, leaves

    def _placeholder(
        self, name: str, concrete: dict[str, Any], signature: inspect.Signature, said: Any
    ) -> Any:
        """The proxy of a parameter, or its concrete value."""
        parameter = signature.parameters[name.lstrip("*")]
        has_default = parameter.default is not parameter.empty
        default = (parameter.default,) if has_default else ()
        if name not in concrete:
            kind = said.get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        numbers = count(1)

        def of_leaf(value: Any) -> Any:
            made = self.create_proxy("placeholder", f"{name}_{next(numbers)}", default, {})
            if isinstance(value, PHBase):
                _hand_over(value, made.node)
                return made
            self._check_value(name, made, value)
            return value

        return pytree.tree_map(of_leaf, concrete[name])

    def _check_value(self, name: str, made: Proxy, value: Any) -> None:
        """Records that an argument has to have the value that it was traced with."""
        text = f"{name} has been specialized to have value {value} but got another value"
        if type(value) in (bool, int, float, str, complex):
            self.create_proxy("call_function", _assert, (made == value, text), {})
        elif value is None:
            self.create_proxy("call_function", _assert_is_none, (made, text), {})
        else:
            warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs "
                "you specialized the function with."
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            # Modules of Python cannot be copied.
            copied = copy.copy(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
            made.__dict__[name] = copied
        return made


def _annotations(function: Any) -> dict[str, Any]:
    """What a program says of the types of a function's parameters and its result. Of those that are
    given as text, what can be evaluated; lazyt's own functions say nothing."""
    function = inspect.unwrap(function)
    if str(function.__module__).partition(".")[0] == "lazyt":
        return {}
    said = dict(inspect.get_annotations(function))
    for name, kind in said.items():
        if isinstance(kind, str):
            try:
                said[name] = eval(kind, function.__globals__)
            except (NameError, AttributeError, TypeError, SyntaxError):  # of type checkers only
                said[name] = None
    return said


def _hand_over(given: object, node: Any) -> None:
    """Give a node the attributes of what stands for it among concrete arguments."""
    if isinstance(given, PHBase) and given is not PH:
        for name, value in vars(given).items():
            if not hasattr(node, name):
                setattr(node, name, value)


def _with_plain_arguments(function: Any, number: int) -> FunctionType:
    """``function`` whose ``*args`` and ``**kwargs``, and what follows a ``*``, are given as so many
    plain arguments: a proxy cannot be unpacked."""
    code = function.__code__
    plain = code.replace(
        co_argcount=number, co_posonlyargcount=0, co_kwonlyargcount=0,
        co_flags=code.co_flags & ~_STARS,
    )  # fmt: skip
    return FunctionType(
        plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: Any = None) -> GraphModule:
    """A module that does what ``root``, a module or a function, does, as a graph of its calls.

    Args:
        root: runs once, with proxies for its arguments.
        concrete_args: values of arguments that the program sees as they are; see
            ``Tracer.trace``.

    >>> def f(x):
    ...     return lazyt.sin(x) * 2
    >>> traced = lazyt.fx.symbolic_trace(f)
    >>> print(traced.graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %sin : [num_users=1] = call_function[target=lazyt.sin](args = (%x,), kwargs = {})
        %mul : [num_users=1] = call_function[target=operator.mul](args = (%sin, 2), kwargs = {})
        return mul

    Raises TraceError where the program depends on values that are not known while it is traced, and
    what the program itself raises.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)

"""Programs recorded from modules and functions: what ``torch.export`` and ``torch.jit`` write.

A program is a graph of calls (``lazyt.fx``) whose weights are attributes of a module that holds
nothing else. Where Python decides nothing by values or shapes, the program is traced with proxies
and fits every shape. Otherwise it is recorded from a run on example inputs, decisions and shapes
included, and then it fits theirs only.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lazyt._C import DisableTorchFunction
from lazyt.compat.compile import recordings
from lazyt.compat.served.choices import TracerWarning
from lazyt.errors import LazytError, warn
from lazyt.export.sizes import ConditionError, RecordedInt, RecordedSize, plain, require
from lazyt.fx._symbolic_trace import Tracer
from lazyt.fx.codegen import MAGIC, PyTreeCodeGen, PyTreeInfo
from lazyt.fx.experimental.proxy_tensor import Recorder
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Node, map_aggregate
from lazyt.fx.patching import Patcher
from lazyt.handle.tensor import Size, Tensor
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.nn.recurrent import RNNBase
from lazyt.random import fork_rng
from lazyt.utils import _pytree as pytree

__all__ = ["Holder", "Input", "Program", "RecordingError", "put", "record", "recorded_state"]


class RecordingError(LazytError):
    """A program that cannot be recorded, because Python decides something in it by values."""


class Input(NamedTuple):
    """What one leaf of the arguments has to be.

    Attributes:
        name: the argument's, and behind it the place in a nested one.
        shape: of a tensor its sizes, None for those that may be any; None where there may be any
            number.
        dtype: of a tensor; None for any.
        constant: of what is no tensor, in a tuple, its value, which is part of the program.
    """

    name: str
    shape: tuple[int | None, ...] | None = None
    dtype: Any = None
    constant: tuple[Any, ...] = ()

    def check(self, value: Any) -> None:
        """Raises ConditionError for another shape, dtype or constant."""
        if self.constant:
            if isinstance(value, Tensor) or value != self.constant[0]:
                raise ConditionError(
                    f"Guard failed: {self.name} == {self.constant[0]!r}: the program was recorded "
                    f"for this value, and got {value!r}"
                )
            return
        if not isinstance(value, Tensor):
            raise ConditionError(f"{self.name} has to be a tensor, not {type(value).__name__}")
        found, wanted = tuple(value.shape), self.shape
        if wanted is not None and len(found) != len(wanted):
            raise ConditionError(
                f"Guard failed: {self.name}.dim() == {len(wanted)}: the program was recorded for "
                f"so many dimensions, and got {len(found)}"
            )
        for dim, (want, have) in enumerate(zip(wanted or (), found)):
            if want not in (None, have):
                raise ConditionError(
                    f"Guard failed: {self.name}.size()[{dim}] == {want}: the program was recorded "
                    f"for this size, and got {have}"
                )
        if self.dtype is not None and value.dtype != self.dtype:
            raise ConditionError(
                f"Guard failed: {self.name}.dtype == {self.dtype}: the program was recorded for "
                f"it, and got {value.dtype}"
            )


class Holder(Module):
    """A module that holds parameters, buffers and other holders, and computes nothing.

    Attributes:
        original_name: the class of the module that it stands for.
    """

    original_name = "Module"

    def _get_name(self) -> str:
        return self.original_name


class Program(NamedTuple):
    """A recorded program.

    Attributes:
        module: the graph, and the weights and constants that it uses.
        inputs: what its tensors have to be; None where any will do.
    """

    module: GraphModule
    inputs: tuple[Input, ...] | None

    @property
    def graph(self) -> Graph:
        """The graph of calls."""
        return self.module.graph

    @property
    def names(self) -> list[str]:
        """The names of its arguments."""
        codegen = self.graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            return list(codegen.pytree_info.orig_args)
        return [str(node.target) for node in self.graph.nodes if node.op == "placeholder"]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments in order, which are checked.

        Raises TypeError for arguments that it does not have, and ConditionError for those that it
        was not recorded for.
        """
        if kwargs:
            names = self.names[len(args) :]
            unknown = [name for name in kwargs if name not in names]
            if unknown:
                raise TypeError(f"forward() got an unexpected keyword argument '{unknown[0]}'")
            args = (*args, *(kwargs[name] for name in names if name in kwargs))
        self.check(args)
        return tuple(args)

    def check(self, args: Sequence[Any]) -> None:
        """Raises ConditionError for arguments that the program was not recorded for."""
        if self.inputs is None:
            return
        leaves = pytree.tree_leaves(tuple(args))
        if len(leaves) != len(self.inputs):
            raise ConditionError(
                f"the program takes {len(self.inputs)} values, and got {len(leaves)}"
            )
        for wanted, leaf in zip(self.inputs, leaves):
            wanted.check(leaf)


class _WithBuffers(Tracer):
    """Records buffers by their paths, too."""

    proxy_buffer_attributes = True


def recorded_state(module: Module) -> Iterator[tuple[str, Tensor]]:
    """All parameters and buffers with their paths, those that are there twice under each."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def record(
    function: Module | Callable[..., Any],
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None = None,
    method: str = "forward",
    strict: bool = False,
) -> Program:
    """The program of a module or function.

    Args:
        args, kwargs: example arguments; without them only programs in which Python decides nothing
            by values and shapes can be recorded.
        method: which of the module's methods.
        strict: raise where Python decides something by values in the run on examples, instead of
            warning.

    Raises RecordingError where that is not so, and LazytError for what make_fx cannot record.
    """
    if args is not None:
        try:
            with recordings.entered("export" if strict else "trace"):
                return _from_run(function, args, dict(kwargs or {}), method, strict)
        except NotImplementedError as error:
            raise RecordingError(f"{_title(function)} cannot be recorded: {error}") from error
    try:
        return _traced(function, method)
    except Exception as error:  # whatever a program does with a proxy that is no tensor
        raise RecordingError(
            f"{_title(function)} cannot be recorded without example inputs: {error}"
        ) from error


def _title(function: Any) -> str:
    if isinstance(function, Module):
        return function._get_name()
    return getattr(function, "__name__", type(function).__name__)


def _body(function: Any, method: str) -> Any:
    """What a call runs."""
    if isinstance(function, Module):
        return function if method == "forward" else getattr(function, method)
    return getattr(function, "function", function)  # of a captured one


def _traced(function: Any, method: str) -> Program:
    """The program as proxies find it. Layers of networks are one call each."""
    tracer = _WithBuffers()
    tracer.traced_func_name = method
    # Tracing puts constants into a module, here into the copy, whose dictionary is another.
    root = copy.copy(function) if isinstance(function, Module) else _body(function, method)
    graph = tracer.trace(root)
    _drop_unused(graph)
    return Program(GraphModule(tracer.root, graph, _title(function)), None)


_HARMLESS = (
    getattr, len, operator.getitem, operator.add, operator.sub, operator.mul, operator.floordiv,
    operator.mod, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip


def _drop_unused(graph: Graph) -> None:
    """Removes what is read or computed of sizes and not used; calls stay, as they may write."""
    for node in reversed(graph.nodes):
        reads = node.op == "get_attr" or node.target in _HARMLESS
        if reads and not node.users:
            graph.erase_node(node)


class _Recorder(Recorder):
    """Records a run on example arguments: sizes as numbers that the program computes, decisions by
    them as its conditions, and decisions by values as what they were.

    Args:
        strict: raise where a decision depends on values; otherwise warn, as PyTorch does.
    """

    def __init__(self, tracer: Tracer, root: Module | None, strict: bool) -> None:
        super().__init__(tracer)
        self.strict = strict
        self.known_conditions: set[Any] = set()
        self.expressions: dict[Any, Node] = {}
        self.dtypes_matter = self.ranks_matter = False
        self.inside: list[_Recorder] = []
        self.layers = {} if root is None else {m: path for path, m in root.named_modules()}

    def all_inside(self) -> Iterator[_Recorder]:
        """Itself, and what recorded functions of branches and loops."""
        yield self
        for recorder in self.inside:
            yield from recorder.all_inside()

    # ------------------------------------------------------------------ calls

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*_plain(args), **_plain(kwargs))
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        if not tensors and result is not None:
            return self._looked(func, args, kwargs, result)
        node = self.add_call(func, args, kwargs, result)
        if isinstance(result, (tuple, list)) and not hasattr(result, "_fields"):
            count = self._once(len, node)  # as many as the sizes make
            self._condition(count, len(result), f"the number of parts of {node.name}")
        return result

    def _looked(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        """What is not a tensor: a size, another property, or something that depends on values."""
        name = getattr(func, "__name__", "")
        owner = getattr(func, "__self__", None)
        if isinstance(owner, property):
            name = next(n for n, value in vars(Tensor).items() if value is owner)
        if name == "dtype" or name.startswith("is_"):
            self.dtypes_matter = True
        if name in _OF_RANK:
            self.ranks_matter = True
        if not args or not isinstance(args[0], Tensor) or id(args[0]) not in self.nodes:
            return result
        if isinstance(result, Size):
            return self._sizes(args[0], result)
        if name == "size":
            dim = args[1] if len(args) > 1 else kwargs["dim"]
            return self._sizes(args[0], args[0].node.shape)[plain(dim)]
        if name in ("numel", "nelement"):
            return self._sizes(args[0], args[0].node.shape).numel()
        if name == "__len__":
            operator.index(self._sizes(args[0], args[0].node.shape)[0])
            return result
        if name in _OF_VALUES and self._is_computed(args[0]):
            self._refuse_value(name, result)
        return result

    def _sizes(self, tensor: Tensor, sizes: Sequence[int]) -> RecordedSize:
        node = self.nodes[id(tensor)][1]
        shape = self._once(getattr, node, "shape")
        recorded: Any = [
            RecordedInt(size, self._once(operator.getitem, shape, number), self)
            for number, size in enumerate(sizes)
        ]
        return RecordedSize(recorded)

    def _refuse_value(self, name: str, result: Any) -> None:
        said = {"__bool__": "a bool", "__float__": "a float", "__int__": "an int"}.get(name, name)
        text = (
            f"the program makes {said} of a tensor that depends on its arguments ({result!r:.40}): "
            "a program on file has it as a constant, so that it might be wrong for other arguments"
        )
        if self.strict:
            raise RecordingError(text)
        warn(text, TracerWarning)

    def control_flow(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Records a call of ``cond`` or of a loop; returns its result."""
        return super().control_flow(func, _plain(args), _plain(kwargs))

    def inner(self, tracer: Tracer) -> Recorder:
        """What records a function that such a call is given."""
        found = _Recorder(tracer, None, self.strict)
        self.inside.append(found)
        return found

    def argument(self, value: Any) -> Any:
        """An argument with nodes in the place of tensors and sizes."""

        def of_part(part: Any) -> Any:
            if not isinstance(part, RecordedInt):
                return part
            # A size of the program around a branch is a number in the branch.
            return part.node if part.node.graph is self.tracer.graph else operator.index(part)

        return super().argument(map_aggregate(_as_tuple(value), of_part))

    # ------------------------------------------------------------------ sizes

    def _once(self, function: Callable[..., Any], *args: Any) -> Node:
        """The node of a computation with sizes, which is there once."""
        key = (function, args)
        if key not in self.expressions:
            node = self.tracer.graph.create_node("call_function", function, args, {})
            self.expressions[key] = node
        return self.expressions[key]

    def compute(self, function: Callable[..., Any], a: Any, b: Any) -> Any:
        """A number that the program computes of sizes; one that is no whole number depends on what
        they are."""
        whole = (int, RecordedInt)
        if not isinstance(a, (*whole, float)) or not isinstance(b, (*whole, float)):
            return NotImplemented
        result = function(plain(a), plain(b))
        if not isinstance(result, int):
            return function(*(operator.index(v) if isinstance(v, whole) else v for v in (a, b)))
        nodes = [v.node if isinstance(v, RecordedInt) else v for v in (a, b)]
        return RecordedInt(result, self._once(function, *nodes), self)

    def decide(self, function: Callable[..., Any], a: Any, b: Any) -> Any:
        """The result of a comparison, which becomes a condition of the program."""
        if not isinstance(b, (int, float, RecordedInt)):
            return NotImplemented
        result = function(plain(a), plain(b))
        other = b.node if isinstance(b, RecordedInt) else b
        node = self._once(function, a.node, other)
        self._condition(node, result, MAGIC[function.__name__].format(_said(a.node), _said(other)))
        return result

    def decide_number(self, size: RecordedInt) -> int:
        """A size as a number, on which the program depends then."""
        value: int = plain(size)
        self._condition(size.node, value, _said(size.node))
        return value

    def _condition(self, node: Node, wanted: Any, text: str) -> None:
        if node not in self.known_conditions:
            self.known_conditions.add(node)
            self.tracer.graph.create_node("call_function", require, (node, wanted, text), {})

    # ------------------------------------------------------------------ layers

    @contextmanager
    def whole_layers(self) -> Iterator[None]:
        """Within, a call of a recurrent layer is one node: what it does is no function's."""
        called = Module.__call__

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(module, RNNBase) or module not in self.layers:
                return called(module, *args, **kwargs)
            with DisableTorchFunction():
                result = called(module, *_plain(args), **_plain(kwargs))
            node = self._node("call_module", self.layers[module], args, kwargs)
            self._know_parts(result, node)
            return result

        with Patcher() as patcher:
            patcher.method(Module, "__call__", call)
            yield

    def _know_parts(self, result: Any, node: Node) -> None:
        if isinstance(result, Tensor):
            self.know(result, node)
        elif isinstance(result, (tuple, list)):
            for number, part in enumerate(result):
                self._know_parts(part, self._once(operator.getitem, node, number))


_OF_RANK = frozenset({
    "__len__", "dim", "nDimension", "ndim", "ndimension", "numel", "nelement", "shape", "size",
})  # fmt: skip
#: Methods that give Python's values of a tensor's.
_OF_VALUES = frozenset({
    "__bool__", "__complex__", "__contains__", "__float__", "__index__", "__int__", "allclose",
    "equal", "item", "numpy", "tolist", "is_nonzero",
})  # fmt: skip


_COMPUTING = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)


def _said(value: Any) -> str:
    """A computation with sizes as a program would write it."""
    if not isinstance(value, Node) or value.op != "call_function":
        return str(value)
    name = getattr(value.target, "__name__", "")
    if value.target is len:
        return f"len({_said(value.args[0])})"
    if value.target is getattr:
        return f"{_said(value.args[0])}.{value.args[1]}"
    if name in MAGIC and len(value.args) == 2:
        said = [
            f"({_said(part)})"
            if isinstance(part, Node) and part.target in _COMPUTING
            else _said(part)
            for part in value.args
        ]
        return MAGIC[name].format(*said)
    return value.name  # of a tensor


def _operand(value: Any) -> str:
    computed = isinstance(value, Node) and value.target in _COMPUTING
    return f"({_said(value)})" if computed else _said(value)


def _plain(value: Any) -> Any:
    return map_aggregate(_as_tuple(value), plain)


def _as_tuple(value: Any) -> Any:
    """Sizes as plain tuples, also within others."""
    if isinstance(value, RecordedSize):
        return tuple(value)
    if type(value) in (tuple, list):
        return type(value)(map(_as_tuple, value))
    if type(value) is dict:
        return {key: _as_tuple(part) for key, part in value.items()}
    return value


def _from_run(
    function: Any, args: Sequence[Any], kwargs: dict[str, Any], method: str, strict: bool
) -> Program:
    """The program of a run on example arguments."""
    copied = copy.deepcopy(function) if isinstance(function, Module) else function
    body = _body(copied, method)
    given = (*args, *kwargs.values())
    names = [*_parameter_names(body, len(args)), *kwargs]
    tracer = Tracer()
    tracer.root, tracer.graph = Module(), Graph(tracer_cls=Tracer)
    recorder = _Recorder(tracer, copied if isinstance(copied, Module) else None, strict)
    spec = pytree.tree_structure(given)
    inputs = []
    is_flat = all(part.is_leaf() for part in spec.children())
    for name, value in zip(names, given):
        leaves = pytree.tree_leaves(value)
        for number, leaf in enumerate(leaves, 1):
            title = name if is_flat else f"{name}_{number}"
            recorder.know(leaf, tracer.graph.placeholder(title))
            said = name if len(leaves) == 1 else f"{name}, part {number}"
            if isinstance(leaf, Tensor):
                inputs.append(Input(said, (None,) * leaf.ndim, leaf.dtype))
            else:
                inputs.append(Input(said, constant=(leaf,)))
    with fork_rng(), recorder.whole_layers(), recorder:
        result = body(*args, **kwargs)
    results, made = pytree.tree_flatten(result)
    nested = not all(part.is_leaf() for part in spec.children())
    if nested or not _is_plain(made):
        tracer.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, spec, made)))
        tracer.graph.output(recorder.argument(results))
    else:
        tracer.graph.output(recorder.argument(result))
    if isinstance(copied, Module):
        _name_by_path(tracer.root, tracer.graph, copied)
    _drop_unused(tracer.graph)
    module = GraphModule(tracer.root, tracer.graph, _title(function))
    every = [*recorder.all_inside()]
    ranks, dtypes = any(r.ranks_matter for r in every), any(r.dtypes_matter for r in every)
    checked = tuple(
        item._replace(
            shape=item.shape if ranks else None,
            dtype=item.dtype if dtypes else None,
        )
        for item in inputs
    )
    return Program(module, checked)


def _is_plain(spec: Any) -> bool:
    """Whether results are one tensor, or a tuple or list of tensors."""
    if spec.is_leaf():
        return True
    return spec.type in (tuple, list) and all(part.is_leaf() for part in spec.children())


def _parameter_names(body: Any, count: int) -> list[str]:
    """The names of the parameters that so many positional arguments are given to."""
    signature = inspect.signature(body.forward if isinstance(body, Module) else body)
    kinds = inspect.Parameter
    names = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    return names[:count] + [f"input_{number}" for number in range(count - len(names))]


def _name_by_path(root: Module, graph: Graph, module: Module) -> None:
    """Constants that are weights of the module are called by their paths in it, and its layers are
    there."""
    paths = {id(value): path for path, value in reversed([*recorded_state(module)])}
    for node in graph.nodes:
        if node.op == "call_module":
            put(root, node.target, module.get_submodule(node.target))
        if node.op != "get_attr":
            continue
        value = getattr(root, node.target)
        path = paths.get(id(value))
        if path is not None:
            node.target = path
            put(root, path, value)


def put(root: Module, path: str, value: Any) -> None:
    """Makes a weight or layer an attribute at a path."""
    parent: Module = root
    *above, last = path.split(".")
    for part in above:
        if not hasattr(parent, part):
            parent.add_module(part, Holder())
        parent = getattr(parent, part)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        parent.register_buffer(last, value)
    elif getattr(parent, last, None) is not value:
        setattr(parent, last, value)

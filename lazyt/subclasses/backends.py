"""``torch.compile`` with a backend of one's own: a function that takes a graph and gives what runs.

Every call traces the program, with fake tensors, so that nothing is computed and nothing written;
graphs that came before are not given to the backend again. What a program decides in Python is
thereby decided anew at each call. A program that looks at values has no graph: it runs as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.fx._symbolic_trace import Tracer
from lazyt.fx.experimental.proxy_tensor import Recorder
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.subclasses.fake_tensors import DataDependentOutputException, FakeTensorMode
from lazyt.tracing.jit import CaptureError
from lazyt.utils import _pytree as pytree

__all__ = ["CompileCounter", "ExplainOutput", "Traced", "explain", "with_backend"]


class _NoGraph(LazytError):
    """The program has no graph for these arguments; why is the text."""


@dataclass(frozen=True)
class Traced:
    """One call of a program.

    Attributes:
        graph: the functions that it calls, of the tensors among its arguments.
        inputs: these tensors.
        parts: what it returns, taken apart; tensors stand for results of the graph.
        shape: how the parts are put together.
        key: what tells graphs apart.
    """

    graph: GraphModule
    inputs: list[Tensor]
    parts: list[Any]
    shape: Any
    key: tuple[Any, ...]


def _trace(function: Callable[..., Any], args: Any, kwargs: Any) -> Traced:
    """The graph of a call; raises _NoGraph where it depends on values."""
    leaves, shape = pytree.tree_flatten((args, kwargs))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    tracer = Tracer()
    tracer.root, tracer.graph = Module(), Graph(tracer_cls=Tracer)
    recorder = Recorder(tracer)
    inputs: list[Tensor] = []
    given: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            given.append(leaf)
            continue
        fake = mode.from_tensor(leaf)
        if not any(leaf is other for other in inputs):
            recorder.know(fake, tracer.graph.placeholder(f"arg{len(inputs)}_1"))
            inputs.append(leaf)
        given.append(fake)
    fake_args, fake_kwargs = pytree.tree_unflatten(given, shape)
    try:
        with mode, recorder:
            result = function(*fake_args, **fake_kwargs)
        parts, made = pytree.tree_flatten(result)
        tensors = [part for part in parts if isinstance(part, Tensor)]
        tracer.graph.output(tuple(recorder.argument(part) for part in tensors))
    except DataDependentOutputException as error:
        raise _NoGraph(f"it looks at values ({error})") from error
    for node in reversed(tracer.graph.nodes):
        if node.op == "get_attr" and not node.users:
            tracer.graph.erase_node(node)
    graph = GraphModule(tracer.root, tracer.graph, "GraphModule")
    kinds = tuple((tuple(t.shape), t.stride(), t.dtype, t.device, t.requires_grad) for t in inputs)
    held = tuple(id(getattr(graph, str(n.target))) for n in graph.graph.nodes if n.op == "get_attr")
    key = (graph.code, kinds, held, lazyt.is_grad_enabled())
    return Traced(graph, inputs, parts, made, key)


def with_backend(model: Callable[..., Any], backend: Callable[..., Any], fullgraph: bool) -> Any:
    """``model``, run by what ``backend`` makes of its graphs.

    Args:
        model: a function or module.
        backend: takes a GraphModule and the tensors that it is given, and returns a function of
            such tensors, which returns a tuple, or a list, of the results.
        fullgraph: raise CaptureError for a call without a graph instead of running it as it is.

        >>> import lazyt
        >>> from lazyt.subclasses.backends import with_backend
        >>> def backend(graph, inputs):
        ...     print(graph.code.strip().splitlines()[1].strip())
        ...     return graph.forward
        >>> with_backend(lambda x: lazyt.sin(x), backend, False)(lazyt.zeros(1))
        sin = lazyt.sin(arg0_1);  arg0_1 = None
        tensor([0.])
    """
    known: dict[tuple[Any, ...], tuple[Any, Traced]] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            traced = _trace(model, args, kwargs)
        except _NoGraph as error:
            if fullgraph:
                raise CaptureError(f"there is no graph of this call: {error}") from None
            return model(*args, **kwargs)
        if not any(node.op.startswith("call") for node in traced.graph.graph.nodes):
            return model(*args, **kwargs)  # nothing to compile
        found = known.get(traced.key)
        if found is None:
            # The graph that is held holds its constants: their identities are not used again.
            found = known[traced.key] = backend(traced.graph, list(traced.inputs)), traced
        results = iter(found[0](*traced.inputs))
        parts = [next(results) if isinstance(p, Tensor) else p for p in traced.parts]
        return pytree.tree_unflatten(parts, traced.shape)

    if isinstance(model, Module):
        return _Compiled(model, run)
    return functools.wraps(model)(run)


class _Compiled(Module):
    """A module that runs as a backend says; its state is that of the module.

    Args:
        module: the module.
        run: what a call does.
    """

    def __init__(self, module: Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_run"] = run
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        return self.__dict__["_run"](*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        """Set the mode of both."""
        self._orig_mod.train(mode)
        self.training = mode
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._modules["_orig_mod"], name)


class CompileCounter:
    """A backend that counts graphs and their operations, and runs them as they are.

    Attributes:
        frame_count, op_count: what it was given.
    """

    def __init__(self) -> None:
        self.frame_count, self.op_count = 0, 0

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Tensor]) -> Callable[..., Any]:
        """What runs the graph."""
        self.frame_count += 1
        self.op_count += _operations(gm)
        run: Callable[..., Any] = gm.forward
        return run

    def clear(self) -> None:
        """Count from 0."""
        self.frame_count, self.op_count = 0, 0


def _operations(graph: GraphModule) -> int:
    return sum(node.op.startswith("call") for node in graph.graph.nodes)


@dataclass
class ExplainOutput:
    """What ``explain`` found out.

    Attributes:
        graphs: the graphs.
        graph_count, graph_break_count, op_count: how many graphs, breaks between them, operations.
        break_reasons: why there are none for a part.
    """

    graphs: list[GraphModule]
    graph_count: int
    graph_break_count: int
    op_count: int
    break_reasons: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"Graph Count: {self.graph_count}\nGraph Break Count: {self.graph_break_count}\n"
            f"Op Count: {self.op_count}\nBreak Reasons:\n"
            + "".join(f"  {number}: {why}\n" for number, why in enumerate(self.break_reasons, 1))
        )


def explain(f: Callable[..., Any], *extra: Any, **named: Any) -> Any:
    """A function that takes arguments for ``f`` and says which graph a backend would be given."""

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        try:
            graph = _trace(f, args, kwargs).graph
        except LazytError as error:
            return ExplainOutput([], 0, 1, 0, [str(error)])
        return ExplainOutput([graph], 1, 0, _operations(graph))

    return inner(*extra, **named) if extra or named else inner

"""Exported programs: a graph that takes weights as arguments, its signature, and its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from lazyt.errors import LazytError
from lazyt.export import files
from lazyt.export.dimensions import Dim, sizes_of
from lazyt.export.recording import Program, RecordingError, put, record
from lazyt.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)  # fmt: skip
from lazyt.export.sizes import require
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import GraphModule
from lazyt.fx.node import Node, map_arg
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.utils import _pytree as pytree

__all__ = ["ExportError", "ExportedProgram", "export", "load", "save"]


class ExportError(LazytError):
    """Arguments that ``export`` does not take."""


class ExportedProgram:
    """A module as a program: its graph, its weights, and what it may be called with.

    Attributes:
        graph_signature: what the arguments and results of the graph are.
        example_inputs: the positional and named arguments that it was recorded with, None after
            ``load``.
        range_constraints: the bounds of sizes that may differ, by their names.
        constants: tensors of the program that are neither parameters nor buffers.
    """

    dialect = "TRAINING"

    def __init__(self, root: Module, program: Program, sizes: Sequence[Any], example: Any) -> None:
        self._root, self._program, self._sizes = root, program, list(sizes)
        self.example_inputs = example
        self.range_constraints = {
            size.__name__: size
            for leaf in self._sizes
            for size in leaf or ()
            if isinstance(size, Dim)
        }
        self.constants: dict[str, Tensor] = {}
        self._graph, self.graph_signature = self._with_arguments()

    # ------------------------------------------------------------------ the graph

    def _with_arguments(self) -> tuple[Graph, ExportGraphSignature]:
        """The graph with weights as its first arguments."""
        graph, signature = Graph(), ExportGraphSignature()
        made: dict[Node, Any] = {}
        weights = {
            path: self._take(graph, path, value, signature) for path, value in self._weights()
        }
        for node in self._program.graph.nodes:
            if node.op == "get_attr":
                value = getattr(self._program.module, node.target, None)
                if isinstance(value, GraphModule):  # a function of a branch or a loop
                    made[node] = graph.node_copy(node, made.__getitem__)
                    continue
                if node.target not in weights:
                    value = getattr(self._program.module, node.target)
                    self.constants[node.target] = value
                    weights[node.target] = self._take(graph, node.target, value, signature)
                made[node] = weights[node.target]
            elif node.op == "output":
                found = map_arg(node.args[0], made.__getitem__)
                results = tuple(found) if isinstance(found, (list, tuple)) else (found,)
                graph.output(results)
                for value in results:
                    argument = self._argument(value)
                    signature.output_specs.append(OutputSpec(OutputKind.USER_OUTPUT, argument))
            else:
                made[node] = graph.node_copy(node, made.__getitem__)
        inputs = self._program.inputs or ()
        placed = [made[n] for n in self._program.graph.nodes if n.op == "placeholder"]
        for node, said in zip(placed, inputs):
            name = str(node.target)
            argument = TensorArgument(name)
            if said.constant:
                argument = ConstantArgument(name, said.constant[0])
            signature.input_specs.append(InputSpec(InputKind.USER_INPUT, argument))
        return graph, signature

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        yield from self._root.named_parameters()
        yield from self._root.named_buffers()

    def _take(self, graph: Graph, path: str, value: Any, signature: ExportGraphSignature) -> Node:
        kinds = {"p": InputKind.PARAMETER, "b": InputKind.BUFFER, "c": InputKind.CONSTANT_TENSOR}
        letter = "c"
        persistent = None
        if isinstance(value, Parameter):
            letter = "p"
        elif path in dict(self._root.named_buffers()):
            letter, persistent = "b", path in self._root.state_dict()
        node = graph.placeholder(f"{letter}_{path.replace('.', '_')}")
        argument = TensorArgument(node.name)
        signature.input_specs.append(InputSpec(kinds[letter], argument, path, persistent))
        return node

    @staticmethod
    def _argument(value: Any) -> TensorArgument | ConstantArgument:
        if isinstance(value, Node):
            return TensorArgument(value.name)
        return ConstantArgument("", value)

    @property
    def graph(self) -> Graph:
        """The graph: weights are its first arguments, and its results are in one tuple. Its nodes
        call lazyt's functions, where PyTorch's call operators of its dispatcher."""
        return self._graph

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module, which takes the weights as arguments."""
        layers = {n.target: self._root.get_submodule(n.target)
                  for n in self._graph.nodes if n.op == "call_module"}  # fmt: skip
        for node in self._graph.nodes:
            if node.op == "get_attr":
                layers[node.target] = getattr(self._program.module, node.target)
        return GraphModule(layers, self._graph, "GraphModule")

    def __str__(self) -> str:
        code = self.graph_module.code.strip().replace("\n", "\n        ")
        return (
            f"ExportedProgram:\n    class GraphModule(torch.nn.Module):\n        {code}\n\n"
            f"Graph signature: {self.graph_signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    __repr__ = __str__

    # ------------------------------------------------------------------ state

    @property
    def state_dict(self) -> dict[str, Any]:
        """The weights by their paths."""
        return dict(self._root.state_dict(keep_vars=True))

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        return self._root.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their paths."""
        return self._root.named_parameters()

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        return self._root.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths."""
        return self._root.named_buffers()

    # ------------------------------------------------------------------ use

    def module(self, check_guards: bool = True) -> GraphModule:
        """The program as a module over the same weights.

        It raises ConditionError (an AssertionError) for arguments of other shapes than the
        recorded, where they may not differ.

        Args:
            check_guards: whether it checks its arguments.
        """
        root = GraphModule(self._program.module, self._program.graph, "GraphModule")
        for path, value in self._weights():
            put(root, path, value)
        if check_guards:
            root.register_forward_pre_hook(self._check, with_kwargs=True)
        return root

    def _check(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = self._program.bind(args, kwargs)
        seen: dict[str, int] = {}
        inputs = self._program.inputs or ()
        for said, sizes, leaf in zip(inputs, self._sizes, pytree.tree_leaves(given)):
            for dim, size in enumerate(sizes or ()):
                if isinstance(size, Dim):
                    where = f"{said.name}.size()[{dim}]"
                    size.check(leaf.shape[dim], where)
                    known = seen.setdefault(size.__name__, leaf.shape[dim])
                    require(leaf.shape[dim], known, where)
        return given, {}

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ExportError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def run_decompositions(self, decomp_table: Any = None) -> ExportedProgram:
        """The program itself: its functions are not made of those of a dispatcher."""
        return self


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: Sequence[str] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The program of a module, recorded from a run on example arguments.

    What Python decides by shapes becomes a condition of the program.

    >>> model = lazyt.nn.Sequential(lazyt.nn.Linear(3, 2), lazyt.nn.ReLU())
    >>> program = lazyt.export.export(model, (lazyt.ones(4, 3),))
    >>> program.graph_signature.parameters
    ('0.weight', '0.bias')
    >>> program.module()(lazyt.ones(4, 3)).shape
    torch.Size([4, 2])

    Args:
        mod: the module, in the mode in which it is recorded.
        args, kwargs: example arguments.
        dynamic_shapes: which sizes may differ: for each argument a dict from dimensions to Dims, in
            a sequence, or in a dict by the arguments' names.
        strict, preserve_module_call_signature, prefer_deferred_runtime_asserts_over_guards: taken
            for PyTorch's sake.

    Raises RecordingError where Python decides something by values, or the program depends on a
    size that has a name in ``dynamic_shapes``; ShapesError for dynamic shapes that do not fit;
    ExportError for other arguments.
    """
    if not isinstance(mod, Module):
        raise ExportError(
            f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}."
        )
    if not isinstance(args, tuple):
        raise ExportError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    named = dict(kwargs or {})
    program = record(mod, args, named, strict=True)
    given = (*args, *named.values())
    if hasattr(dynamic_shapes, "dynamic_shapes"):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, named)
    sizes = sizes_of(dynamic_shapes, given, program.names)
    _refuse_fixed(program, sizes)
    inputs = tuple(
        said
        if leaf is None
        else said._replace(shape=tuple(size if isinstance(size, int) else None for size in leaf))
        for said, leaf in zip(program.inputs or (), sizes)
    )
    dtypes = [getattr(leaf, "dtype", None) for leaf in pytree.tree_leaves(given)]
    inputs = tuple(said._replace(dtype=dtype) for said, dtype in zip(inputs, dtypes))
    return ExportedProgram(mod, program._replace(inputs=inputs), sizes, (args, named))


def _refuse_fixed(program: Program, sizes: Sequence[Any]) -> None:
    """Raises RecordingError where the program depends on the value of a size that has a name."""
    placed = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node in program.graph.nodes:
        if node.target is not require or not isinstance(node.args[0], Node):
            continue
        read = node.args[0]
        shape = read.args[0] if read.args else None
        if not isinstance(shape, Node) or shape.target is not getattr:
            continue
        source, dim = shape.args[0], read.args[1]
        if source in placed and isinstance(dim, int):
            size = (sizes[placed.index(source)] or ())[dim]
            if isinstance(size, Dim):
                raise RecordingError(
                    f"Constraints violated ({size.__name__}): the program depends on "
                    f"{node.args[2]} being {node.args[1]}; give this size no Dim"
                )


# ----------------------------------------------------------------------------- files


def save(
    ep: ExportedProgram, f: Any, *, extra_files: Mapping[str, Any] | None = None,
    opset_version: Any = None, pickle_protocol: int = 2,
) -> None:  # fmt: skip
    """Writes an exported program to a file.

    Args:
        f: a path, or a file to write to.
        extra_files: other files to put in, by their names.
        opset_version, pickle_protocol: taken for PyTorch's sake.

    Raises ExportError for other objects; ProgramError for programs that call what is no function of
    tensors.
    """
    if not isinstance(ep, ExportedProgram):
        raise ExportError(
            "The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}'"
        )
    state = files.state_of(ep._root)
    text, constants = files.program_text(ep._program, state, "forward/any/")
    layers = files.layers_of({"forward": {"any": text}})
    sizes = [None if leaf is None else [_size_text(size) for size in leaf] for leaf in ep._sizes]
    document = {"tree": files.tree_of(ep._root, layers), "program": text, "sizes": sizes}
    tensors = {f"state/{path}": value for path, value in state.items()}
    files.write(f, "export", document, {**tensors, **constants}, extra_files)


def _size_text(size: Any) -> Any:
    if isinstance(size, int):
        return size
    return [size.__name__, size.min, size.max] if isinstance(size, Dim) else []


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None, expected_opset_version: Any = None
) -> ExportedProgram:
    """The program that ``save`` wrote. Nothing in the file is run but functions of tensors.

    Args:
        f: a path, or a binary file that can seek.
        extra_files: names of other files, whose contents take the place of the values.
        expected_opset_version: taken for PyTorch's sake.

    Raises CheckpointError for damaged files and other formats.
    """
    document, tensors, extra = files.read(f, ["export"])
    if extra_files is not None:
        known = extra_files.keys() & extra.keys()
        extra_files.update({name: extra[name].decode() for name in known})
    title = f if isinstance(f, str) else "the file"
    with files.damage(title):
        root = files.holder(str(document["tree"]["class"]))
        files.fill(root, document["tree"], tensors, files.holder, title)
        program = files.program_of(document["program"], root, tensors, "forward/any/", title)
        sizes = [
            None if leaf is None else [_size_of(size) for size in leaf]
            for leaf in document["sizes"]
        ]
        return ExportedProgram(root, program, sizes, None)


def _size_of(text: Any) -> Any:
    if isinstance(text, int):
        return text
    if not text:
        return Dim.AUTO
    name, low, high = text
    return Dim(str(name), min=int(low), max=int(high))

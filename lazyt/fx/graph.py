"""Graphs: programs of calls in order, which can be edited and become Python code again."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from warnings import warn

from lazyt.fx.codegen import INPLACE as inplace_methods
from lazyt.fx.codegen import MAGIC as magic_methods
from lazyt.fx.codegen import REFLECTABLE as reflectable_magic_methods
from lazyt.fx.codegen import (
    CodeGen,
    Namespace,
    PythonCode,
    PyTreeCodeGen,
    PyTreeInfo,
    snake_case,
)
from lazyt.fx.node import LEGAL_OPS, Argument, Node, Target, map_arg, type_repr
from lazyt.fx.targets import name_of
from lazyt.nn.module import Module

__all__ = [
    "CodeGen", "Graph", "PythonCode", "inplace_methods", "magic_methods",
    "reflectable_magic_methods",
]  # fmt: skip

_Namespace, _PyTreeCodeGen, _PyTreeInfo = Namespace, PyTreeCodeGen, PyTreeInfo  # PyTorch's names

_MISSING_ATTRIBUTE = (
    "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! "
    "Call GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to "
    "add the necessary Parameter, or nn.Module.register_buffer to add the necessary buffer"
)
_MISSING_MODULE = (
    "Attempted to insert a call_module Node with no underlying reference in the owning "
    "GraphModule! Call GraphModule.add_submodule to add the necessary submodule"
)


class _NodeList:
    """The nodes of a graph in their order. While somebody walks along it, nodes may be inserted,
    moved and erased: those that were erased are passed over."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Any]:
        return self._walk(self.direction)

    def __reversed__(self) -> Iterator[Any]:
        return self._walk("_prev" if self.direction == "_next" else "_next")

    def _walk(self, direction: str) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)


class _InsertPoint:
    """Restores where a graph inserts nodes at the end of a ``with``."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A program as a list of nodes: arguments (``placeholder``), calls, and one ``output``.

    >>> graph = lazyt.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(lazyt.relu, (x,))
    >>> graph.output(y)
    output

    Args:
        owning_module: the module in which ``call_module`` and ``get_attr`` find what they name.
        tracer_cls: the class of the tracer that makes the graph, which a ``GraphModule`` traces
            itself with when it is read from a pickle.
        tracer_extras: arguments that ``trace`` of that class needs then.
    """

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._is_numbered = False
        self._owning_module = owning_module
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = Namespace()
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> Any:
        """The module that runs the graph, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Any) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> _NodeList:
        """All nodes in order. The graph may change while one walks along them."""
        return _NodeList(self)

    def output_node(self) -> Node:
        """The last node, which is the output. Raises AssertionError where it is another."""
        last: Node | None = next(iter(reversed(self.nodes)), None)
        if last is None or last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op if last else None}")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """The nodes of a kind, in order.

        Args:
            op: the kind.
            target: what they call; needed for ``call_function``.
            sort: taken for PyTorch's sake; the order is always that of the graph.

        Raises AssertionError for ``call_function`` without a target.
        """
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [
            node for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]  # fmt: skip

    def _number_nodes(self) -> None:
        self._root._position = 0
        for number, node in enumerate(self.nodes, 1):
            node._position = number
        self._is_numbered = True

    # ------------------------------------------------------------------ making nodes

    def create_node(
        self, op: str, target: Target, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, name: str | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A new node at the insert point, by default the end.

        Args:
            op: its kind, see ``Node``.
            target: what it calls.
            args, kwargs: the arguments: nodes of this graph, numbers, strings, containers of them.
            name: how its result is called; changed where another node has the name. By default
                the name of the target.
            type_expr: an annotation of the result.

        Raises AssertionError for an unknown kind and for arguments that are no tuple or dict, and
        ValueError for a target of the wrong kind.
        """
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        free = self._graph_namespace.create_name(candidate, None)
        node = Node(self, free, op, target, args, kwargs, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(free, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """A node for an argument of the graph.

        Args:
            name: of the argument; ``*name`` and ``**name`` as in Python.
            default_value: of the argument; ``...`` or ``inspect.Signature.empty`` for none.
        """
        is_absent = default_value is ... or default_value is inspect.Signature.empty
        args = () if is_absent else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A node for an attribute of the owning module. Warns where that has no parameter, buffer
        or submodule of the name."""
        if self.owning_module is not None and not _has_attribute(
            self.owning_module, qualified_name
        ):
            warn(_MISSING_ATTRIBUTE, stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node that calls a submodule of the owning module. Warns where that has none of the
        name."""
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, module_name):
            warn(_MISSING_MODULE, stacklevel=2)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node that calls a method of the first of ``args``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None, type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """A node that calls a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """The node for what the graph returns."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before ``n``, or at the beginning, from now on or in a ``with``.

        Raises AssertionError for nodes of other graphs.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes behind ``n``, or at the end, from now on or in a ``with``.

        Raises AssertionError for nodes of other graphs.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node. Raises RuntimeError where others use it, and for those of other graphs;
        warns where it was erased before."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        self._is_numbered = False
        to_erase.args = map_arg(to_erase.args, lambda _: None)
        to_erase.kwargs = map_arg(to_erase.kwargs, lambda _: None)

    # ------------------------------------------------------------------ copying

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Copy the nodes of ``g`` here, up to its output.

        Args:
            val_map: what stands here for nodes of ``g``; receives every node that is copied. Those
                that it has at the beginning are not copied.
            return_output_node: return the output node of ``g``, too.

        Returns what stands here for the result of ``g``; None where it has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """A copy of a node of another graph, at the insert point.

        Args:
            arg_transform: gives what stands here for a node among the arguments.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        found = copied.graph_copy(self, memo if memo else {}, return_output_node=True)
        copied._codegen = copy.deepcopy(self._codegen)
        if found is not None:
            result, output = found
            copied.output(result, output.type).meta = copy.copy(output.meta)
        return copied

    # ------------------------------------------------------------------ checks and cleaning

    def lint(self) -> None:
        """Check that every node belongs to the graph, has a unique name, and uses only what is
        computed before it, and that the owning module has what is named.

        Raises RuntimeError, or ValueError for a target that cannot be called.
        """
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.op not in LEGAL_OPS:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for arg in node.all_input_nodes:
                self._check_argument(arg, node, seen)
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._check_target(node)

    def _check_argument(self, arg: Node, node: Node, seen: set[Node]) -> None:
        if arg.graph is not self:
            raise RuntimeError(
                f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but was used as "
                "an argument! If you are copying nodes from another graph, make sure to use "
                f"``arg_transform`` on node_copy() to remap values\n{self}"
            )
        if arg not in seen:
            raise RuntimeError(
                f"Argument '{arg}' of Node '{node}' was used before it has been defined! Please "
                f"check that Nodes in the graph are topologically ordered\n{self}"
            )

    def _check_target(self, node: Node) -> None:
        target = node.target
        is_function = node.op == "call_function"
        if not (callable(target) if is_function else isinstance(target, str)):
            wanted = "Callable" if is_function else "str"
            raise ValueError(
                f"Node {node} target {target} has type {type_repr(type(target))} but a {wanted} is "
                "expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        found: Any = self.owning_module
        parts = target.split(".")
        for number, part in enumerate(parts):
            found, path = getattr(found, part, None), ".".join(parts[:number])
            if found is None:
                raise RuntimeError(
                    f"Node {node} target {target} references nonexistent attribute {part} of {path}"
                )
            if node.op == "call_module" and not isinstance(found, Module):
                raise RuntimeError(
                    f"Node {node} target {target} {part} of {path} does not reference an nn.Module"
                )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase the nodes whose results nobody uses, except those that do something besides.

        Args:
            is_impure_node: says which those are; ``Node.is_impure`` by default.

        Returns whether there were any. Raises what ``lint`` does, which is called first.
        """
        self.lint()
        is_impure = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not is_impure(node):
                self.erase_node(node)
        changed = self._len < before
        if self.owning_module is not None:
            named = {node.target for node in self.find_nodes(op="get_attr")}
            for name, child in self.owning_module.named_children():
                if name in named and isinstance(getattr(child, "graph", None), Graph):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    # ------------------------------------------------------------------ text

    def _target_to_str(self, target: Target) -> str:
        name: str = target if isinstance(target, str) else name_of(target)
        if isinstance(target, str) and name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return snake_case(name)

    def python_code(
        self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
        include_device: bool = False, colored: bool = False, expanded_def: bool = False,
        record_func: bool = False, additional_meta: list[str] | None = None,
    ) -> PythonCode:  # fmt: skip
        """The graph as a Python function.

        Args:
            root_module: the name of the owning module in the text, such as ``self``.
            verbose: with the dtypes and shapes that ``meta`` has, and where the program made calls.
            include_stride, include_device: with strides and devices, too.
            colored, expanded_def, record_func, additional_meta: taken for PyTorch's sake.
        """
        namespace = Namespace()
        functions = {node: node._repr_fn for node in self.nodes}
        for node in functions:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose,
                include_stride=include_stride, include_device=include_device,
            )  # fmt: skip
        finally:
            for node, function in functions.items():
                node._repr_fn = function

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(str(node.format_node()) for node in self.nodes)])

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        print(self.tabular())

    def tabular(self) -> str:
        """The nodes as a table: kind, name, target, arguments."""
        titles = ["opcode", "name", "target", "args", "kwargs"]
        rows = [
            [str(part) for part in (n.op, n.name, n.target, n.args, n.kwargs)] for n in self.nodes
        ]
        widths = [
            max([len(title) + 2, *(len(row[i]) for row in rows)]) for i, title in enumerate(titles)
        ]
        lines = [titles, ["-" * width for width in widths], *rows]
        return "\n".join(
            "  ".join(part.ljust(width) for part, width in zip(line, widths)).rstrip()
            for line in lines
        )

    def set_codegen(self, codegen: CodeGen) -> None:
        """Write the graph by another ``CodeGen`` from now on."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of the graph for those of the function that is written."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What that function returns for what the graph does."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]
    ) -> contextlib.AbstractContextManager[None]:
        """Have a function change the lines of generated code, from now on or in a ``with``.

        Args:
            make_transformer: takes the function that does so already, or None, and gives the new
                one, which takes and gives a list of texts.
        """
        codegen = self._codegen
        before = codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restored() -> Iterator[None]:
            try:
                yield
            finally:
                codegen._body_transformer = before

        return restored()


def _has_attribute(module: Any, path: str) -> bool:
    """Whether a module has a parameter, buffer or submodule of a path."""
    parent, _, name = path.rpartition(".")
    try:
        owner = module.get_submodule(parent)
    except AttributeError:
        warn(f"Failed to fetch module {parent}!", stacklevel=3)
        return False
    return any(name in vars(owner).get(t, ()) for t in ("_parameters", "_buffers", "_modules"))

"""Modules that run graphs, by Python code written from them."""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from lazyt.compat.absent import known_as
from lazyt.errors import warn
from lazyt.functional.overriding import stop
from lazyt.fx.codegen import PyTreeCodeGen, registered_names
from lazyt.fx.graph import Graph, PythonCode
from lazyt.handle.tensor import Tensor
from lazyt.nn.convolution import Conv1d, Conv2d, Conv3d
from lazyt.nn.linear import Linear
from lazyt.nn.module import Module
from lazyt.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from lazyt.nn.parameter import Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()
_PACKAGE = __file__[: -len("fx/graph_module.py")]
#: Modules whose text makes them again.
_SPELLED = (Linear, Conv1d, Conv2d, Conv3d, BatchNorm1d, BatchNorm2d, BatchNorm3d)


def _forward_from_src(source: str, names: dict[str, Any], where: str = "") -> Callable[..., Any]:
    """The function ``forward`` that a text defines; tracebacks show its lines."""
    key = f"<eval_with_key>.{next(_numbers)}{where}"
    linecache.cache[key] = (len(source), None, source.splitlines(keepends=True), key)
    held = dict(names)
    exec(compile(source, key, "exec", dont_inherit=True), held)
    found: Callable[..., Any] = held.pop("forward")
    return found


def _import_block(names: dict[str, Any]) -> str:
    """The lines that import what generated code uses."""
    known = registered_names()
    lines = []
    for name, value in names.items():
        if name in known:
            lines.append(known[name][0])
            continue
        outer, _, inner = value.__qualname__.partition(".")
        lines.append(f"from {value.__module__} import {outer} as {name}")
        if inner:  # a class in another one
            lines.append(f"{name} = {name}.{inner}")
    return "\n".join(lines)


# Other packages call these by their names in PyTorch.


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Put what one module has at a path into another, in modules that are made on the way."""
    *parents, name = target.split(".")
    for parent in parents:
        there, here = getattr(from_module, parent), getattr(to_module, parent, None)
        if there is here:  # and has everything below it, too
            return
        if here is None:
            here = Module()
            setattr(to_module, parent, here)
        from_module, to_module = there, here
    _assign_attr(getattr(from_module, name), to_module, name)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Put an object at a path; tensors become buffers."""
    *parents, name = target.split(".")
    module: Any = to_module
    for parent in parents:
        if getattr(module, parent, None) is None:
            setattr(module, parent, Module())
        module = getattr(module, parent)
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        module.register_buffer(name, from_obj)
    else:
        setattr(module, name, from_obj)


def _get_attr(model: Module, attr_name: str) -> Any:
    """What a module has at a path."""
    found: Any = model
    for part in attr_name.split("."):
        found = getattr(found, part)
    return found


def _del_attr(model: Module, attr_name: str) -> None:
    """Remove what a module has at a path."""
    parent, _, name = attr_name.rpartition(".")
    delattr(_get_attr(model, parent) if parent else model, name)


def _has_attr(model: Module, attr_name: str) -> bool:
    """Whether a module has anything at a path."""
    found: Any = model
    for part in attr_name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


#: In ``meta``: attributes that copies of the module have, too.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(Module):
    """A module of attributes and a ``forward``, from which a ``GraphModule`` is made again."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = attributes


def reduce_graph_module(body: dict[str, Any], import_block: str) -> GraphModule:
    """The module that a pickle has the attributes and the code of: the code is traced again."""
    forward = _forward_from_src(f"{import_block}\n{body['_code']}", {})
    holder = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    tracer = body.get("_tracer_cls")
    if tracer is None:
        tracer = import_module("lazyt.fx._symbolic_trace").Tracer
    # What is a submodule here was a leaf when the graph was made.
    keeper = type("KeepModules", (tracer,), {"is_leaf_module": lambda *_: True})
    graph = keeper().trace(holder, **body.get("_tracer_extras", {}))
    graph._tracer_cls = tracer
    made = GraphModule(holder, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


class GraphModule(Module):
    """A module that runs a graph, as the Python function that is written from it.

    >>> traced = lazyt.fx.symbolic_trace(lambda x: x + 1)
    >>> print(traced.code.strip())
    def forward(self, x):
        add = x + 1;  x = None
        return add
    >>> traced(lazyt.ones(2))
    tensor([2., 2.])

    After changes of the graph ``recompile`` writes the function anew, as assigning ``graph`` does.

    Args:
        root: the module that has what the graph names, or a dict of that by paths. What the graph
            names is taken over, and nothing else.
        graph: the graph.
        class_name: how the module is called where it prints.

    Raises RuntimeError where a dict has not what the graph names, and for other roots.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """Each object gets its own class, whose method ``forward`` is generated."""
        for kind in cls.__mro__:
            if kind.__qualname__.rpartition(".")[2] != "GraphModuleImpl":
                cls = kind
                break
        made = type("GraphModuleImpl", (cls,), {"__module__": __name__})
        made.__qualname__ = "GraphModule.__new__.<locals>.GraphModuleImpl"
        return super().__new__(made)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        named = [node for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            if isinstance(root, _CodeOnlyModule):
                parts = (root.named_children(), root.named_buffers(), root.named_parameters())
                for path, _ in itertools.chain(*parts):
                    _copy_attr(root, self, path)
            for node in named:
                _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            for node in named:
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
            paths = dict.fromkeys(node.target for node in named)
            for path in sorted(paths, key=lambda path: path.count(".")):
                _assign_attr(root[path], self, path)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        tracer = graph._tracer_cls
        is_found = tracer is not None and "<locals>" not in tracer.__qualname__
        self._tracer_cls = tracer if is_found else None
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Callable[..., Any]] = []
        self._create_node_hooks: list[Callable[..., Any]] = []
        self._erase_node_hooks: list[Callable[..., Any]] = []
        self._deepcopy_hooks: list[Callable[..., Any]] = []
        self.shape_env = None

    # ------------------------------------------------------------------ the graph and its code

    @property
    def graph(self) -> Graph:
        """The graph. Assigning another one writes the code anew."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of ``forward``. Raises RuntimeError before there is a graph."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return str(self._code)

    def recompile(self) -> PythonCode:
        """Write the code anew, after changes of the graph; that of submodules with graphs, too."""
        stop()  # asking for proxies with which the graph was changed
        graph = self._graph
        if isinstance(graph._codegen, PyTreeCodeGen):
            self._in_spec = graph._codegen.pytree_info.in_spec
            self._out_spec = graph._codegen.pytree_info.out_spec
        code = graph.python_code(root_module="self")
        self._code = code.src
        self._lineno_map, self._prologue_start = code._lineno_map, code._prologue_start
        kind = type(self)
        kind.forward = _forward_from_src(code.src, code.globals)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            while len(frames) > 1 and frames[-1].filename.startswith(_PACKAGE):
                frames.pop()
            frame = frames[-1]
            if "eval_with_key" in frame.filename:
                print(_message(frame), file=sys.stderr)
                raise error.with_traceback(None)  # noqa: B904 (the message has shown it)
            raise

    # ------------------------------------------------------------------ submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Make ``m`` the submodule at a path, and modules on the way where there are none.

        Returns False where something on the way is no module.
        """
        *parents, name = target.split(".")
        module: Any = self
        for parent in parents:
            below = getattr(module, parent, None)
            if below is None:
                below = Module()
                setattr(module, parent, below)
            if not isinstance(below, Module):
                return False
            module = below
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule at a path; returns False where there is none."""
        parent, _, name = target.rpartition(".")
        module: Any = self
        for part in parent.split(".") if parent else ():
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            used.update(itertools.accumulate(node.target.split("."), "{}.{}".format))
            found = dict(self.named_modules()).get(node.target)
            if node.op == "call_module" and found is not None:
                used.update(f"{node.target}.{name}" for name, _ in found.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # ------------------------------------------------------------------ copies, files, text

    def __reduce__(self) -> tuple[Any, ...]:
        body = dict(self.__dict__)
        del body["_graph"]
        body["_graphmodule_cls_name"] = type(self).__name__
        for name in ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks"):
            body.pop(name, None)
        return reduce_graph_module, (body, _import_block(self.recompile().globals))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        type(made).__name__ = type(self).__name__
        hooks = self.__dict__.get("_deepcopy_hooks", [])
        for name, value in self.__dict__.items():
            if name not in ("_graph", "_deepcopy_hooks"):
                made.__dict__[name] = copy.deepcopy(value, memo)
        made.__dict__["_deepcopy_hooks"] = list(hooks)
        made.graph = copy.deepcopy(self._graph, memo)
        for hook in hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Write the module as a Python package: ``from folder import FxModule``.

        Args:
            folder: the path of the package; made where it does not exist.
            module_name: the name of the class.

        Warns of submodules whose text does not make them again: these become files.
        """
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        package = known_as("lazyt")
        save = import_module("lazyt.serialization").save
        save(self.state_dict(), folder / "state_dict.pt")
        # Outside of the class, which would change names that begin with two underscores.
        lines = [_import_block(self.recompile().globals), self.code.rstrip(), "\n"]
        lines += [f"from {package}.nn import *", f"class {module_name}({package}.nn.Module):"]
        lines += ["    def __init__(self):", "        super().__init__()"]
        files = []
        for name, module in self.named_children():
            text, note = repr(module), ""
            if type(module) not in _SPELLED:
                path = folder / f"{name}.pt"
                save(module, path)
                files.append(name)
                note = f"  # {text}".replace("\r", " ").replace("\n", " ")
                text = f"{package}.load(r'{path}', weights_only=False)"
            lines.append(f"        setattr(self, '{name}', {text}){note}")
        for name, buffer in self.named_buffers(recurse=False):
            made = f"{package}.empty({list(buffer.shape)}, dtype={buffer.dtype})"
            lines.append(f"        self.register_buffer('{name}', {made})")
        for name, parameter in self.named_parameters(recurse=False):
            made = f"{package}.empty({list(parameter.shape)}, dtype={parameter.dtype})"
            lines.append(f"        setattr(self, '{name}', {package}.nn.Parameter({made}))")
        state = folder / "state_dict.pt"
        lines.append(f"        self.load_state_dict({package}.load(r'{state}'))")
        lines += ["", "    forward = forward", ""]
        (folder / "module.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "__init__.py").write_text("from .module import *", encoding="utf-8")
        if files:
            warn(
                "Was not able to save the following children modules as reprs -saved as pickled "
                f"files instead: {files}"
            )

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
        colored: bool = False, *, fast_sympy_print: bool = False, expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:  # fmt: skip
        """The code as a class, with the dtypes and shapes that nodes have in ``meta``, and that of
        submodules with graphs.

        Args:
            print_output: print it, too.
            include_stride, include_device: with strides and devices.
            colored, fast_sympy_print, expanded_def, additional_meta: taken for PyTorch's sake.
        """
        text = self._readable(self._get_name(), include_stride, include_device)
        if print_output:
            print(text)
        return text

    def _readable(self, name: str, strides: bool, devices: bool) -> str:
        code = self.graph.python_code(
            root_module="self", verbose=True, include_stride=strides, include_device=devices
        )
        body = code.src.lstrip("\n")
        text = _indented(f"class {name}({known_as('lazyt')}.nn.Module):\n{body}")
        below = [
            child._readable(path, strides, devices)
            for path, child in self.named_children()
            if isinstance(child, GraphModule)
        ]
        return text + _indented("\n".join(["", *below]))

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    # ------------------------------------------------------------------ hooks

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.remove(f)


def _message(frame: traceback.FrameSummary) -> str:
    """What is shown of an error in generated code: the lines around the one that failed."""
    number, line = frame.lineno or 0, frame.line or ""
    lines = linecache.getlines(frame.filename)
    return "\n".join(
        [
            traceback.format_exc(),
            f"Call using an FX-traced Module, line {number} of the traced Module's generated "
            "forward function:",
            "".join(lines[max(number - 2, 0) : number]),
            "~" * len(line) + "~~~ <--- HERE",
            "\n".join(lines[number : number + 2]),
        ]
    )


def _indented(text: str) -> str:
    """All lines but the first by four more, and empty ones without blanks."""
    first, *others = text.split("\n")
    return "\n".join([first, *(f"    {line}" if line.strip() else "" for line in others)])

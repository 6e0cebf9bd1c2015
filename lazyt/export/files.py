"""Files of programs: graphs as text beside their weights, in the archives of ``lazyt.save``.

Reading makes tensors and calls functions of tensors that are named in the text, and nothing else.
The folder ``code`` of PyTorch's TorchScript archives is not run.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, util
from typing import Any

from lazyt.compat.absent import known_as
from lazyt.errors import CheckpointError, LazytError
from lazyt.export.recording import Holder, Input, Program
from lazyt.export.text import ProgramError, graph_of, text_of, value_of, value_text
from lazyt.fx.codegen import PyTreeCodeGen, PyTreeInfo
from lazyt.fx.graph_module import GraphModule
from lazyt.handle.pytree import TreeSpec
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.serialization import load, save
from lazyt.utils import _pytree as pytree

__all__ = ["program_of", "program_text", "read", "state_of", "tree_of", "write"]

_FORMAT = "lazyt.program"
_VERSION = 1


# ----------------------------------------------------------------------------- whole files


def write(
    f: Any,
    kind: str,
    document: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Writes a document and the tensors that it names.

    Args:
        f: a path, or a file to write to.
        kind: what the document describes.
        document: values that JSON has.
        extra: other files by their names, as text or bytes.

    Raises LazytError as ``lazyt.save`` does.
    """
    files = {
        str(name): text.encode() if isinstance(text, str) else bytes(text)
        for name, text in (extra or {}).items()
    }
    text = json.dumps({"kind": kind, **document}, allow_nan=False)
    plain = {name: value.detach() for name, value in tensors.items()}
    whole = {"format": _FORMAT, "version": _VERSION, "document": text, "tensors": plain}
    save({**whole, "extra": files}, f)


def read(
    f: Any, kinds: Sequence[str], map_location: Any = None
) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, bytes]]:
    """A document, its tensors and its other files.

    Args:
        f: a path, or a binary file that can seek.
        kinds: what the document may describe.

    Raises CheckpointError for files of other formats, versions and kinds, and damaged ones;
    ValueError where there is no file at the path.
    """
    _refuse_torchscript(f)
    whole = load(f, map_location)
    title = f if isinstance(f, str) else "the file"
    if not isinstance(whole, dict) or whole.get("format") != _FORMAT:
        raise CheckpointError(
            f"{title} holds no program, but a {type(whole).__name__}, which "
            f"{known_as('lazyt')}.load() gives"
        )
    if whole.get("version") != _VERSION:
        raise CheckpointError(
            f"{title} has version {whole.get('version')!r} of the format; this lazyt reads "
            f"{_VERSION}"
        )
    try:
        document = json.loads(whole["document"])
        kind, tensors, extra = document["kind"], dict(whole["tensors"]), dict(whole["extra"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{title} is damaged: {error}") from error
    if kind not in kinds:
        raise CheckpointError(f"{title} holds a program of the kind {kind!r}, not {kinds[0]!r}")
    return document, tensors, extra


def _refuse_torchscript(f: Any) -> None:
    """Raises CheckpointError for archives of TorchScript, by the folder of its code."""
    begin = f.tell() if hasattr(f, "tell") else 0
    try:
        with zipfile.ZipFile(f) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return  # load() says what it is
    finally:
        if hasattr(f, "seek"):
            f.seek(begin)
    if any("/code/" in name for name in names):
        raise CheckpointError(
            f"{f if isinstance(f, str) else 'the file'} is TorchScript, whose code only PyTorch "
            "runs; save its weights there, with torch.save(module.state_dict(), path)"
        )


# ----------------------------------------------------------------------------- programs


def program_text(program: Program, state: Mapping[str, Any], prefix: str) -> tuple[Any, Any]:
    """What is written of a program: a text, and its constants by their names in the file.

    Args:
        state: the weights by their paths, which are written elsewhere.
        prefix: what names of constants begin with.

    Raises ProgramError for programs that a text cannot hold.
    """
    graph = program.graph
    constants: dict[str, Tensor] = {}
    inner: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op != "get_attr" or node.target in state:
            continue
        value: Any = program.module
        for part in node.target.split("."):
            value = getattr(value, part)
        if isinstance(value, GraphModule):  # a function of a branch or a loop
            below = f"{prefix}{node.target}/"
            inner[node.target], more = program_text(Program(value, None), {}, below)
            constants |= more
            continue
        if not isinstance(value, Tensor):
            raise ProgramError(f"{node.name} is a {type(value).__name__}, and not a tensor")
        constants[prefix + node.target] = value
    made: dict[str, Any] = {"nodes": text_of(graph), "title": program.module._get_name()}
    if inner:
        made["graphs"] = inner
    if program.inputs is not None:
        made["inputs"] = [
            [
                item.name,
                None if item.shape is None else list(item.shape),
                None if item.dtype is None else value_text(item.dtype, item.name),
                [value_text(value, item.name) for value in item.constant],
            ]
            for item in program.inputs
        ]
    codegen = graph._codegen
    if isinstance(codegen, PyTreeCodeGen):
        info = codegen.pytree_info
        made["args"] = list(info.orig_args)
        made["in"] = _tree_text(info.in_spec)
        made["out"] = None if info.out_spec is None else _tree_text(info.out_spec)
    return made, constants


def program_of(
    text: Any, module: Module, tensors: Mapping[str, Tensor], prefix: str, title: str
) -> Program:
    """The program that a text describes.

    Args:
        module: has the weights and layers.
        tensors: what the file holds.
        prefix: what names of constants begin with.
        title: what errors call the file.

    Raises ProgramError for damaged texts, and those that name what programs may not use.
    """
    graph = graph_of(text.get("nodes") if isinstance(text, dict) else None, title)
    try:
        if "args" in text:
            names = [str(name) for name in text["args"]]
            if not all(name.isidentifier() for name in names):
                raise ProgramError(f"{title} has arguments without names")
            out = None if text["out"] is None else _tree(text["out"])
            graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, _tree(text["in"]), out)))
        inputs = None
        if "inputs" in text:
            inputs = tuple(
                Input(
                    str(name),
                    None if shape is None else tuple(shape),
                    None if dtype is None else value_of(dtype, title),
                    tuple(value_of(value, title) for value in constant),
                )
                for name, shape, dtype, constant in text["inputs"]
            )
        state = state_of(module)
        root: dict[str, Any] = {}
        for node in graph.nodes:
            if node.op == "call_module":
                root[node.target] = module.get_submodule(node.target)
            elif node.op == "get_attr":
                path = node.target
                if path in text.get("graphs", {}):
                    below, name = text["graphs"][path], f"{prefix}{path}/"
                    root[path] = program_of(below, Module(), tensors, name, title).module
                    continue
                root[path] = state[path] if path in state else tensors[prefix + path]
        made = GraphModule(root, graph, str(text["title"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProgramError(f"{title} is damaged: {type(error).__name__}: {error}") from error
    return Program(made, inputs)


#: Containers that files have, by their names in texts.
_CONTAINERS: dict[str, Any] = {"tuple": tuple, "list": list}


def _tree_text(spec: TreeSpec) -> Any:
    """How an argument or result is nested."""
    if spec.is_leaf():
        return "leaf"
    parts = [_tree_text(part) for part in spec.children()]
    for name, kind in _CONTAINERS.items():
        if spec.type is kind:
            return {name: parts}
    if isinstance(spec.type, type) and issubclass(spec.type, dict):
        return {"dict": [[str(key) for key in spec.context], parts]}
    raise ProgramError(
        f"a program's arguments and results are tensors, tuples, lists and dicts, not "
        f"{getattr(spec.type, '__name__', spec.type)}, which files cannot hold"
    )


def _tree(text: Any) -> TreeSpec:
    return pytree.tree_structure(_example(text))


def _example(text: Any) -> Any:
    """Any value of a structure."""
    if text == "leaf":
        return 0
    ((name, parts),) = text.items()
    if name == "dict":
        keys, values = parts
        return dict(zip(keys, map(_example, values)))
    return _CONTAINERS[name](map(_example, parts))


# ----------------------------------------------------------------------------- modules


def state_of(module: Module) -> dict[str, Tensor]:
    """Parameters and buffers by their paths."""
    found: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def layers_of(programs: Mapping[str, Any]) -> set[str]:
    """The paths of the modules that programs call as a whole, by the texts of the programs."""
    return {
        node["target"]
        for modes in programs.values()
        for text in modes.values()
        for node in text["nodes"]
        if node["op"] == "call_module"
    }


def tree_of(module: Module, layers: Container[str], path: str = "") -> dict[str, Any]:
    """What is written of a tree of modules besides the values of its tensors.

    Args:
        layers: the paths of modules that programs call as a whole. With the modules below them,
            they are written as layers of ``nn``, with their settings.

    Raises ProgramError for layers with settings that a text cannot hold.
    """
    return _Trees(layers).text(module, path, False)


class _Trees:
    """Writes trees of modules; a parameter that is there again as the path of the first place."""

    def __init__(self, layers: Container[str]) -> None:
        self.layers = layers
        self.places: dict[int, str] = {}

    def text(self, module: Module, path: str, is_layer: bool) -> dict[str, Any]:
        is_layer = is_layer or path in self.layers
        made = {
            "class": getattr(module, "original_name", None) or module._get_name(),
            "training": module.training,
            "parameters": {
                name: None if value is None else self._parameter(value, f"{path}.{name}")
                for name, value in module._parameters.items()
            },
            "buffers": {
                name: None if value is None else name not in module._non_persistent_buffers_set
                for name, value in module._buffers.items()
            },
            "modules": {
                name: None
                if child is None
                else self.text(child, f"{path}.{name}".lstrip("."), is_layer)
                for name, child in module._modules.items()
            },
        }
        if is_layer:
            kind = layer_class(module)
            made["layer"] = f"{kind.__module__.removeprefix('lazyt.nn.')}.{kind.__name__}"
            made["settings"] = {
                name: value_text(value, f"{kind.__name__}.{name}")
                for name, value in vars(module).items()
                if name not in _OF_EVERY_MODULE and not name.startswith(_OF_SCRIPTS)
            }
        return made

    def _parameter(self, value: Parameter, path: str) -> Any:
        place = self.places.setdefault(id(value), path.lstrip("."))
        return value.requires_grad if place == path.lstrip(".") else place


_OF_EVERY_MODULE = frozenset(vars(Module()))
#: What a script module has besides.
_OF_SCRIPTS = ("_original_name", "_exported", "_examples")


def layer_class(module: Module) -> type[Module]:
    """The class of ``nn`` that a module is of. Raises ProgramError for others."""
    kind: type[Module] = getattr(type(module), "_scripted", type(module))
    if not _is_layer(kind):
        raise ProgramError(
            f"{kind.__name__} is no layer of nn, and cannot be written as part of one"
        )
    return kind


def _is_layer(kind: Any) -> bool:
    """Whether a class is defined in one of the modules of ``nn``."""
    if not isinstance(kind, type) or not issubclass(kind, Module):
        return False
    where = kind.__module__
    return where.startswith("lazyt.nn.") and getattr(sys.modules[where], kind.__name__, 0) is kind


def is_of_layers(module: Module) -> bool:
    """Whether a module, and all below it, are layers of ``nn``."""
    return all(_is_layer(getattr(type(m), "_scripted", type(m))) for m in module.modules())


def layer_of(text: Any, title: str) -> Module:
    """A layer of ``nn`` with its settings, without parameters and submodules."""
    where, _, name = str(text["layer"]).rpartition(".")
    kind: Any = None
    if re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", where) and util.find_spec(f"lazyt.nn.{where}"):
        kind = getattr(import_module(f"lazyt.nn.{where}"), name, None)
    if not _is_layer(kind):
        raise ProgramError(f"{title}: {text['layer']!r} is no layer of nn")
    made: Module = kind.__new__(kind)
    vars(made).update(vars(Module()))
    for name, value in text["settings"].items():
        if name in _OF_EVERY_MODULE or name.startswith("__"):
            raise ProgramError(f"{title}: {name!r} is no setting of {kind.__name__}")
        vars(made)[name] = value_of(value, title)
    return made


def fill(module: Module, text: Any, tensors: Mapping[str, Tensor], make: Any, title: str) -> None:
    """Gives a module the parameters, buffers and submodules that a tree describes.

    Args:
        make: makes a submodule that is no layer, from the name of the class that it stands for.
        title: what errors call the file.
    """
    _fill(module, text, tensors, make, title, "", {})


def _fill(
    module: Module, text: Any, tensors: Mapping[str, Tensor], make: Any, title: str, path: str,
    known: dict[str, Parameter],
) -> None:  # fmt: skip
    module.training = bool(text["training"])
    for name, said in text["parameters"].items():
        value = None
        if isinstance(said, str):
            value = known[said]
        elif said is not None:
            value = Parameter(tensors[f"state/{path}{name}"], requires_grad=bool(said))
            known[path + name] = value
        module.register_parameter(name, value)
    for name, persistent in text["buffers"].items():
        buffer = None if persistent is None else tensors[f"state/{path}{name}"]
        module.register_buffer(name, buffer, persistent is not False)
    for name, below in text["modules"].items():
        child = None
        if below is not None:
            child = layer_of(below, title) if "layer" in below else make(str(below["class"]))
            _fill(child, below, tensors, make, title, f"{path}{name}.", known)
        module.add_module(name, child)


def exists(path: str) -> bool:
    """Whether there is a file at a path."""
    return os.path.isfile(path)


def holder(name: str) -> Holder:
    """A module that only holds weights.

    Args:
        name: the class that it stands for.
    """
    made = Holder()
    made.original_name = name
    return made


@contextmanager
def damage(title: str) -> Iterator[None]:
    """Within, an error of reading what a file should have is a CheckpointError."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, LazytError):
            raise
        raise CheckpointError(f"{title} is damaged: {type(error).__name__}: {error}") from error

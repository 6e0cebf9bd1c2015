"""Modules and functions of ``torch.jit``: what ``script`` and ``trace`` give, saved and loaded.

Here Python runs them, as it does every module; ``lazyt.jit`` replays them. A program is recorded
when one is written to a file (``lazyt.export.recording``), or when its graph is read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Mapping
from typing import Any, NoReturn

from lazyt.errors import CheckpointError, LazytError
from lazyt.export import files
from lazyt.export.recording import Program, record
from lazyt.fx.codegen import PyTreeCodeGen
from lazyt.fx.graph import Graph
from lazyt.fx.graph_module import _forward_from_src
from lazyt.nn.module import Module
from lazyt.tracing.jit import Captured

__all__ = [
    "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TopLevelTracedModule",
    "TracedModule", "load", "save", "script_function", "script_module", "trace_module",
]  # fmt: skip

_EXPORTED = "_script_exported"


class _Examples:
    """Example arguments by the method, as ``trace`` was given them."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self.inputs = dict(inputs)

    def of(self, method: str) -> tuple[tuple[Any, ...] | None, dict[str, Any]]:
        """Positional arguments, None where there are no examples, and those by name."""
        if method not in self.inputs:
            return None, {}
        given = self.inputs[method]
        if isinstance(given, Mapping):
            return (), dict(given)
        return (tuple(given) if isinstance(given, (tuple, list)) else (given,)), {}


class ScriptModule(Module):
    """A module whose program can be written to a file and run without its class.

    >>> made = lazyt.jit.script(lazyt.nn.Linear(2, 3))
    >>> made.save("layer.pt")
    >>> lazyt.jit.load("layer.pt")(lazyt.ones(1, 2)).shape
    torch.Size([1, 3])
    """

    @property
    def original_name(self) -> str:
        """The name of the class that it stands for."""
        found: str = vars(self).get("_original_name") or type(self).__name__
        return found

    def extra_repr(self) -> str:
        """The name of the class that it stands for."""
        return f"original_name={self.original_name}"

    def _methods(self) -> list[str]:
        """The methods that files hold."""
        return ["forward", *vars(self).get("_exported", ())]

    def _program(self, method: str = "forward") -> Program:
        """The program of a method, in the mode that the module is in."""
        examples = vars(self).get("_examples") or _Examples({})
        args, kwargs = examples.of(method)
        return record(self, args, kwargs, method)

    @property
    def graph(self) -> Graph:
        """The graph of ``forward``: calls of functions of tensors. Raises RecordingError where it
        cannot be recorded."""
        return self._program().graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """``forward`` as Python text. Raises as ``graph`` does."""
        return str(self._program().module.code)

    def save(self, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
        """As ``lazyt.jit.save``."""
        save(self, f, _extra_files)

    def define(self, src: str) -> NoReturn:
        """Raises LazytError: nothing reads TorchScript's text."""
        raise LazytError("lazyt does not read TorchScript; write a method in Python")

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    def __copy__(self) -> ScriptModule:
        made = type(self).__new__(type(self))
        vars(made).update(vars(self))
        return made

    def __getstate__(self) -> NoReturn:
        """Raises PickleError, in PyTorch's words."""
        raise _PickleError(
            "ScriptModules cannot be deepcopied using copy.deepcopy or saved using torch.save. "
            "Mixed serialization of script and non-script modules is not supported. For purely "
            "script modules use my_script_module.save(<filename>) instead."
        )


class _PickleError(LazytError):
    """A script module that something tries to pickle."""


class RecursiveScriptModule(ScriptModule):
    """What ``script`` makes of a module, and what ``load`` gives."""


class TracedModule(ScriptModule):
    """What ``trace`` makes of a module."""


class TopLevelTracedModule(TracedModule):
    """The same, as the one that was given to ``trace``."""


# ------------------------------------------------------------------ modules of this program


def _made(module: Module, kind: type[ScriptModule], memo: dict[int, Module]) -> Module:
    """A module of another class that runs the same code over the same parameters."""
    if isinstance(module, ScriptModule):
        return module
    if id(module) in memo:
        return memo[id(module)]
    derived = _derived(type(module), kind)
    made = memo[id(module)] = derived.__new__(derived)
    own = vars(module).copy()
    for name in ("_parameters", "_buffers"):
        own[name] = type(own[name])(own[name])
    below = TracedModule if issubclass(kind, TracedModule) else RecursiveScriptModule
    own["_modules"] = type(own["_modules"])(
        (name, None if child is None else _made(child, below, memo))
        for name, child in own["_modules"].items()
    )
    own["_original_name"] = module._get_name()
    own["_exported"] = tuple(
        name for name in dir(type(module)) if getattr(getattr(type(module), name), _EXPORTED, False)
    )
    vars(made).update(own)
    return made


_classes: dict[tuple[type, type], type[ScriptModule]] = {}


def _derived(base: type[Module], kind: type[ScriptModule]) -> type[ScriptModule]:
    """The class that has the methods of ``base`` and is a ``kind``."""
    if (base, kind) not in _classes:
        own = {"__module__": base.__module__, "__qualname__": kind.__qualname__, "_scripted": base}
        _classes[base, kind] = type(kind.__name__, (kind, base), own)
    return _classes[base, kind]


def script_module(module: Module) -> Module:
    """The module as a ScriptModule, which shares its parameters and runs its code."""
    return _made(module, RecursiveScriptModule, {})


def trace_module(module: Module, inputs: Mapping[str, Any]) -> Module:
    """The same with example arguments of its methods, by which they are recorded.

    Args:
        inputs: by the name of the method: a tensor, a tuple of positional arguments, or a dict of
            arguments by name.
    """
    made = _made(module, TopLevelTracedModule, {})
    vars(made)["_examples"] = _Examples(inputs)
    vars(made)["_exported"] = tuple(name for name in inputs if name != "forward")
    return made


class ScriptFunction(Captured):
    """A captured function whose program can be written to a file."""

    _unwatched = Captured._unwatched | {"_examples"}
    _examples: _Examples | None = None

    def _program(self) -> Program:
        args, kwargs = (self._examples or _Examples({})).of("forward")
        return record(self, args, kwargs)

    @property
    def graph(self) -> Graph:
        """Its graph: calls of functions of tensors. Raises RecordingError where it cannot be
        recorded."""
        return self._program().graph

    @property
    def code(self) -> str:
        """Its program as Python text. Raises as ``graph`` does."""
        return str(self._program().module.code)

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", ""))

    def save(self, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
        """As ``lazyt.jit.save``."""
        save(self, f, _extra_files)


def script_function(function: Callable[..., Any], inputs: Any = None) -> ScriptFunction:
    """A function as a ScriptFunction.

    Args:
        inputs: example arguments, as in ``trace_module``.
    """
    made = ScriptFunction(function)
    if inputs is not None:
        made._examples = _Examples({"forward": inputs})
    return made


# ------------------------------------------------------------------ files


def save(m: Any, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
    """Writes what ``script`` or ``trace`` gave to a file, which ``load`` reads without its class.

    The programs of a module are recorded in its training and in its evaluating mode; those of one
    that was traced in the mode that it is in.

    Args:
        m: a ScriptModule or ScriptFunction.
        f: a path, or a file to write to.
        _extra_files: other files to put in, by their names, as text or bytes.

    Raises RecordingError where Python decides something by values or shapes and there are no
    example arguments; LazytError for what else a program cannot hold; AttributeError for other
    objects.

    >>> m = lazyt.jit.trace(lambda x: x * 2 + 1, lazyt.ones(3))
    >>> lazyt.jit.save(m, "function.pt")
    >>> lazyt.jit.load("function.pt")(lazyt.ones(2))
    tensor([3., 3.])
    """
    if isinstance(m, ScriptFunction):
        program = m._program()
        text, tensors = files.program_text(program, {}, "forward/any/")
        tree = {"class": m.name, "training": True, "parameters": {}, "buffers": {}, "modules": {}}
        files.write(
            f,
            "script",
            {"tree": tree, "programs": {"forward": {"any": text}}},
            tensors,
            _extra_files,
        )
        return
    if isinstance(m, _Loaded):
        _write(m, m._texts(), f, _extra_files)
        return
    if not isinstance(m, ScriptModule):
        raise AttributeError(f"'{type(m).__name__}' object has no attribute 'save'")
    if files.is_of_layers(m):
        _write(m, ({}, {}), f, _extra_files, {""})
        return
    state = files.state_of(m)
    programs: dict[str, dict[str, Any]] = {}
    tensors = {}
    for method in m._methods():
        for mode, changed in _modes(m):
            prefix = f"{method}/{mode}/"
            text, constants = files.program_text(changed._program(method), state, prefix)
            programs.setdefault(method, {})[mode] = text
            tensors.update(constants)
    _write(m, (programs, tensors), f, _extra_files)


def _modes(m: ScriptModule) -> list[tuple[str, ScriptModule]]:
    if isinstance(m, TracedModule):
        return [("any", m)]
    found = []
    for mode in (True, False):
        changed = copy.deepcopy(m)
        changed.train(mode)
        found.append(("train" if mode else "eval", changed))
    return found


def _write(
    m: Module, programs: tuple[Any, Mapping[str, Any]], f: Any, extra: Any,
    layers: Container[str] = (),
) -> None:  # fmt: skip
    state = {f"state/{path}": value for path, value in files.state_of(m).items()}
    tree = files.tree_of(m, layers or files.layers_of(programs[0]))
    document = {"tree": tree, "programs": programs[0]}
    files.write(f, "script", document, {**state, **programs[1]}, extra)


class _Loaded(RecursiveScriptModule):
    """A module from a file. Each has a class with the functions of its programs as methods, which
    read the weights by their paths, so that it may be moved, cast and trained."""

    _programs: Mapping[str, Mapping[str, Program]] = {}

    def _methods(self) -> list[str]:
        return [*self._programs]

    def _mode(self, method: str) -> str:
        if "any" in self._programs[method]:
            return "any"
        return "train" if self.training else "eval"

    def _program(self, method: str = "forward") -> Program:
        return self._programs[method][self._mode(method)]

    def _texts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its programs and their constants, as a file has them."""
        state = files.state_of(self)
        programs: dict[str, dict[str, Any]] = {}
        tensors: dict[str, Any] = {}
        for method, modes in self._programs.items():
            for mode, program in modes.items():
                text, constants = files.program_text(program, state, f"{method}/{mode}/")
                programs.setdefault(method, {})[mode] = text
                tensors.update(constants)
        return programs, tensors


def _with_programs(made: _Loaded, programs: Mapping[str, Mapping[str, Program]]) -> None:
    """Gives a module the class whose methods are programs."""
    members: dict[str, Any] = {"_programs": programs, "__module__": _Loaded.__module__}
    state = files.state_of(made)
    for method, modes in programs.items():
        for mode, program in modes.items():
            suffix = f"_{method}_{mode}"
            function, own = _function_of(program, state, suffix)
            members[f"_run{suffix}"] = function
            vars(made).update(own)
        members[method] = _method(method, "any" in modes)
    made.__class__ = type("RecursiveScriptModule", (_Loaded,), members)


def _function_of(
    program: Program, state: Mapping[str, Any], suffix: str
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function of a program, and the attributes of the module that it reads besides weights:
    constants, and how arguments and results are nested."""
    graph = copy.deepcopy(program.graph)
    own: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr" and node.target not in state:
            value = getattr(program.module, node.target)
            node.target = f"_constant{suffix}_{node.target}"
            own[node.target] = value
    codegen = program.graph._codegen
    if isinstance(codegen, PyTreeCodeGen):
        graph.set_codegen(PyTreeCodeGen(codegen.pytree_info, suffix))
        own[f"_in_spec{suffix}"] = codegen.pytree_info.in_spec
        own[f"_out_spec{suffix}"] = codegen.pytree_info.out_spec
    code = graph.python_code("self")
    return _forward_from_src(code.src, code.globals), own


def _method(method: str, is_one: bool) -> Callable[..., Any]:
    """A method that runs the program for the mode that the module is in."""
    modes = ("any", "any") if is_one else ("eval", "train")
    evaluating, training = (f"_run_{method}_{mode}" for mode in modes)

    def run(self: _Loaded, *args: Any, **kwargs: Any) -> Any:
        """Runs the program. Raises ConditionError for what it was not recorded for."""
        args = self._program(method).bind(args, kwargs)
        return getattr(self, training if self.training else evaluating)(*args)

    run.__name__ = method
    return run


def load(
    f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Module:  # fmt: skip
    """The module that ``save`` wrote, which needs neither its class nor its function.

    Nothing in the file is run but functions of tensors.

    Args:
        f: a path, or a binary file that can seek.
        map_location: where tensors go, as in ``lazyt.load``.
        _extra_files: names of other files, whose contents take the place of the values.
        _restore_shapes: taken for PyTorch's sake.

    Raises ValueError where there is no such file; CheckpointError for damaged ones, for those of
    TorchScript and other formats, and for programs that call what is no function of tensors.
    """
    if isinstance(f, str) and not files.exists(f):
        raise _MissingFileError(f"The provided filename {f} does not exist")
    document, tensors, extra = files.read(f, ["script"], map_location)
    if _extra_files is not None:
        _extra_files.update({name: extra[name] for name in _extra_files.keys() & extra.keys()})
    title = f if isinstance(f, str) else "the file"
    with files.damage(title):
        tree = document["tree"]
        if "layer" in tree:
            layer = files.layer_of(tree, title)
            files.fill(layer, tree, tensors, _part, title)
            return script_module(layer)
        made = _Loaded()
        vars(made)["_original_name"] = str(tree["class"])
        files.fill(made, tree, tensors, _part, title)
        programs = {
            str(method): {
                str(mode): files.program_of(text, made, tensors, f"{method}/{mode}/", title)
                for mode, text in modes.items()
            }
            for method, modes in document["programs"].items()
        }
    _with_programs(made, programs)
    return made


class _MissingFileError(ValueError, CheckpointError):
    """There is no such file."""


def _part(name: str) -> Module:
    made = RecursiveScriptModule()
    vars(made)["_original_name"] = name
    return made

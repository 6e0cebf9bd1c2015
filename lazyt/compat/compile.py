"""``lazyt.compile``: ``lazyt.jit`` with the arguments of PyTorch's, which are checked.

Of those that choose among PyTorch's compilers only the ones that ask for tuning are obeyed.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
import typing
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from lazyt.errors import LazytError
from lazyt.tracing.jit import Tuned, jit
from lazyt.tracing.jit import wrap_function as wrap

# What programs use of ``torch.jit`` besides calling it: attributes of ``lazyt.jit``.
#
# TorchScript compiles the source of a function; lazyt compiles the graph that running it builds. So
# what ``script`` and ``trace`` give runs as Python (use ``lazyt.jit(model)`` to replay a module),
# and marks for the script compiler change nothing. Files hold programs that are recorded when they
# are written (``lazyt.export``).


F = TypeVar("F")


def _files() -> Any:
    return import_module("lazyt.export.script")


def _is_module(obj: Any) -> bool:
    return hasattr(obj, "forward") and hasattr(obj, "named_parameters")


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """A module as ScriptModule, a function captured as by ``lazyt.jit``; both can be saved.
    Classes and what is captured already stay as they are.

    ``options`` of PyTorch's compiler change nothing. Raises TypeError for what cannot be called.
    """
    if isinstance(obj, type) or hasattr(obj, "why"):
        return obj
    if _is_module(obj):
        return _files().script_module(obj)
    if not callable(obj):
        raise TypeError(f"script() takes a function or a module, not {type(obj).__name__}")
    return _files().script_function(obj)


def trace(
    func: Any, example_inputs: Any = None, *args: Any, example_kwarg_inputs: Any = None,
    **options: Any,
) -> Any:  # fmt: skip
    """As ``script``, with example arguments by which files of the program are recorded.

    Unlike PyTorch's, the result follows Python's control flow; what is saved does not.
    """
    inputs = example_inputs if example_kwarg_inputs is None else example_kwarg_inputs
    if _is_module(func):
        if isinstance(func, _files().ScriptModule):
            return func
        return _files().trace_module(func, {} if inputs is None else {"forward": inputs})
    if isinstance(func, type) or hasattr(func, "why"):
        return func
    method = getattr(func, "__self__", None)
    if _is_module(method) and func.__name__ != "forward":
        return _files().trace_module(method, {func.__name__: inputs})
    return _files().script_function(func, inputs)


def unchanged(obj: F) -> F:
    """A mark for TorchScript's compiler; returns what it marks."""
    return obj


def ignore(drop: Any = False, **options: Any) -> Any:
    """A mark for TorchScript's compiler, with or without arguments."""
    return drop if callable(drop) else unchanged


def export(fn: F) -> F:
    """A mark: files of the module hold this method, too."""
    with contextlib.suppress(AttributeError):  # of what has no attributes
        fn._script_exported = True  # type: ignore[attr-defined]
    return fn


class FreezeError(LazytError):
    """A module that cannot be frozen."""


def freeze(mod: Any, *args: Any, **options: Any) -> Any:
    """A copy of a script module whose parameters require no gradient; constants are found when its
    graph is compiled. Raises FreezeError in training mode, and for other modules."""
    if not isinstance(mod, _files().ScriptModule):
        raise FreezeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise FreezeError(
            "Freezing is currently only implemented for modules in eval mode. Please call "
            ".eval() on your module before freezing."
        )
    made = copy.deepcopy(mod)
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    return made


def optimize_for_inference(mod: Any, *args: Any, **options: Any) -> Any:
    """As ``freeze``, of modules in evaluating mode; others stay as they are."""
    return mod if mod.training else freeze(mod)


def is_scripting() -> bool:
    """False: Python runs the code."""
    return False


class Recordings(threading.local):
    """Whether a program is recorded for a file now, in this thread, and by ``export``."""

    kind = ""

    @contextlib.contextmanager
    def entered(self, kind: str) -> Iterator[None]:
        """Within, a program is recorded.

        Args:
            kind: ``"trace"`` or ``"export"``.
        """
        before, self.kind = self.kind, kind
        try:
            yield
        finally:
            self.kind = before


recordings = Recordings()


def is_tracing() -> bool:
    """Whether a program is recorded now for ``jit.save``, on the example arguments of ``trace``."""
    return recordings.kind == "trace"


def is_exporting() -> bool:
    """Whether ``export`` records a program now."""
    return recordings.kind == "export"


def annotate(the_type: Any, the_value: F) -> F:
    """``the_value``."""
    return the_value


def _isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a class, or of one of a union or tuple of classes."""
    origin = typing.get_origin(target_type)
    return isinstance(obj, target_type if origin in (None, typing.Union) else origin)


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """See ``lazyt.export.script.save``."""
    _files().save(m, f, _extra_files)


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> Any:
    """See ``lazyt.export.script.load``."""
    return _files().load(f, map_location, _extra_files, _restore_shapes)


typing_final = typing.Final


def Attribute(value: F, type: Any) -> F:
    """``value``."""
    return value


def trace_module(mod: Any, inputs: Any, **options: Any) -> Any:
    """``trace`` of several methods, whose example arguments ``inputs`` has by their names."""
    return _files().trace_module(mod, inputs)


def set_nothing(*args: Any, **options: Any) -> None:
    """Does nothing: a switch of TorchScript's compiler."""


class no_fuser(contextlib.ContextDecorator):
    """A context in which nothing is changed: lazyt fuses in any case."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Takes the arguments of PyTorch's."""

    def __enter__(self) -> None:
        """Nothing is changed."""

    def __exit__(self, *error: object) -> None:
        """Nothing was changed."""


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any],
    if_false: Callable[..., Any], module_name: str, func_name: str,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls one of two, by the value of an argument."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__name__, chosen.__module__ = func_name, module_name
    return chosen


ATTRIBUTES: dict[str, Callable[..., Any] | object] = {
    "script": script,
    "trace": trace,
    "trace_module": trace_module,
    "script_if_tracing": unchanged,
    "script_method": unchanged,
    "export": export,
    "unused": unchanged,
    "interface": unchanged,
    "ignore": ignore,
    "freeze": freeze,
    "optimize_for_inference": optimize_for_inference,
    "is_scripting": is_scripting,
    "is_tracing": is_tracing,
    "annotate": annotate,
    "Attribute": Attribute,
    "Final": typing.Final,
    "isinstance": _isinstance,
    "save": save,
    "load": load,
}


def install() -> None:
    """Make ``ATTRIBUTES`` attributes of ``lazyt.jit``."""
    for name, value in ATTRIBUTES.items():
        setattr(jit, name, value)


#: Backends that are taken. All stand for the one that there is.
BACKENDS = ("lazyt", "inductor", "cudagraphs", "eager", "aot_eager")
MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
#: Options that PyTorch documents, with their types.
OPTIONS: dict[str, type] = {
    "epilogue_fusion": bool, "max_autotune": bool, "fallback_random": bool, "shape_padding": bool,
    "triton.cudagraphs": bool, "trace.enabled": bool, "trace.graph_diagram": bool,
    "guard_filter_fn": object,
}  # fmt: skip


class CompileError(LazytError):
    """A backend, mode or option that ``lazyt.compile`` does not know."""


def check(backend: Any, mode: Any, options: Any, dynamic: Any) -> None:
    """Raise CompileError for a backend, a mode or an option that is unknown, and for a mode
    together with options; TypeError for a ``dynamic`` that is neither bool nor None."""
    if not isinstance(backend, str) and not callable(backend):
        raise CompileError(
            f"backend has to be one of {', '.join(BACKENDS)}, or a function, not a "
            f"{type(backend).__name__}"
        )
    if isinstance(backend, str) and backend not in BACKENDS:
        raise CompileError(f"Invalid backend: {backend!r}, available are {', '.join(BACKENDS)}")
    if mode is not None and options is not None:
        raise CompileError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and (not isinstance(mode, str) or mode not in MODES):
        raise CompileError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    for name, value in ({} if options is None else options).items():
        kind = OPTIONS.get(name)
        if kind is None:
            raise CompileError(
                f"Unexpected optimization option {name}, known options are {list(OPTIONS)}"
            )
        if not isinstance(value, kind):
            raise CompileError(
                f"Unexpected type of attr {name}, got {type(value).__name__} should be "
                f"{kind.__name__}"
            )
    if not (dynamic is None or isinstance(dynamic, bool)):
        raise TypeError(f"dynamic has to be True, False or None, not {dynamic!r}")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "lazyt",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """``lazyt.jit`` under the name and with the arguments of ``torch.compile``.

    Args:
        model: a function or a module; without it, a decorator is returned.
        fullgraph: raise CaptureError where it cannot be captured, see ``lazyt.jit``.
        dynamic: True, False or None; no effect: shapes are captured one by one, and numbers that
            change are followed.
        backend: "lazyt", "inductor", "cudagraphs", "eager" or "aot_eager"; no effect: there is one
            compiler, and a replay gives the values of the function itself. Or a function that is
            given a ``lazyt.fx.GraphModule`` and its tensors, and returns what runs in its place: a
            call traces the program, and asks it for graphs that are new.
        mode: None, "default", "lite" or "reduce-overhead", which have no effect: every replay is
            one call of a plan; "max-autotune" or "max-autotune-no-cudagraphs": plans are tuned when
            they first run, for at most ``config.tune_seconds`` each, see ``lazyt.tune``.
        options: the options that PyTorch documents, by name; ``{"max_autotune": True}`` tunes, the
            others have no effect.
        disable: return ``model`` as it is.

    Raises LazytError (a RuntimeError) for other backends, modes and options, and for a mode with
    options; TypeError for another ``dynamic``, and for a ``model`` that cannot be called.
    """
    check(backend, mode, options, dynamic)
    tuned = (mode or "").startswith("max-autotune") or bool((options or {}).get("max_autotune"))
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, backend=backend, mode=mode, options=options,
            disable=disable,
        )  # fmt: skip
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile() takes a function or a module, not {type(model).__name__}")
    if not isinstance(backend, str):
        return import_module("lazyt.subclasses.backends").with_backend(model, backend, fullgraph)
    return wrap(model, Tuned(model, fullgraph)) if tuned else jit(model, fullgraph=fullgraph)

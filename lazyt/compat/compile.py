"""``lazyt.compile``: ``lazyt.jit`` with the arguments of PyTorch's, which are checked.

Of those that choose among PyTorch's compilers only the ones that ask for tuning are obeyed.
"""

from __future__ import annotations

import contextlib
import functools
import typing
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from lazyt.errors import LazytError
from lazyt.tracing.jit import Tuned, jit
from lazyt.tracing.jit import wrap_function as wrap

# What programs use of ``torch.jit`` besides calling it: attributes of ``lazyt.jit``.
#
# TorchScript compiles the source of a function; lazyt compiles the graph that running it builds. So
# ``script`` and ``trace`` of a function are ``lazyt.jit`` of it, modules stay what they are (use
# ``lazyt.jit(model)`` to replay them), and marks for the script compiler change nothing.


F = TypeVar("F")


def script(obj: Any, **options: Any) -> Any:
    """``lazyt.jit(obj)`` for a function; modules, classes and captured functions as they are.

    ``options`` of PyTorch's compiler change nothing. Raises TypeError for what cannot be called.
    """
    if isinstance(obj, type) or hasattr(obj, "forward") or hasattr(obj, "why"):
        return obj
    return jit(obj)


def trace(func: Any, example_inputs: Any = None, **options: Any) -> Any:
    """As ``script``: a function is captured when it is called, not with ``example_inputs``.

    Unlike PyTorch's, the result follows Python's control flow: other inputs are captured again.
    """
    return script(func)


def unchanged(obj: F) -> F:
    """A mark for TorchScript's compiler; returns what it marks."""
    return obj


def ignore(drop: Any = False, **options: Any) -> Any:
    """A mark for TorchScript's compiler, with or without arguments."""
    return drop if callable(drop) else unchanged


def freeze(mod: F, *args: Any, **options: Any) -> F:
    """The module as it is: constants are found when its graph is compiled."""
    return mod


def is_scripting() -> bool:
    """False: Python runs the code."""
    return False


def annotate(the_type: Any, the_value: F) -> F:
    """``the_value``."""
    return the_value


def _isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a class, or of one of a union or tuple of classes."""
    origin = typing.get_origin(target_type)
    return isinstance(obj, target_type if origin in (None, typing.Union) else origin)


def _files(*args: Any, **options: Any) -> NoReturn:
    """Raises LazytError: there are no files of TorchScript."""
    raise LazytError(
        "lazyt has no TorchScript files; save lazyt.save(model.state_dict(), path) and load it "
        "with model.load_state_dict(lazyt.load(path))"
    )


typing_final = typing.Final


def Attribute(value: F, type: Any) -> F:
    """``value``."""
    return value


def trace_module(mod: F, inputs: Any, **options: Any) -> F:
    """The module as it is: it is captured when it is called by ``lazyt.jit``."""
    return mod


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
    "script_if_tracing": unchanged,
    "script_method": unchanged,
    "export": unchanged,
    "unused": unchanged,
    "interface": unchanged,
    "ignore": ignore,
    "freeze": freeze,
    "optimize_for_inference": freeze,
    "is_scripting": is_scripting,
    "is_tracing": is_scripting,
    "annotate": annotate,
    "Attribute": Attribute,
    "Final": typing.Final,
    "isinstance": _isinstance,
    "save": _files,
    "load": _files,
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
    if not isinstance(backend, str):
        raise CompileError(
            f"backend has to be one of {', '.join(BACKENDS)}, not a {type(backend).__name__}: "
            "there are no FX graphs that a backend of one's own could take"
        )
    if backend not in BACKENDS:
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
            compiler, and a replay gives the values of the function itself.
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
            compile, fullgraph=fullgraph, mode=mode, options=options, disable=disable
        )
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile() takes a function or a module, not {type(model).__name__}")
    return wrap(model, Tuned(model, fullgraph)) if tuned else jit(model, fullgraph=fullgraph)

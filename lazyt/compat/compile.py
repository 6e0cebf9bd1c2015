"""``lazyt.compile``: ``lazyt.jit`` with the arguments of PyTorch's, which are checked.

Of those that choose among PyTorch's compilers only the ones that ask for tuning are obeyed.
"""

from __future__ import annotations

import functools
from typing import Any

from lazyt.config import tuned_here
from lazyt.errors import LazytError
from lazyt.handle.pytree import Flat
from lazyt.handle.tensor import Tensor
from lazyt.tracing.jit import Captured, jit
from lazyt.tracing.jit import wrap_function as wrap

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


class Tuned(Captured):
    """A captured function whose plans are tuned when they first run."""

    def _call(self, args: Any, kwargs: Any) -> Any:
        token = tuned_here.set(True)
        try:
            result = super()._call(args, kwargs)
            leaves: list[Any] = []
            leaves.extend(Flat(result).leaves)
            for leaf in leaves:
                if isinstance(leaf, Tensor):
                    leaf.realize()  # later its plan would not be tuned
        finally:
            tuned_here.reset(token)
        return result


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

"""The arguments of ``lazyt.compile`` that choose among PyTorch's compilers: checked, not obeyed."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError

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

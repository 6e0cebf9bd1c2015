"""Whether a Python submission computes by itself, or lets the framework's own operations do so.

Runs in the submission's process. In lazyt, every new node of the graph is looked at; in PyTorch,
every operator that is dispatched. What only moves, allocates or converts is allowed, and so are
kernels of one's own. The rest ends the call, with the operation and the submission's line.

This module is loaded by its path, where lazyt need not be importable; it imports nothing of it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import linecache
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
#: Rooms of lazyt that make nodes on their own account, from graphs that were looked at before.
_ENGINE = tuple(_PACKAGE + room + os.sep for room in ("codegen", "passes", "plan", "runtime"))
#: Ops of lazyt beside movements and leaves that compute nothing; ``custom`` is a user's kernel.
_ALLOWED_OPS = frozenset(
    ("custom", "pad", "concat", "update", "variable", "detach", "put", "transfer")
)
#: Operators of PyTorch that view, allocate, fill, copy, convert or join.
_VIEWS_AND_COPIES = """
    view _unsafe_view view_as reshape _reshape_alias as_strided permute transpose t swapaxes
    movedim expand expand_as broadcast_to slice select narrow split split_with_sizes
    chunk unbind unsqueeze squeeze flatten unflatten ravel diagonal unfold view_as_real
    view_as_complex alias detach lift lift_fresh contiguous clone copy_ copy _to_copy to
    resolve_conj resolve_neg _conj conj _neg_view cat concat stack hstack vstack constant_pad_nd
    pad flip roll repeat tile rot90 pixel_shuffle pixel_unshuffle slice_scatter
    select_scatter as_strided_scatter diagonal_scatter
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like
    new_zeros ones ones_like new_ones full full_like new_full zero_ fill_ arange scalar_tensor
    eye resize_ resize_as_ set_ _local_scalar_dense item is_pinned pin_memory _pin_memory
    is_same_size sym_size sym_stride sym_numel sym_storage_offset record_stream size stride
    is_contiguous numel dim is_floating_point is_complex result_type promote_types
    _assert_async _has_compatible_shallow_copy_type _efficientzerotensor
    requires_grad_ detach_ type_as float double half long int bool _shape_as_tensor
    """
_ALLOWED_ATEN = frozenset(_VIEWS_AND_COPIES.split())


class Fallback(BaseException):
    """Ends a call that lets the framework compute; nothing that catches exceptions takes it."""


class Watch(ABC):
    """Looks at what the framework does during calls.

    Args:
        file: the submission's file.

    Attributes:
        found: evidence of the first operation that is not allowed, or ``""``.
        replaced: what of the framework the submission put something else in the place of.
    """

    def __init__(self, file: str) -> None:
        self.file, self.found, self.replaced = file, "", ""
        self.active = False

    @contextlib.contextmanager
    def calls(self) -> Iterator[None]:
        """A block in which operations count."""
        self.active = True
        try:
            with self._entered():
                yield
        finally:
            self.active = False
            self.replaced = self.replaced or self._undone()

    @abstractmethod
    def _entered(self) -> contextlib.AbstractContextManager[Any]:
        """What has to be entered by a thread that is looked at."""

    @abstractmethod
    def _undone(self) -> str:
        """What no longer looks, or ``""``."""

    def refuse(self, what: str, frame: FrameType | None) -> None:
        """Notes an operation that is not allowed, and ends the call."""
        self.found = self.found or f"{self._line(frame)}it computes by {what}"
        raise Fallback(self.found)

    def _line(self, frame: FrameType | None) -> str:
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                text = linecache.getline(self.file, frame.f_lineno).strip()
                return f"line {frame.f_lineno}, `{text}`: "
            frame = frame.f_back
        return ""


class LazytWatch(Watch):
    """Looks at each new node of lazyt's graph."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.graph: Any = importlib.import_module("lazyt.ir.graph")
        self._make_new = _around(self.graph._make_new, self._look)
        self._make_pair = _around(self.graph.make_pair, self._look)
        vars(self.graph)["_make_new"] = self._make_new
        self._pairs = []
        before = self._make_pair.__wrapped__  # type: ignore[attr-defined]
        for module in list(sys.modules.values()):
            if getattr(module, "make_pair", None) is before:
                module.make_pair = self._make_pair  # type: ignore[attr-defined]
                self._pairs.append(module)

    def _look(self, head: Any) -> None:
        op = head.op
        if not self.active or op.is_movement or op.leaf or op.name in _ALLOWED_OPS:
            return
        if not op.home.startswith("lazyt."):
            return  # an op of the submission's own
        what = op.name
        if what == "map":
            if not (computed := _framework_functions(head.params)):
                return
            what = computed[0]
        elif kind := getattr(head.params, "kind", "") or getattr(head.params, "routine", ""):
            what = f"{what} ({kind})"
        frame: FrameType | None = sys._getframe(2)
        inner = frame
        while inner is not None and inner.f_code.co_filename != self.file:
            if inner.f_code.co_filename.startswith(_ENGINE):
                return
            inner = inner.f_back
        self.refuse(f"lazyt's own operation {what}", frame)

    def _entered(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def _undone(self) -> str:
        if self.graph._make_new is not self._make_new:
            return "lazyt.ir.graph._make_new"
        for module in self._pairs:
            if module.make_pair is not self._make_pair:
                return f"{module.__name__}.make_pair"
        return ""


def _around(function: Callable[..., Any], look: Callable[[Any], None]) -> Callable[..., Any]:
    """``function``, whose first argument ``look`` sees before."""

    @functools.wraps(function)
    def looked_at(head: Any, *given: Any) -> Any:
        look(head)
        return function(head, *given)

    return looked_at


def _framework_functions(expr: Any) -> list[str]:
    """The functions of an expression, outermost first, that lazyt defines, except conversions."""
    found, left = [], [expr]
    while left:
        one = left.pop()
        if (fn := getattr(one, "fn", None)) is not None:
            if fn.name != "cast" and not fn.c_text:
                found.append(fn.name)
            left += one.args
    return found


class TorchWatch(Watch):
    """Looks at each operator that PyTorch dispatches, in every thread of Python's.

    Operators of other libraries are allowed if what they call is: a profiler sees it.
    """

    def __init__(self, file: str, torch: Any) -> None:
        super().__init__(file)
        watch = self
        dispatch: Any = importlib.import_module("torch.utils._python_dispatch")

        class Mode(dispatch.TorchDispatchMode):  # type: ignore[misc]
            """Looks at an operator before it runs."""

            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                return watch._look(func, args, kwargs or {})

        self._mode, self._profiler = Mode, torch.profiler
        begin = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

        def begun(thread: threading.Thread) -> None:
            with Mode():
                begin(thread)

        self._begun = begun
        threading.Thread._bootstrap_inner = begun  # type: ignore[attr-defined]

    def _look(self, func: Any, args: Any, kwargs: Any) -> Any:
        library, _, rest = func._schema.name.partition("::")
        if not self.active:
            return func(*args, **kwargs)
        if library in ("aten", "prims", "prim"):
            if rest not in _ALLOWED_ATEN:
                self.refuse(f"PyTorch's own operation {library}::{rest}", sys._getframe(2))
            return func(*args, **kwargs)
        profiler = self._profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as seen:
            result = func(*args, **kwargs)
        for event in seen.events():
            inside, _, name = event.name.partition("::")
            if inside in ("aten", "prims") and name not in _ALLOWED_ATEN:
                what = f"PyTorch's own operation {event.name}, inside of {func._schema.name}"
                self.refuse(what, sys._getframe(2))
        return result

    def _entered(self) -> contextlib.AbstractContextManager[Any]:
        mode: contextlib.AbstractContextManager[Any] = self._mode()
        return mode

    def _undone(self) -> str:
        if threading.Thread._bootstrap_inner is not self._begun:  # type: ignore[attr-defined]
            return "threading.Thread._bootstrap_inner"
        return ""


def watch(module: str, torch: Any, file: str) -> Watch:
    """Looks at a submission from now on.

    Args:
        module: ``lazyt`` or ``torch``.
        torch: that framework.
        file: the submission's file.
    """
    return LazytWatch(file) if module == "lazyt" else TorchWatch(file, torch)

"""What the nodes that are made now should have in their ``meta``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from threading import local
from typing import Any

__all__ = [
    "annotate", "current_meta", "format_stack", "get_current_meta", "has_preserved_node_meta",
    "preserve_node_meta", "set_current_meta", "set_stack_trace",
]  # fmt: skip


class _State(local):
    """What a thread has noted, and whether it is used.

    Attributes:
        meta: becomes part of the ``meta`` of new nodes.
        preserved: whether it does.
    """

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.preserved = False


_state = _State()


def current_meta() -> dict[str, Any] | None:
    """What becomes part of the ``meta`` of new nodes; None outside of ``preserve_node_meta``."""
    return dict(_state.meta) if _state.preserved else None


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """While it is entered, nodes that are made while an ``Interpreter`` runs another node have the
    notes of that one in their ``meta``.

    >>> with lazyt.fx.traceback.preserve_node_meta():
    ...     lazyt.fx.traceback.has_preserved_node_meta()
    True
    """
    before, notes = _state.preserved, dict(_state.meta)
    _state.preserved = enable
    try:
        yield
    finally:
        _state.preserved = before
        _state.meta = notes


def has_preserved_node_meta() -> bool:
    """Whether ``preserve_node_meta`` is entered."""
    return _state.preserved


def get_current_meta() -> dict[str, Any]:
    """What becomes part of the ``meta`` of new nodes."""
    return _state.meta


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Have nodes that are made while it is entered take over the ``meta`` of ``node``, where
    ``preserve_node_meta`` is entered."""
    if not (_state.preserved and node.meta):
        yield
        return
    before = _state.meta
    _state.meta = dict(node.meta)
    try:
        yield
    finally:
        _state.meta = before


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Add to what new nodes have in ``meta["custom"]`` while it is entered."""
    before = _state.meta
    custom = {**before.get("custom", {}), **annotation_dict}
    _state.meta = {**before, "custom": custom}
    try:
        yield
    finally:
        _state.meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Have new nodes say that the program made their calls at ``stack``, lines of text."""
    if _state.preserved and stack:
        _state.meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """Where the program made the call of the node that runs, as lines of text."""
    trace = _state.meta.get("stack_trace")
    return [trace] if _state.preserved and trace else []

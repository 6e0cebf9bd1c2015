"""Calls of Python between plans: how they run alone, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.ir.graph import Node, Source, source_text
from lazyt.ops.control.python_calls import PythonCall, runners
from lazyt.runtime.interpreter import load, store
from lazyt.runtime.memory import Buffer


def called(node: Node, *arrays: Any) -> Any:
    """A call by itself, for the interpreter."""
    buffers = []
    for item, array in zip(node.inputs, arrays, strict=True):
        buffer = Buffer(item.nbytes)
        buffer.as_numpy(item.dtype, item.shape)[...] = store(array, item.dtype)
        buffers.append(buffer)
    found = node.params.call.function(buffers)[node.params.result]
    return load(found.as_numpy(node.dtype, node.shape), node.dtype)


def note(call: PythonCall, operands: Sequence[Node], source: Source | None) -> dict[str, Any]:
    """What a plan's notes say about a kernel, about a call."""
    given = ", ".join(f"{item.dtype.name}{list(item.shape)}" for item in operands)
    made = ", ".join(f"{dtype.name}{list(shape)}" for shape, dtype in call.types)
    return {
        "name": call.name,
        "kind": "python",
        "computes": [f"Python {call.name}({given}) -> {made}"],
        "bytes_read": sum(item.nbytes for item in operands),
        "bytes_written": sum(_nbytes(type_) for type_ in call.types),
        "flops": 0,
        "scratch": 0,
        "phases": 1,
        "reasons": [
            "the body of a custom operator, which looks at values: it runs between compiled kernels"
        ],
        "sources": [] if source is None else [source_text(source)],
    }


def _nbytes(type_: Any) -> int:
    size = 1
    for extent in type_.shape:
        size *= extent
    return size * int(type_.dtype.itemsize)


runners.append(called)
__all__ = ["called", "note"]

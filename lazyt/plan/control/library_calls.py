"""Calls of matrix routines between plans: how they run, and what is said of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.config import config
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node, make, source_text
from lazyt.ops.routines import ROUTINES, refuse_library
from lazyt.runtime import events
from lazyt.runtime.interpreter import load, store
from lazyt.runtime.memory import Buffer


class LibraryCall:
    """A call in a captured function, made again and again for operands of the same types.

    Attributes:
        fact: what the plan's notes say of it.
        ready: None: nothing is there before the first call.
    """

    ready: list[Buffer] | None = None

    def __init__(self, call: Node) -> None:
        self.fact = note(call)
        # Leaves that hold on to none of the captured call's values.
        leaves = tuple([ops.input_(item.shape, item.dtype) for item in call.inputs])
        self._call = make(call.op, leaves, call.params)

    def function(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """The result for these operands. Raises ReproducibilityError for ``config.exact``."""
        call = self._call
        if config.exact and call.size:
            refuse_library(call.params.routine, call.inputs)
        begin = time.monotonic()
        arrays = [
            load(buffer.as_numpy(item.dtype, item.shape), item.dtype)
            for buffer, item in zip(buffers, call.inputs, strict=True)
        ]
        result = Buffer(call.nbytes)
        found = store(call.op.evaluate(call, *arrays), call.dtype)
        result.as_numpy(call.dtype, call.shape)[...] = found
        for timings in events.watching:
            timings.append(events.Timing(self.fact, begin, time.monotonic()))
        return [result]


def note(call: Node) -> dict[str, Any]:
    """What a plan's notes say about a kernel, about a call."""
    routine, mode = call.params
    rows, columns = call.inputs[0].shape[-2:]
    count = call.inputs[0].size * min(rows, columns)
    reasons = ["a call of NumPy's matrix routines: not compiled, nothing is fused into it"]
    if call.form < PLACED:
        reasons.append(
            f"it runs on the host: operands come from {place_of(call.form)}, and go back"
        )
    variant = "" if mode == "plain" else f", {mode}"
    return {
        "name": routine,
        "kind": "library",
        "computes": [f"library {routine}{variant} {call.dtype.name}{list(call.shape)}"],
        "bytes_read": sum(item.nbytes for item in call.inputs),
        "bytes_written": call.nbytes,
        "flops": ROUTINES[routine].cost * count,
        "scratch": 0,
        "phases": 1,
        "reasons": reasons,
        "sources": [] if call.source is None else [source_text(call.source)],
    }


__all__ = ["LibraryCall", "note"]

"""Which axis of a reduction the lanes go along, and that it changes no bit."""

from __future__ import annotations

import re

from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import float32


def test_lanes_follow_memory_not_what_is_the_same_at_every_step() -> None:
    """A variance over all but the channels: its mean is contiguous along the channels, but read
    once for each; lanes along the channels would gather."""
    x = ops.input_((4, 64, 40, 40), float32)
    mean = ops.input_((1, 64, 1, 1), float32)
    gap = ops.apply("sub", x, ops.expand(mean, x.shape))
    total = ops.reduce_("sum", ops.apply("mul", gap, gap), (0, 2, 3))
    program, _ = compile_graph([total], [x, mean])
    (kernel,) = program.kernels
    sums = [line for line in kernel.text.splitlines() if re.search(r"r0_a0\[.*\+ v", line)]
    assert sums
    assert not any("[u]" in line for line in sums)

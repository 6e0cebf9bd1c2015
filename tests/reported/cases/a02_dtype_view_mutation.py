"""Programs after reports.

pytorch/pytorch#198101: what reads a dtype view of an input must read it before a later write
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(x):
        y = x.view(torch.int32) * 2
        y.sub_(-4)
        x[:, 2:5] = 2
        return y.view(torch.int64)

    def g(x):
        y = x.view(torch.int32)
        z = y + 1
        x.mul_(3)
        y[:, ::2] = 7
        return z, y, x.view(torch.uint8)

    def h(x):
        bits = x.view(torch.int16)
        sign = bits.bitwise_and(-32768)
        x.abs_()
        bits.bitwise_or_(sign)
        return x, bits >> 3

    def k(x):
        b = x.view(torch.uint8)
        first = b[..., 0::4].clone()
        x.add_(1)
        return first, b[..., 3::4], b.sum()

    mk = lambda i: [torch.arange(-12 + i, 12 + i, dtype=torch.int64).reshape(4, 6)]
    log.jit("i64-i32", f, mk)
    log.jit("i64-views", g, mk)
    log.jit(
        "i64-sliced", f, lambda i: [torch.arange(-24, 24, dtype=torch.int64).reshape(8, 6)[::2]]
    )
    log.jit("half-bits", h, lambda i: [T(torch, rnd(i, 5, 8), "float16")])
    log.jit("bf16-bits", h, lambda i: [T(torch, rnd(i, 5, 8), "bfloat16")])
    log.jit("float-bytes", k, lambda i: [T(torch, rnd(i, 5, 8))])
    log.run("bad", lambda: torch.zeros(3, 5).view(torch.int64))
    log.run("bad-stride", lambda: torch.zeros(4, 4).t().view(torch.int64))
    log.run("zero-dim", lambda: torch.tensor(1.5).view(torch.int32))
    log.run("zero-dim-bad", lambda: torch.tensor(1.5).view(torch.int64))
    return log.items

"""Programs after reports.

pytorch/pytorch#198131: dst[:] = src[:]; src.add_(1) must copy the old values
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(dst, src):
        dst[0:, :] = src[0:, :]
        src.add_(1)
        return src

    def g(dst, src):
        dst.copy_(src.expand_as(dst))
        src.zero_()
        return dst * 1

    def h(dst, src):
        keep = src.contiguous()
        also = src.reshape(-1)
        old = src.clone()
        src[::2] = -1
        dst.add_(keep)
        return also + old.reshape(-1)

    def k(dst, src):
        parts = src.chunk(2, 0)
        dst[:1] = parts[0][:1]
        parts[0].neg_()
        dst[1:2] = parts[1][:1]
        parts[1].neg_()
        return torch.cat(parts) + 0

    def swap(a, b):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)
        a[0], b[0] = b[0].clone(), a[0].clone()
        a[1:], b[1:] = b[1:], a[1:]  # no clones: the second gets what the first wrote

    mk = lambda i: [torch.zeros(3, 4), torch.arange(12.0).view(3, 4) + i]
    for n, fn in (("slice", f), ("contiguous", h), ("swap", swap)):
        log.jit(n, fn, mk)
        log.jit(n + "-t", fn, lambda i: [torch.zeros(4, 3).t(), torch.arange(12.0).view(4, 3).t()])
        log.jit(
            n + "-wide",
            fn,
            lambda i: (
                [torch.zeros(3, 4, dtype=torch.float64), torch.arange(12).view(3, 4)]
                if n != "swap"
                else mk(i)
            ),
        )
    log.jit("expand", g, lambda i: [torch.zeros(3, 4), torch.arange(4.0) + i])
    log.jit("chunks", k, lambda i: [torch.zeros(2, 4), torch.arange(16.0).view(4, 4) + i])
    return log.items

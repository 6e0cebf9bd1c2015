"""Programs after reports.

pytorch/pytorch#195665 #192219 #197431: as_strided past the storage must raise, also of pending
tensors
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def full(x):
        v = torch.full([1, 2], 1.0)
        return torch.cumsum(torch.as_strided(v, (8, 8, 3), (1, 8, 16)), 1)

    def rep(x):
        r = x.repeat((3, 2))
        return torch.as_strided(r[:, ::2], (3, 2), r.stride())

    def rep2(x):
        r = x.repeat((3, 2))
        return torch.as_strided(r[:, 1:], (3, 1), (2, 1)), torch.as_strided(
            r[:, 1:], (3, 1), (2, 1), 0
        )

    def off(x):
        return torch.as_strided(x[1:], (2,), (1,), 100)

    def neg(x):
        return torch.as_strided(x, (2,), (-1,))

    def ok(x):
        y = x * 2
        s = torch.as_strided(y, (3, 3), (1, 2), 1)
        y.add_(1)
        return s, s.sum(0), torch.as_strided(s, (2, 2), (3, 1), 2)

    def inpl(x):
        y = (x * 2).reshape(-1)
        torch.as_strided(y, (4,), (3,), 1).mul_(10)
        return y

    log.jit("full", full, lambda i: [torch.randn(4, 1)], state=False)
    log.jit("repeat", rep, lambda i: [torch.ones(1, 1) + i])
    log.jit("repeat2", rep2, lambda i: [torch.ones(1, 1) + i])
    log.jit("offset", off, lambda i: [torch.arange(6.0)])
    log.jit("negative", neg, lambda i: [torch.arange(6.0)])
    log.jit("ok", ok, lambda i: [torch.arange(12.0).reshape(3, 4) + i])
    log.jit("inplace", inpl, lambda i: [torch.arange(12.0).reshape(3, 4) + i])
    log.run("set-shape", lambda: torch.arange(6.0).as_strided_((3, 3), (2, 1)))
    log.run("resize", lambda: torch.arange(6.0).resize_(2, 2))
    log.run("empty", lambda: torch.arange(0.0).as_strided((0, 3), (3, 1)))
    log.run("empty-oob", lambda: torch.arange(3.0).as_strided((0, 3), (3, 1), 50))
    return log.items

"""Programs after reports.

pytorch/pytorch PR 184543 / #195329: writes through a flat view by index, two views of one
buffer
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(buf, v, i):
        flat = buf.view(-1)
        flat[i] = v
        return buf

    def g(buf, v, i):
        flat = buf.view(-1)
        left, right = buf[:, :3], buf[:, 3:]
        left.mul_(2)
        flat[i] = v
        right.sub_(1)
        return left, buf.t(), flat[::2]

    def h(buf, v, i):
        flat = buf.flatten()
        flat.index_put_((i,), v, accumulate=True)
        buf.view(-1).index_add_(0, i, v)
        return buf

    for dt in ("uint8", "float32", "bool", "bfloat16", "int16"):
        mk = lambda k: [
            T(torch, rnd(k, 8, 6, dtype="uint8"), dt),
            T(torch, rnd(9 + k, 5, dtype="uint8"), dt),
            T(torch, np.array([0, 7 + k, 47, 13, 7 + k])),
        ]
        if dt != "bool":
            log.jit(f"two-{dt}", g, mk)
            log.jit(f"acc-{dt}", h, mk)
        uniq = lambda k: [
            T(torch, rnd(k, 8, 6, dtype="uint8"), dt),
            T(torch, rnd(9 + k, 5, dtype="uint8"), dt),
            T(torch, np.array([0, 8 + k, 47, 13, 5])),
        ]
        log.jit(f"put-{dt}", f, uniq)
    log.jit("expanded-view-fails", lambda b: b.t().view(-1), lambda k: [torch.zeros(3, 4)], calls=1)
    return log.items

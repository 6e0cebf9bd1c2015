"""Programs after reports.

pytorch/pytorch#138908: y[x] += y[x] doubled twice once compiled
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(y, i):
        i = i + 3
        y[i] += y[i]

    def g(y, i):
        i = i + 3
        y[i] = y[i] * 2 - y[i.flip(-1)]
        return y.sum(0)

    def h(y, i):
        i = i + 3
        y[:, i] -= 0.5 * y[:, i]
        y[:, i[:1]] += y[:, i[-1:]]
        return y + 0

    idx = [
        np.array([[-3, -2]]),
        np.array([[0, 1]]),
        np.array([[2, 2]]),
        np.array([[-1, -3]]),
        np.array([[1, 0]]),
    ]
    for dt in ("float32", "float64", "int64", "bfloat16"):
        log.jit(f"add-{dt}", f, lambda i: [T(torch, rnd(i, 6, 32) * 5, dt), T(torch, idx[i])])
    log.jit("mix", g, lambda i: [T(torch, rnd(i, 6, 5)), T(torch, idx[i])])
    log.jit("transposed", f, lambda i: [T(torch, rnd(i, 5, 6)).t(), T(torch, idx[i])])
    log.jit("sliced", f, lambda i: [T(torch, rnd(i, 12, 9))[::2, 1::3], T(torch, idx[i])])
    log.jit("columns", h, lambda i: [T(torch, rnd(i, 4, 7)), T(torch, idx[i])[0]])

    def m(y, t):
        mask = t > 0
        y[mask] += y[mask]
        y[~mask] -= 1
        return y.sum()

    log.jit("mask", m, lambda i: [T(torch, rnd(i, 4, 7)), T(torch, rnd(50 + i, 4, 7))])
    return log.items

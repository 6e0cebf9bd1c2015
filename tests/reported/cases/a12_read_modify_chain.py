"""Programs after reports.

pytorch/pytorch#94693 #96064: writes whose sources read the same memory, unrolled; tinygrad PR
11246 (setitem loops)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional

    def cuts(x):
        y = F.pad(x[2:11] * 2, (3, 1), value=-1.0)
        z = torch.where(torch.arange(13) >= 5, y, x[:13])
        x[1:14] = z
        x[20:40] += x[0:20]
        x[5:25].copy_(x[10:30].clone().flip(0))
        return x, z

    def loop(x):
        for i in range(3):
            x[i + 1] = x[i] + x[i + 1] * 0.5
            x[:, i] = x[:, i + 1] - x[i]
        return x

    def fib(x):
        for i in range(2, x.shape[0]):
            x[i] = x[i - 1] + x[i - 2]
        return x

    def arange(x):
        for i in range(x.shape[0]):
            x[i] = i
        return x.flip(0)

    def prefix(x):
        for i in range(1, x.shape[0]):
            x[i:] += x[i - 1]
        return x * 2

    def dp(c):
        n, m = c.shape
        d = torch.full((n + 1, m + 1), 99.0)
        d[0, 0] = 0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                d[i, j] = c[i - 1, j - 1] + torch.min(
                    torch.min(d[i - 1, j], d[i, j - 1]), d[i - 1, j - 1]
                )
        return d

    def jacobi(u):
        for _ in range(6):
            u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
        return u

    def gauss(u):
        for _ in range(3):
            u[1:-1:2] = (u[:-2:2] + u[2::2]) / 2
            u[2:-1:2] = (u[1:-2:2] + u[3::2]) / 2
        return u

    def tri(a):
        n = a.shape[0]
        for i in range(n):
            a[i] = a[i] / a[i, i]
            for j in range(i + 1, n):
                a[j] = a[j] - a[j, i] * a[i]
        return a

    def roll(h):
        for t in range(5):
            h[:-1] = h[1:].clone()
            h[-1] = t
        return h

    log.jit("cuts", cuts, lambda i: [T(torch, rnd(i, 64))])
    log.jit("loop", loop, lambda i: [T(torch, rnd(i, 5, 5))])
    log.jit("fib", fib, lambda i: [torch.ones(12, dtype=torch.int64) + i])
    log.jit("fib-2d", fib, lambda i: [T(torch, rnd(i, 9, 4))])
    log.jit("arange", arange, lambda i: [torch.empty(10)])
    log.jit("prefix", prefix, lambda i: [T(torch, rnd(i, 9))], rtol=1e-4)
    log.jit("dp", dp, lambda i: [T(torch, np.abs(rnd(i, 5, 6)))])
    log.jit("jacobi", jacobi, lambda i: [T(torch, rnd(i, 9, 11))])
    log.jit("gauss", gauss, lambda i: [T(torch, rnd(i, 13))])
    log.jit("gauss-even", gauss, lambda i: [T(torch, rnd(i, 13, 3))[:, 1]])
    log.jit("tri", tri, lambda i: [T(torch, rnd(i, 5, 7, dtype="float64"))], rtol=1e-6)
    log.jit("roll", roll, lambda i: [T(torch, rnd(i, 4, 3))])
    return log.items

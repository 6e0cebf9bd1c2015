"""Programs after reports.

pytorch/pytorch#132107 #139641 #180221 #183250 #172062, tinygrad/tinygrad#4999: running sums and
products with infinities, biases, zeros, long rows
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    inf, nan = float("inf"), float("nan")
    for n in (1, 2, 31, 32, 33, 64, 129, 1000, 4097):
        x = torch.full((n,), inf)
        log.run(
            f"inf-{n}",
            lambda: [
                x.cumsum(0),
                x.cumsum(0).sum(),
                (x * -1).cumsum(0),
                x.cumprod(0),
                x.logcumsumexp(0),
                (-x).logcumsumexp(0),
                torch.full((n,), 1e38).cumsum(0),
                torch.full((n,), 1e300, dtype=torch.float64).cumsum(0),
            ],
        )
        y = torch.ones(n)
        y[n // 2] = inf
        y[-1] = -inf
        log.run(
            f"mix-{n}",
            lambda: [
                y.cumsum(0),
                y.cumprod(0),
                y.logcumsumexp(0),
                y.cummax(0),
                y.cummin(0),
                y.flip(0).cumsum(0),
            ],
        )
    log.jit(
        "bias",
        lambda x, b: [
            torch.cumsum(x + b, 1),
            torch.cumprod(x * 0.1 + b * 0.1 + 1, 1),
            torch.logcumsumexp(x + b, 1),
            torch.cumsum(x + b, 2),
            torch.cummax(x + b, 1),
        ],
        lambda i: [T(torch, rnd(i, 1, 129, 16)), T(torch, rnd(i, 16))],
        calls=3,
        rtol=1e-4,
    )
    log.jit(
        "turned",
        lambda x: [
            x.t().cumsum(0),
            x.t().cumsum(1),
            x[::2].cumsum(0),
            x.expand(3, 40, 33).cumsum(0),
            x.flip(1).cumsum(1).flip(1),
        ],
        lambda i: [T(torch, rnd(i, 40, 33))],
        rtol=1e-4,
    )
    for n, z in (
        ("none", []),
        ("one", [3]),
        ("two", [3, 7]),
        ("first", [0]),
        ("last", [-1]),
        ("adjacent", [4, 5]),
    ):

        def mk(k):
            v = rnd(k, 2, 12, dtype="float64")
            v[:, z] = 0
            return [T(torch, v, grad=True)]

        log.grads("cumprod-" + n, lambda x: x.cumprod(1), mk)
        log.grads("prod-" + n, lambda x: [x.prod(1), x.prod()], mk)

        def dd(x):
            (g,) = torch.autograd.grad(x.cumprod(1).pow(2).sum(), x, create_graph=True)
            return torch.autograd.grad(g.sin().sum(), x)[0]

        log.run("cumprod-twice-" + n, lambda: dd(*mk(0)))
    log.grads(
        "long-cumprod",
        lambda x: x.cumprod(1),
        lambda k: [T(torch, 1 + 1e-3 * rnd(k, 2, 8193, dtype="float64"), grad=True)],
        calls=1,
    )
    log.grads(
        "long-lcse",
        lambda x: x.logcumsumexp(1),
        lambda k: [T(torch, rnd(k, 2, 1030, dtype="float64"), grad=True)],
        calls=1,
    )
    log.grads(
        "cummax",
        lambda x: [x.cummax(1).values, x.cummin(1).values],
        lambda k: [T(torch, np.round(rnd(k, 3, 20)), grad=True)],
    )
    log.grads(
        "cumsum-mask",
        lambda x: (x.cumsum(1) * (x > 0)).cumsum(0),
        lambda k: [T(torch, rnd(k, 5, 7), grad=True)],
    )

    # multinomial by running sums, the report's pattern: one-hot columns have to be drawn at any laziness
    def inverse(p, u):
        c = (p / p.sum(-1, keepdim=True)).cumsum(-1)
        return (u[:, None] > c).sum(-1)

    log.jit(
        "inverse-cdf",
        inverse,
        lambda k: [
            torch.ones(5, 8) + torch.eye(5, 8) * k,
            T(torch, np.abs(np.sin(np.arange(5.0) + k)).astype("float32")),
        ],
    )
    log.run(
        "multinomial-onehot",
        lambda: [torch.multinomial(torch.eye(6)[k].expand(4, 6) * 1.0, 1) for k in range(6)],
    )
    log.run(
        "multinomial-zeros",
        lambda: (
            torch.multinomial(torch.tensor([0.0, 1.0, 0.0, 3.0]).repeat(50, 1), 2).sort(1).values
        ),
    )
    return log.items

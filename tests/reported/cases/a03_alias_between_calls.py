"""Programs after reports.

pytorch/pytorch#139789: arguments that were apart at the first call and overlap at the second
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, jit


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(x, y):
        x.mul_(2)
        return x + y

    def g(x, y):
        x.copy_(y.flip(0))
        y.add_(1)
        return x * y

    def pairs(kind):
        base = torch.arange(1.0, 9.0)
        if kind == 0:
            return torch.ones(4), torch.ones(4)
        if kind == 1:
            return base[:4], base[2:6]
        if kind == 2:
            return base[:4], base[:4]
        if kind == 3:
            return base[:4], base[4:]
        x = base[1:5]
        return x, x

    for name, fn in (("mul", f), ("flip", g)):
        for order in (
            [0, 0, 0, 1, 2, 3, 4, 0, 1],
            [1, 1, 1, 0, 0, 3, 3, 3, 2, 4],
            [4, 4, 4, 2, 2, 1, 1, 0],
        ):
            h = jit(torch, fn)
            for n, kind in enumerate(order):

                def run():
                    x, y = pairs(kind)
                    out = h(x, y)
                    return out, x, y, (x._base if x._base is not None else x)

                log.run(f"{name}-{''.join(map(str, order))}-{n}", run)

    # a parameter of a module and an argument that is the same memory
    lin = torch.nn.Linear(3, 3)
    with torch.no_grad():
        lin.weight.copy_(torch.arange(9.0).reshape(3, 3))
        lin.bias.zero_()

    def step(w):
        with torch.no_grad():
            w.add_(1)
            return lin(torch.ones(1, 3))

    s = jit(torch, step)
    for n, arg in enumerate(
        [
            lambda: torch.zeros(3, 3),
            lambda: torch.zeros(3, 3),
            lambda: torch.zeros(3, 3),
            lambda: lin.weight,
            lambda: lin.weight.data,
            lambda: lin.weight.detach()[0],
            lambda: torch.zeros(3, 3),
        ]
    ):
        log.run(f"param-{n}", lambda: s(arg()))
    return log.items

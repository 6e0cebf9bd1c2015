"""Programs after reports.

pytorch/pytorch#136662: torch.func.grad of a function that writes a column of its input from
another column
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(x):
        y = x.clone()
        y[:, 0] += x[:, 2].abs()
        return (y * torch.arange(6.0).reshape(2, 3)).sum()

    def g(x):
        x = x * 1
        x[:, 0] += x[:, 2].abs()
        x[0] *= x[1]
        x[1, 1:] = x[0, :2] ** 2
        return x.sum()

    def own(x):  # in place on the argument
        x[:, 0] += x[:, 2].abs()
        return x.sum()

    def h(x):
        x = x + 0
        v = x.view(-1)
        v[::2] = v[1::2].sin()
        x.t()[0].mul_(3)
        return (x**2).sum()

    mk = lambda i: [T(torch, rnd(i, 2, 3))]
    for n, fn in (("clone", f), ("chain", g), ("own", own), ("views", h)):
        for t, tr in (
            ("grad", torch.func.grad),
            ("jacrev", torch.func.jacrev),
            ("jacfwd", torch.func.jacfwd),
            ("hessian", torch.func.hessian),
        ):
            if t == "hessian" and n == "own":
                continue
            log.jit(f"{n}-{t}", tr(fn), mk, calls=4)
        log.jit(f"{n}-vmap", torch.func.vmap(fn), lambda i: [T(torch, rnd(i, 4, 2, 3))], calls=3)
        log.jit(
            f"{n}-pergrad",
            torch.func.vmap(torch.func.grad(fn)),
            lambda i: [T(torch, rnd(i, 4, 2, 3))],
            calls=3,
        )

    def bw(fn):
        def run(x):
            x = x.clone().requires_grad_()
            out = fn(x)
            return out, torch.autograd.grad(out, x)[0]

        return run

    for n, fn in (("clone", f), ("chain", g), ("views", h)):
        log.jit(f"{n}-autograd", bw(fn), mk, calls=4)
    return log.items

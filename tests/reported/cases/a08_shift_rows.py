"""Programs after reports.

pytorch/pytorch#197829: x[1:] = x[:-1].clone() and other copies within one memory
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def down(x):
        x[1:] = x[:-1].clone()
        return x

    def up(x):
        x[:-1] = x[1:].clone()
        return x

    def right(x):
        x[..., 1:] = x[..., :-1] * 1
        return x

    def rev(x):
        x.copy_(x.flip(0).clone())
        x[:, ::2] = x.flip(1)[:, ::2]
        return x

    def acc(x):
        x[1:] += x[:-1].clone()
        x[:-1] *= x[1:].clone() + 1
        return x

    def transposed(x):
        n = min(x.shape[0], x.shape[1])
        s = x[:n, :n]
        s.copy_(s.transpose(0, 1).clone())
        return x

    def many(x):
        for k in range(1, 4):
            x[k:] = x[:-k].clone() - k
        return x.sum(-1)

    for shape in ((3, 8, 8), (129, 20), (7, 5), (2, 1), (65, 9)):
        for name, fn in (
            ("down", down),
            ("up", up),
            ("right", right),
            ("rev", rev),
            ("acc", acc),
            ("transposed", transposed),
            ("many", many),
        ):
            if name == "many" and shape[0] < 5:
                continue
            log.jit(
                f"{name}-{shape[0]}", fn, lambda i: [T(torch, rnd(i, *shape))], calls=4, rtol=3e-5
            )
    # without a clone: PyTorch refuses or copies as memory goes
    log.jit(
        "direct-rows",
        lambda x: x[1:].copy_(x[:-1]),
        lambda i: [torch.arange(12.0).reshape(4, 3)],
        calls=1,
    )
    log.jit(
        "direct-t", lambda x: x.copy_(x.t()), lambda i: [torch.arange(9.0).reshape(3, 3)], calls=1
    )
    log.jit(
        "direct-add",
        lambda x: x[1:].add_(x[:-1]),
        lambda i: [torch.arange(12.0).reshape(4, 3)],
        calls=1,
    )
    log.jit(
        "direct-same",
        lambda x: x[1:].add_(x[1:]),
        lambda i: [torch.arange(12.0).reshape(4, 3)],
        calls=1,
    )
    log.jit(
        "out-overlap",
        lambda x: torch.add(x[:-1], 1, out=x[1:]),
        lambda i: [torch.arange(12.0).reshape(4, 3)],
        calls=1,
    )
    log.jit(
        "out-same",
        lambda x: torch.add(x[1:], 1, out=x[1:]),
        lambda i: [torch.arange(12.0).reshape(4, 3)],
        calls=1,
    )
    log.jit(
        "cat-out",
        lambda x: torch.cat([x[:2], x[:2]], out=x),
        lambda i: [torch.arange(12.0).reshape(4, 3)],
        calls=1,
    )
    log.jit(
        "index_copy-self",
        lambda x: x.index_copy_(0, torch.tensor([0, 1, 2]), x[1:]),
        lambda i: [torch.arange(12.0).reshape(4, 3)],
        calls=1,
    )
    return log.items

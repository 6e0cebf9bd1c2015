"""Programs after reports.

pytorch/pytorch#189895: F.pad of a sum must keep its border; jax-ml/jax#39103 #39257; pytorch#67517
(infinity norm of turned inputs)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional
    for n in (1, 5, 16384, 20001):
        log.jit(
            f"seqlens-{n}",
            lambda m: [
                F.pad(torch.cumsum(m.sum(-1, dtype=torch.int32), 0, dtype=torch.int32), (1, 0)),
                F.pad(m.sum(-1), (1, 0)),
                F.pad(m.float().mean(-1), (0, 2), value=9.0),
                F.pad(m.sum(-1).float(), (1, 1), value=-1.0).cumsum(0),
            ],
            lambda k: [T(torch, rnd(k, 3, n, dtype="bool"))],
            calls=3,
        )
    log.jit(
        "pad-max",
        lambda x: [
            F.pad(x.amax(1), (1, 0)),
            F.pad(x.argmax(1), (1, 1), value=-7),
            F.pad(x.sum(0, keepdim=True), (1, 1, 1, 1), value=2.0),
            F.pad(x.softmax(1), (-1, 2), value=5.0),
            torch.cat([torch.zeros(1), x.sum(1)]),
            torch.stack([x.sum(1), x.prod(1)]).t(),
            torch.where(torch.arange(5) > 0, F.pad(x.sum(1), (1, 0)), -1.0),
        ],
        lambda k: [T(torch, rnd(k, 4, 6))],
    )

    def matvec(x):
        m = torch.eye(3, dtype=x.dtype)
        return torch.func.vmap(lambda r: ((m @ r) ** 2).sum())(x)

    for n, dt in ((16385, "float64"), (32769, "float32"), (7, "float32")):
        i = np.arange(n, dtype=dt)
        x = np.stack([i, 0 * i, 0 * i], 1)
        log.jit(f"matvec-{n}", matvec, lambda k: [T(torch, x)], calls=3)
    log.jit(
        "rank8",
        lambda o, a: torch.log(
            torch.clamp((o[..., None, None, None, None, None] * a).sum(2), min=2.2e-16)
        ),
        lambda k: [
            T(torch, np.abs(rnd(k, 3, 4, 6))),
            T(torch, np.abs(rnd(k + 1, 3, 4, 6, 2, 3, 2, 3, 2))),
        ],
        calls=2,
    )
    log.jit(
        "rank10",
        lambda a: [
            a.sum((1, 3, 5, 7, 9)),
            a.permute(9, 8, 7, 6, 5, 4, 3, 2, 1, 0).amax((0, 2)),
            a.flatten(2, 7).softmax(2),
        ],
        lambda k: [T(torch, rnd(k, 2, 1, 3, 2, 2, 1, 2, 3, 1, 2))],
        calls=2,
    )
    for p in (float("inf"), -float("inf"), 0, 1, 2, 3, 0.5):
        log.grads(
            f"norm-{p}",
            lambda x: [
                torch.linalg.vector_norm(x.t(), p),
                torch.linalg.vector_norm(x[::2, 1:], p, 1),
                torch.norm(x.t(), p),
                x.norm(p, 0),
            ],
            lambda k: [T(torch, rnd(k, 5, 6), grad=True)],
            calls=2,
        )
    log.grads(
        "norm-ties",
        lambda x: [x.norm(float("inf")), x.abs().max(), x.amax(0), x.amin((0, 1))],
        lambda k: [T(torch, np.round(rnd(k, 5, 6)), grad=True)],
        calls=2,
    )
    return log.items

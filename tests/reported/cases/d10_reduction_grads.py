"""Programs after reports.

pytorch/pytorch#186799 (atan2 then amin), #168358 (index_reduce), #180771 #180164 (slice_scatter),
#182012 #182765 (diagonal_scatter): gradients through selections
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    two = lambda k: [T(torch, rnd(k, 4, 6), grad=True), T(torch, rnd(k + 50, 4, 6), grad=True)]
    for n, f in {
        "atan2": torch.atan2,
        "mul": torch.mul,
        "div": torch.div,
        "pow": lambda x, y: x.abs() ** y,
        "hypot": torch.hypot,
        "lae": torch.logaddexp,
        "fmod": torch.fmod,
        "max": torch.maximum,
        "sub": torch.sub,
        "exp": lambda x, y: x.exp() - y,
        "where": lambda x, y: torch.where(x > y, x, y),
    }.items():
        log.grads(
            "amin-" + n,
            lambda x, y: [f(x, y).amin(-1), f(x, y).amax(0), f(x, y).min(1).values, f(x, y).max()],
            two,
            calls=2,
        )
        log.grads(
            "round-ties-" + n,
            lambda x, y: [
                f(x, y).amin(-1),
                f(x, y).amax((0, 1)),
                f(x, y).max(0).values,
                f(x, y).median(1).values,
                f(x, y).sort(1).values,
            ],
            lambda k: [
                T(torch, np.round(rnd(k, 4, 6)), grad=True),
                T(torch, np.round(rnd(k + 50, 4, 6)) + 0.25, grad=True),
            ],
            calls=2,
        )

    def red(kind, inc):
        def f(s):
            o = torch.full(
                (3, 2), -float("inf") if kind == "amax" else float("inf") if kind == "amin" else 1.5
            )
            return [
                o.index_reduce(0, torch.tensor([0, 0, 2, 0, 2]), s, kind, include_self=inc),
                o.scatter_reduce(
                    0,
                    torch.tensor([[0, 1], [0, 1], [2, 1], [0, 0], [2, 2]]),
                    s,
                    kind,
                    include_self=inc,
                ),
            ]

        return f

    for kind in ("amax", "amin", "prod", "mean", "sum"):
        for inc in (True, False):
            k2 = kind
            if kind == "sum":
                f = lambda s: [
                    torch.ones(3, 2).scatter_reduce(
                        0,
                        torch.tensor([[0, 1], [0, 1], [2, 1], [0, 0], [2, 2]]),
                        s,
                        "sum",
                        include_self=inc,
                    )
                ]
            else:
                f = red(k2, inc)
            log.grads(
                f"reduce-{kind}-{inc}", f, lambda k: [T(torch, rnd(k, 5, 2), grad=True)], calls=2
            )
            log.grads(
                f"reduce-ties-{kind}-{inc}",
                f,
                lambda k: [T(torch, np.round(rnd(k, 5, 2)), grad=True)],
                calls=2,
            )
            log.grads(
                f"self-{kind}-{inc}",
                lambda o, s: [
                    o.scatter_reduce(
                        1, torch.tensor([[0, 0, 2], [1, 1, 1]]), s, kind, include_self=inc
                    )
                ],
                lambda k: [
                    T(torch, np.round(rnd(k, 2, 4)), grad=True),
                    T(torch, np.round(rnd(k + 5, 2, 3)), grad=True),
                ],
                calls=2,
            )
    for s, e, d in ((0, 2, 0), (1, 4, 1), (2, 3, 0), (5, 12, 1)):
        shape = (3, 20, 7) if e > 5 else (5, 6)

        def src(k):
            sh = list(shape)
            sh[d] = min(e, shape[d]) - s
            return [T(torch, rnd(k, *shape), grad=True), T(torch, rnd(k + 3, *sh), grad=True)]

        log.grads(
            f"slice_scatter-{s}-{e}-{d}",
            lambda x, y: [
                torch.slice_scatter(x, y, d, s, e).sum(),
                torch.slice_scatter(x, y, d, s, e).sum(d),
                torch.slice_scatter(x * 2, y, d, s, e).amax(d),
            ],
            src,
        )
    log.grads(
        "diagonal_scatter",
        lambda x, s: [
            torch.diagonal_scatter(x, s, 0).sum(),
            torch.diagonal_scatter(x, s[:-1], 1).sum(1),
            torch.diagonal_scatter(x, s[:-2], -2) ** 2,
        ],
        lambda k: [T(torch, rnd(k, 8, 8), grad=True), T(torch, rnd(k, 8), grad=True)],
    )
    log.grads(
        "select_scatter",
        lambda x, s: [
            torch.select_scatter(x, s, 0, 3).sum(0),
            torch.select_scatter(x, s, 1, -1).sum(1),
        ],
        lambda k: [T(torch, rnd(k, 8, 8), grad=True), T(torch, rnd(k, 8), grad=True)],
    )
    log.grads(
        "masked_scatter",
        lambda x, s: [
            x.masked_scatter(torch.eye(4, 5) > 0, s),
            x.masked_scatter(torch.tensor([[True], [False], [True], [False]]), s * 2),
        ],
        lambda k: [T(torch, rnd(k, 4, 5), grad=True), T(torch, rnd(k, 3, 7), grad=True)],
    )
    log.grads(
        "index_copy",
        lambda x, s: [
            x.index_copy(0, torch.tensor([2, 0]), s),
            x.index_add(0, torch.tensor([1, 1]), s, alpha=-2.0),
            x.index_fill(1, torch.tensor([0, 3]), 1.0),
            x.index_put((torch.tensor([1, 2]),), s),
            x.index_put((torch.tensor([1, 1]),), s, accumulate=True),
        ],
        lambda k: [T(torch, rnd(k, 4, 5), grad=True), T(torch, rnd(k, 2, 5), grad=True)],
    )
    log.grads(
        "pixel",
        lambda x: [
            x.take(torch.tensor([0, 0, 5])),
            x.gather(0, torch.tensor([[0, 1, 1, 0, 3]])),
            x[torch.tensor([0, 0]), 1:3],
            x[:, [0, 0, 1]],
            x[x > 0],
            x.take_along_dim(x.argsort(1), 1),
            x.unfold(1, 3, 1).sum(-1),
            x.as_strided((3, 3), (1, 2)),
            x.diagonal(1),
            x.tril(-1),
            x.rot90(),
            x.roll((1, 2), (0, 1)),
            x.repeat_interleave(torch.tensor([1, 0, 2, 1]), 0),
            x.index_select(1, torch.tensor([1, 1])),
        ],
        lambda k: [T(torch, rnd(k, 4, 5), grad=True)],
    )
    return log.items

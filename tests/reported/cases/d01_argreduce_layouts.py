"""Programs after reports.

pytorch/pytorch#183082 #174073 #183894 #197739 #178964 #193751: argmin/argmax of transposed,
mutated, fused inputs
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def mut(op):
        def f(x):
            getattr(x, op)()
            y = x.t()
            return (
                y.argmin(),
                y.argmax(),
                y.min(0),
                y.max(1),
                y.flatten().argmax(),
                y.argmax(1, keepdim=True),
            )

        return f

    for op in ("sin_", "tan_", "neg_", "abs_", "relu_"):
        for shape in ((5, 7), (4, 6), (32, 33), (1, 9), (9, 1)):
            log.jit(f"{op}-{shape}", mut(op), lambda i: [T(torch, rnd(i, *shape))], calls=3)
    log.jit("half", lambda x: (x.t() + 0.5).argmin(), lambda i: [T(torch, rnd(i, 2, 2))])
    log.jit("contig", lambda x: x.t().contiguous().argmin(), lambda i: [T(torch, rnd(i, 3, 2))])
    log.jit(
        "sum-of-both",
        lambda a, b: (a + b).max(dim=1),
        lambda i: [T(torch, rnd(i, 8, 8)).transpose(0, 1), T(torch, rnd(i + 9, 8, 8))],
    )
    log.jit(
        "sum-of-both-0",
        lambda a, b: (a + b).min(dim=0),
        lambda i: [T(torch, rnd(i, 8, 5)).transpose(0, 1), T(torch, rnd(i + 9, 5, 8))],
    )

    def after(red):
        return lambda x: [
            red(x).argmax(),
            red(x).argmin(),
            red(x).max(-1),
            red(x.permute(0, 2, 3, 1)).argmax(),
        ]

    for n, red in {
        "mean": lambda x: x.mean(-1),
        "sum": lambda x: x.sum(-1),
        "amax": lambda x: x.amax(-1),
        "var": lambda x: x.var(-1),
        "lse": lambda x: x.logsumexp(-1),
        "prod": lambda x: x.prod(-1),
        "twice": lambda x: x * 2,
        "softmax": lambda x: x.softmax(1),
        "flip": lambda x: x.flip(2),
        "cat": lambda x: torch.cat([x, -x], 1),
        "pad": lambda x: torch.nn.functional.pad(x, (1, 2)),
        "roll": lambda x: x.roll(1, 1),
    }.items():
        log.jit(
            "after-" + n,
            after(red),
            lambda i: [T(torch, rnd(i, 2, 3, 4, 5)).contiguous(memory_format=torch.channels_last)],
            calls=3,
        )
        log.jit(
            "after-p-" + n,
            after(red),
            lambda i: [T(torch, rnd(i, 5, 4, 3, 2)).permute(3, 1, 0, 2)],
            calls=3,
        )
    # ties: the first in logical order
    tie = lambda i: [torch.tensor([[1, 3, 3], [3, 1, 3]]).float().t() + i]
    log.jit(
        "ties",
        lambda x: [
            x.argmax(),
            x.max(0),
            x.max(1),
            x.argmin(),
            (x * 1).argmax(0),
            x.flip(0).argmax(),
            x.sort(dim=0, stable=True),
            x.topk(1, 0).values,
            x.mode(0).values,
            x.median(1),
            x.kthvalue(2, 0).values,
        ],
        tie,
    )
    log.jit(
        "bool",
        lambda x: [
            (x > 0).int().argmax(1),
            (x > 0).float().argmax(),
            (x > 99).int().argmax(0),
            x.eq(x.max()).nonzero(),
        ],
        lambda i: [T(torch, rnd(i, 6, 5)).t()],
    )
    log.jit(
        "expand",
        lambda x: [
            x.expand(4, 3, 5).argmax(),
            x.expand(4, 3, 5).argmax(0),
            x.expand(4, 3, 5).max(0),
        ],
        lambda i: [T(torch, rnd(i, 3, 5))],
    )
    return log.items

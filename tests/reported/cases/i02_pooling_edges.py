"""Programs after reports.

pytorch/pytorch#100987 #88144, apple/coremltools#2844, pytorch/executorch#18616, apache/tvm#18641,
pytorch/xla#746, tinygrad PR 7579: ceil_mode, divisors
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional
    for nd in (1, 2, 3):
        for size in (4, 7, 8):
            for k, s, p, d in (
                (2, 3, 0, 1),
                (3, 3, 1, 1),
                (3, 2, 1, 1),
                (2, 2, 1, 1),
                (4, 3, 2, 1),
                (2, 5, 0, 1),
                (3, 1, 1, 2),
                (4, 4, 0, 1),
            ):
                if nd == 3 and size == 8:
                    continue
                x = lambda: T(torch, rnd(size, 1, 2, *([size] * nd)))
                avg, mx = getattr(F, f"avg_pool{nd}d"), getattr(F, f"max_pool{nd}d")
                for ceil in (False, True):
                    for inc in (True, False):
                        if d == 1:
                            log.run(
                                f"avg{nd}-{size}-{k}{s}{p}-{ceil}-{inc}",
                                lambda: avg(x(), k, s, p, ceil, inc),
                                rtol=2e-5,
                            )
                            if nd > 1:
                                log.run(
                                    f"avg{nd}-{size}-{k}{s}{p}-{ceil}-{inc}-div",
                                    lambda: avg(x(), k, s, p, ceil, inc, divisor_override=3),
                                    rtol=2e-5,
                                )
                    log.run(
                        f"max{nd}-{size}-{k}{s}{p}{d}-{ceil}",
                        lambda: mx(x(), k, s, p, d, ceil, return_indices=True),
                    )
                    log.run(
                        f"lp{nd}-{size}-{k}{s}-{ceil}",
                        lambda: getattr(F, f"lp_pool{nd}d")(x(), 2.0, k, s, ceil),
                        rtol=2e-5,
                    )
                if nd < 3 and d == 1:
                    log.grads(
                        f"g{nd}-{size}-{k}{s}{p}",
                        lambda t: [
                            avg(t, k, s, p, True, False),
                            mx(t, k, s, p, 1, True),
                            avg(t, k, s, p, True, True),
                        ],
                        lambda q: [T(torch, np.round(rnd(q, 1, 2, *([size] * nd))), grad=True)],
                        calls=1,
                    )
    log.run(
        "88144",
        lambda: [
            F.avg_pool2d(torch.ones(1, 3, 32, 32), 8, 4, ceil_mode=True).shape,
            F.avg_pool2d(torch.ones(1, 3, 4, 4), 3, 3, ceil_mode=True),
        ],
    )
    log.run(
        "2844",
        lambda: [
            F.avg_pool2d(torch.arange(49.0).reshape(1, 1, 7, 7), 2, 3, ceil_mode=True),
            F.avg_pool1d(torch.arange(7.0).reshape(1, 1, 7), 2, 3, ceil_mode=True),
        ],
    )
    for o in (1, 2, 3, 5, (2, None), (None, 3), 9):
        log.run(
            f"adapt-{o}",
            lambda: [
                F.adaptive_avg_pool2d(T(torch, rnd(1, 2, 3, 7, 5)), o),
                F.adaptive_max_pool2d(T(torch, rnd(1, 2, 3, 7, 5)), o, return_indices=True),
            ],
            rtol=2e-5,
        )
    for bad in (
        "F.max_pool2d(x, 3, 1, 2)",
        "F.avg_pool2d(x, 0)",
        "F.max_pool2d(x, 2, 0)",
        "F.avg_pool2d(x, 9)",
        "F.max_pool2d(x, 9)",
        "F.avg_pool2d(x, 2, divisor_override=0)",
        "F.max_pool2d(x[0, 0], 2)",
        "F.max_pool2d(x[0], 2)",
        "F.avg_pool2d(x.long(), 2)",
        "F.max_pool2d(x.long(), 2)",
        "F.max_pool2d(x, 2, dilation=9)",
        "F.adaptive_avg_pool2d(x, (0, 2))",
        "F.max_unpool2d(x, x.long(), 2)",
    ):
        log.run(bad, lambda: eval(bad, {"x": torch.arange(16.0).reshape(1, 1, 4, 4), "F": F}))
    nan = T(torch, np.where(rnd(3, 1, 1, 6, 6) > 1, np.nan, rnd(3, 1, 1, 6, 6)))
    log.run(
        "nan",
        lambda: [
            F.max_pool2d(nan, 2, return_indices=True),
            F.avg_pool2d(nan, 3),
            F.adaptive_max_pool2d(nan, 2),
            F.max_pool2d(torch.full((1, 1, 4, 4), -float("inf")), 3, 1, 1, return_indices=True),
        ],
    )
    log.jit(
        "fused",
        lambda x: [
            F.max_pool2d(F.relu(x * 2 - 1), 2, ceil_mode=True),
            F.avg_pool2d(F.pad(x, (1, 0, 1, 0)), 2, 1),
            F.interpolate(F.avg_pool2d(x, 2, ceil_mode=True), size=x.shape[-2:]),
        ],
        lambda k: [T(torch, rnd(k, 2, 3, 5 + k % 3, 7))],
        rtol=2e-5,
    )
    return log.items

"""Programs after reports.

pytorch/pytorch#191499: min of positive uint8/int8 gave 0 from 16 elements on; openxla/xla#5544
jax#17531 (8193 zeros below zero)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    r = np.random.default_rng(5)
    for dt, lo, hi in (
        ("uint8", 1, 255),
        ("int8", 1, 127),
        ("int8", -127, -1),
        ("int16", 5, 3000),
        ("int16", -3000, -5),
        ("int32", -(2**31) + 1, -5),
        ("int64", 2**40, 2**41),
        ("float32", 1, 2),
        ("float32", -2, -1),
        ("float64", -2, -1),
        ("float16", -3, -1),
        ("bfloat16", 1, 4),
    ):
        for n in (1, 15, 16, 17, 33, 129):
            x = T(
                torch,
                r.integers(lo, hi, n, endpoint=True)
                if "float" not in dt
                else r.uniform(lo, hi, n).astype("float32"),
                dt,
            )
            log.run(
                f"{dt}{lo}-{n}",
                lambda: [
                    x.min(),
                    x.max(),
                    x.amin(),
                    x.amax(),
                    x.argmin(),
                    x.argmax(),
                    torch.aminmax(x),
                    x.min(0),
                    x.max(0),
                    x.sort().values,
                    x.cummax(0),
                    x.cummin(0),
                ],
            )
            y = x[:, None].expand(n, 3)
            log.run(
                f"{dt}{lo}-{n}-cols",
                lambda: [(y + 0).min(0), (y + 0).max(0), y.amin(1), y.argmax(0)],
            )
    for n in (8191, 8192, 8193, 20000):
        z = torch.zeros(n) * -1
        i = torch.full((n,), float("-inf"))
        log.run(
            f"negzero-{n}",
            lambda: [
                z.max(),
                torch.signbit(z.max()),
                z.min(),
                z.amax(),
                i.max(),
                i.argmax(),
                (-i).min(),
                (-i).argmin(),
                z.argmax(),
                z.logsumexp(0),
                i.logsumexp(0),
                z.max(0),
            ],
        )
    log.jit(
        "max-of-neg",
        lambda x: [(-x.abs() - 1).max(), (-x.abs() - 1).max(1), (x.abs() + 1).min(0)],
        lambda k: [T(torch, rnd(k, 13, 29))],
        calls=3,
    )
    return log.items

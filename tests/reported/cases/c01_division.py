"""Programs after reports.

pytorch/pytorch#197895 (1.0 // 0.1), #188048 (floor of inf), #184408 (trunc), #194345 (large
ratios), #186875 #97333 (half fmod), #174172 (copysign -0.0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    inf, nan = float("inf"), float("nan")
    a = [
        1.0,
        0.5,
        6.0,
        1.0,
        -1.0,
        0.3,
        -0.7,
        14.999999,
        26.999999,
        148.0,
        1073.0,
        2112.0,
        1e10,
        65504.0,
        3.4e38,
        -0.0,
        0.0,
        inf,
        -inf,
        nan,
        5.0,
        -5.0,
        1.0,
        7.0,
    ]
    b = [
        0.1,
        0.1,
        0.2,
        1 / 3,
        0.1,
        0.1,
        0.1,
        3.0,
        3.0,
        37.0,
        37.0,
        33.0,
        1e-20,
        6e-8,
        1.4e-45,
        2.0,
        -3.0,
        1.0,
        1.0,
        2.0,
        inf,
        inf,
        0.0,
        -0.0,
    ]
    fs = {
        "floordiv": lambda x, y: x // y,
        "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "rem": lambda x, y: torch.remainder(x, y),
        "mod": lambda x, y: x % y,
        "fmod": lambda x, y: torch.fmod(x, y),
        "div": lambda x, y: x / y,
        "signs": lambda x, y: [
            torch.signbit(x // y),
            torch.signbit(torch.fmod(x, y)),
            torch.signbit(x % y),
            torch.signbit(torch.div(x, y, rounding_mode="trunc")),
        ],
        "copysign": lambda x, y: [
            torch.copysign(x, -0.0),
            torch.copysign(x, y),
            torch.copysign(x, 0.0),
            torch.signbit(torch.copysign(x, -0.0)),
        ],
        "nextafter": lambda x, y: (
            torch.nextafter(x, y) if x.dtype in (torch.float32, torch.float64) else x
        ),
        "hypot": lambda x, y: torch.hypot(x, y) if x.dtype in (torch.float32, torch.float64) else x,
        "atan2": lambda x, y: torch.atan2(x, y),
        "logaddexp": lambda x, y: torch.logaddexp(x, y),
        "heaviside": lambda x, y: torch.heaviside(x, y),
        "xlogy": lambda x, y: torch.xlogy(x, y),
        "pow": lambda x, y: torch.pow(x.abs(), y.clamp(-3, 3)),
        "maxmin": lambda x, y: [
            torch.maximum(x, y),
            torch.minimum(x, y),
            torch.fmax(x, y),
            torch.fmin(x, y),
            x.clamp(y.min(), 3),
            torch.signbit(torch.maximum(x, y)),
            torch.clamp(x, min=y),
            torch.clamp(x, y, x),
        ],
    }
    for dt in ("float32", "float64", "float16", "bfloat16"):
        mk = lambda k: [T(torch, np.array(a), dt), T(torch, np.array(b), dt)]
        for n, f in fs.items():
            log.jit(
                f"{n}-{dt}",
                f,
                mk,
                calls=2,
                state=False,
                rtol=2e-3 if dt == "float16" else 1.6e-2 if dt == "bfloat16" else 1e-6,
                atol=0,
            )
        t = T(torch, np.array(a), dt)
        for s in (0.1, 1.7, -0.1, 3, -3, 0.0, inf, 2, 1e-3, 1e-8):
            log.run(
                f"scalar-{s}-{dt}",
                lambda: [
                    t / s,
                    torch.div(t, s, rounding_mode="trunc"),
                    s / t,
                    torch.true_divide(t, s),
                ],
                atol=0,
            )
            if dt in ("float32", "float64") or s in (3, -3, 0.0, inf, 2):
                log.run(
                    f"scalarfloor-{s}-{dt}",
                    lambda: [
                        t // s,
                        t % s,
                        torch.fmod(t, s),
                        s // t,
                        s % t,
                        torch.div(t, s, rounding_mode="floor"),
                    ],
                    atol=0,
                )
    x = torch.tensor([6.5, -6.5, 7.0, -7.0])
    log.run(
        "py",
        lambda: [
            7 // torch.tensor(2),
            -7 // torch.tensor(2),
            torch.tensor(-7) // 2,
            torch.tensor(-7) % 3,
            torch.fmod(torch.tensor(-7), 3),
            torch.tensor(7) // -2.0,
            divmod(x, 2) if hasattr(x, "__divmod__") else 0,
        ],
    )
    log.run(
        "sweep",
        lambda: [
            (torch.arange(1, 2000).float() / 10) // 0.1,
            (torch.arange(1, 2000).double() / 10) // 0.1,
            (torch.arange(1, 500).float() * 0.3) % 0.3,
            torch.arange(0, 500) // 7,
            (torch.arange(-500, 500).int() // -7),
        ],
    )
    log.grads(
        "grad",
        lambda x, y: [
            x % y,
            torch.fmod(x, y),
            torch.div(x, y),
            torch.copysign(x, y),
            torch.hypot(x, y),
        ],
        lambda k: [T(torch, rnd(k, 4, 5), grad=True), T(torch, rnd(9 + k, 4, 5), grad=True)],
    )
    return log.items

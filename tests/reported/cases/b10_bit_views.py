"""Programs after reports.

pytorch/pytorch#129966 #120998: view(dtype) and view_copy(dtype) between sizes, fused; #179570:
ceil(log2) near powers of two
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(x):
        return (
            torch.view_copy(x, torch.int8),
            x.view(torch.int16) + 1,
            (x * 3).view(torch.uint8).sum(),
            x.view(torch.float32),
        )

    log.jit("i32", f, lambda k: [torch.tensor([0x00010203 + k, -5, 7, 2**30])])
    log.jit("i32i", f, lambda k: [torch.tensor([0x00010203 + k, -5, 7, 2**30], dtype=torch.int32)])
    log.jit(
        "join",
        lambda x: [
            (x.view(torch.uint8) + 1),
            (x + 1).view(torch.int16),
            x.view(torch.int32) ^ 5,
            x.t().contiguous().view(torch.int16),
        ],
        lambda k: [T(torch, rnd(k, 4, 8, dtype="uint8"))],
    )
    log.jit(
        "u8-f16",
        lambda x: x.view(torch.uint8) + 1,
        lambda k: [T(torch, rnd(k, 4, 8, dtype="uint8")).view(torch.float16)],
    )

    def bf(x):
        b = x.float().view(torch.int32)
        r = ((b >> 16) & 1) + 0x7FFF
        return ((b + r) >> 16).to(torch.int16).view(torch.bfloat16), x.to(torch.bfloat16)

    log.jit("bf16-round", bf, lambda k: [T(torch, rnd(k, 33))])

    def fast_rsqrt(x):
        i = x.view(torch.int32)
        y = (0x5F3759DF - (i >> 1)).view(torch.float32)
        return y * (1.5 - 0.5 * x * y * y)

    log.jit("rsqrt", fast_rsqrt, lambda k: [T(torch, np.abs(rnd(k, 5, 7)) + 0.1)])

    def e8m0(x):
        return (torch.ceil(torch.log2(x.abs() + 1e-7)).clamp(-127, 127) + 127).to(torch.uint8)

    log.jit("e8m0", e8m0, lambda k: [T(torch, rnd(k, 40))])
    p = torch.tensor([2.0]) ** torch.arange(-126, 128)
    log.run("log2-powers", lambda: torch.log2(p), rtol=0, atol=0)
    log.run(
        "log2-powers64",
        lambda: torch.log2(torch.tensor([2.0], dtype=torch.float64) ** torch.arange(-1000, 1000)),
        rtol=0,
        atol=0,
    )
    log.run("exp2-int", lambda: torch.exp2(torch.arange(-126.0, 128)), rtol=0, atol=0)
    log.run(
        "log10-powers",
        lambda: torch.log10(torch.tensor([10.0**k for k in range(-30, 38)])),
        rtol=0,
        atol=0,
    )
    log.run(
        "pow-int",
        lambda: torch.tensor([2.0, 3.0, 10.0]) ** torch.arange(0.0, 10)[:, None],
        rtol=0,
        atol=0,
    )
    log.run(
        "floor-log10",
        lambda: torch.floor(torch.log10(torch.tensor([1000.0, 100.0, 10.0, 1e5, 1e-3]))),
    )
    log.run("frexp", lambda: torch.frexp(torch.tensor([0.0, 1.0, -8.0, 1e-40, 3e38, float("inf")])))
    log.run("ldexp", lambda: torch.ldexp(torch.tensor([1.0, -3.0]), torch.tensor([-140, 120])))
    log.run("sqrt-squares", lambda: torch.arange(0.0, 3000).square().sqrt(), rtol=0, atol=0)
    log.run("cbrt-like", lambda: (torch.arange(1.0, 50) ** 3) ** (1 / 3))
    c = {
        "uint8": [-1.0, 255.0, 256.0, 300.7, -0.9, 1e9],
        "int8": [127.6, 128.0, -129.0, 200.0],
        "int16": [40000.0, -40000.0],
        "int32": [3e9, -3e9, 2147483520.0],
        "int64": [1e18, 9.3e18, -9.3e18],
        "bool": [0.0, -0.0, 0.3, 1e-45],
    }
    for dt, vs in c.items():
        safe = vs if dt in ("bool",) else vs[:]
        log.run(
            "cast-" + dt,
            lambda: [
                torch.tensor(safe).to(getattr(torch, dt)),
                torch.tensor(safe, dtype=torch.float64).to(getattr(torch, dt)),
                (torch.tensor(safe) * 1).to(getattr(torch, dt)),
            ],
        )
    log.run(
        "cast-nan",
        lambda: [torch.tensor([float("nan"), float("inf"), -float("inf")]).to(torch.bool)],
    )
    log.run(
        "cast-half",
        lambda: [
            torch.tensor([65504.0, 65519.0, 65520.0, 1e-8, 6e-8, -65520.0]).half(),
            torch.tensor([3.4e38, 3.39e38, 1e-45]).bfloat16(),
            torch.tensor([1e39], dtype=torch.float64).float(),
        ],
    )
    return log.items

"""Programs after reports.

pytorch/pytorch#117623 (cumsum with out= of a smaller type), #195675 (clamp bounds that do not fit),
#97968 #94055 (mixed integer min/max)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    x = T(torch, rnd(1, 4, 5)) * 1000
    i = T(torch, rnd(1, 4, 5, dtype="int16"))

    def out(fn, dt, shape=(4, 5)):
        o = torch.zeros(shape, dtype=getattr(torch, dt))
        r = fn(o)
        return o, r if hasattr(r, "dtype") else None, r is o

    for dt in ("int16", "int64", "float16", "float32", "float64", "bool", "uint8", "bfloat16"):
        log.run("cumsum-" + dt, lambda: out(lambda o: torch.cumsum(x, 0, out=o), dt))
        log.run("cumsum-int-" + dt, lambda: out(lambda o: torch.cumsum(i, 0, out=o), dt))
        log.run("cumprod-" + dt, lambda: out(lambda o: torch.cumprod(i % 3, 0, out=o), dt))
        log.run("add-" + dt, lambda: out(lambda o: torch.add(i, 1, out=o), dt))
        log.run("addf-" + dt, lambda: out(lambda o: torch.add(x, 1, out=o), dt))
        log.run("sum-" + dt, lambda: out(lambda o: torch.sum(x, 0, out=o), dt, (5,)))
        log.run("sumi-" + dt, lambda: out(lambda o: torch.sum(i, 0, out=o), dt, (5,)))
        log.run("mm-" + dt, lambda: out(lambda o: torch.mm(x, x.t(), out=o), dt, (4, 4)))
        log.run("cat-" + dt, lambda: out(lambda o: torch.cat([x, x], out=o), dt, (8, 5)))
        log.run("eq-" + dt, lambda: out(lambda o: torch.eq(x, 0, out=o), dt))
        log.run("argmax-" + dt, lambda: out(lambda o: torch.argmax(x, 0, out=o), dt, (5,)))
        log.run("exp-" + dt, lambda: out(lambda o: torch.exp(i, out=o), dt))
        log.run("where-" + dt, lambda: out(lambda o: torch.where(x > 0, x, x, out=o), dt))
        log.run(
            "gather-" + dt, lambda: out(lambda o: torch.gather(x, 0, (x > 0).long(), out=o), dt)
        )
        log.run("clamp-" + dt, lambda: out(lambda o: torch.clamp(x, 0, out=o), dt))
        log.run("mean-" + dt, lambda: out(lambda o: torch.mean(x, 0, out=o), dt, (5,)))
        log.run(
            "sort-" + dt,
            lambda: out(
                lambda o: torch.sort(x, 0, out=(o, torch.zeros(4, 5, dtype=torch.int64)))[0], dt
            ),
        )
        log.run("wrongshape-" + dt, lambda: out(lambda o: torch.add(x, 1, out=o), dt, (3,)))
        log.run("arange-" + dt, lambda: out(lambda o: torch.arange(20, out=o), dt))
        log.run("linspace-" + dt, lambda: out(lambda o: torch.linspace(0, 1, 4, out=o), dt, (4,)))
    for v in (3.4e39, -3.4e39, 1e400, 70000.0, 300, -1, 2**70, float("nan"), 1.5):
        for dt in ("float32", "float16", "int32", "uint8", "bfloat16", "float64"):
            t = T(torch, np.array([1, 2, 100]), dt)
            log.run(f"clamp-{v}-{dt}", lambda: t.clamp(max=v))
            log.run(f"clampmin-{v}-{dt}", lambda: torch.clamp_min(t, v))
            log.run(f"add-{v}-{dt}", lambda: t + v)
            log.run(f"mul-{v}-{dt}", lambda: t * v)
            log.run(f"gt-{v}-{dt}", lambda: t > v)
            log.run(f"full-{v}-{dt}", lambda: torch.full((2,), v, dtype=t.dtype))
            log.run(f"fill-{v}-{dt}", lambda: t.clone().fill_(v))
            log.run(f"masked-{v}-{dt}", lambda: t.masked_fill(t > 1, v))
            log.run(f"sub-{v}-{dt}", lambda: v - t)
            log.run(f"where-{v}-{dt}", lambda: torch.where(t > 1, t, v))
            log.run(f"tensor-{v}-{dt}", lambda: torch.tensor(v, dtype=t.dtype))
            log.run(f"setitem-{v}-{dt}", lambda: [t2 := t.clone(), t2.__setitem__(0, v), t2][0])
    dts = ("bool", "uint8", "int8", "int16", "int32", "int64")
    for a in dts:
        for b in dts:
            x1, y1 = (
                T(torch, rnd(1, 5, 10, 1, dtype="int8"), a),
                T(torch, rnd(2, 10, 1, dtype="int8"), b),
            )
            log.run(
                f"max-{a}-{b}",
                lambda: [
                    torch.max(x1, y1),
                    torch.minimum(x1, y1),
                    torch.clamp_max(x1, y1) if a != "bool" else None,
                    torch.clamp(x1, min=y1) if a != "bool" else None,
                    torch.fmax(x1, y1),
                ],
            )
            log.run(
                f"bits-{a}-{b}",
                lambda: [
                    torch.clamp_max(torch.bitwise_and(x1, y1), y1)
                    if not (a == b == "bool")
                    else None,
                    x1 | y1,
                    x1 ^ y1,
                ],
            )
    v0, v2 = T(torch, rnd(3, 3, 4, 2, 1), "int32"), T(torch, rnd(4, 2, 2, 1, 4, 1), "int32")
    log.jit(
        "argmax-min",
        lambda a, b: torch.min(b, a.argmax(3)).min(3).values,
        lambda k: [v0, v2],
        calls=3,
    )
    return log.items

"""Programs after reports.

pytorch/pytorch#105264 #109105 #113016 #113020 #187018; tinygrad/tinygrad#8108: small integers
inside fused kernels wrap
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    fs = {
        "add-to16": lambda x, y: (x + y).to(torch.int16),
        "add-to-float": lambda x, y: (x + y).float() / 2,
        "neg": lambda x, y: torch.neg(x + y).to(torch.int32),
        "mul": lambda x, y: (x * y).to(torch.int32) + 1,
        "sub": lambda x, y: (x - y).to(torch.int64),
        "distribute": lambda x, y: ((x + y) * 3).to(torch.int32) - (x * 3 + y * 3).to(torch.int32),
        "abs-neg-cat": lambda x, y: torch.cat([-(x.abs()), -(x.abs())]).sum(),
        "abs": lambda x, y: x.abs().to(torch.int32),
        "invert": lambda x, y: (~x).to(torch.int32),
        "invert-argmax": lambda x, y: (~x).flatten().argmax(),
        "neg-argmin": lambda x, y: (-x).flatten().argmin(),
        "cmp": lambda x, y: (x + y) > x,
        "where": lambda x, y: torch.where(x + y > 100, x + y, x - y).to(torch.int32),
        "matmul": lambda x, y: torch.matmul(x + y, (x + y).t()),
        "matmul-neg": lambda x, y: torch.neg(x @ y.t()).to(torch.int32),
        "shift": lambda x, y: (x << 3).to(torch.int32) >> 1,
        "rshift": lambda x, y: ((x + x) >> 1).to(torch.int32),
        "square": lambda x, y: x.square().to(torch.int32),
        "pow": lambda x, y: (x**3).to(torch.int32),
        "floordiv": lambda x, y: ((x + x) // 3).to(torch.int32),
        "rem": lambda x, y: ((x + y) % 7).to(torch.int32),
        "fmod": lambda x, y: torch.fmod(x + y, 7).to(torch.int32),
        "div": lambda x, y: (x + y) / 3,
        "sum": lambda x, y: (x + y).sum(),
        "sum-dt": lambda x, y: (x + y).sum(1, dtype=x.dtype),
        "mean": lambda x, y: (x + y).double().mean(0),
        "prod": lambda x, y: (x + 1)[:, :3].prod(1),
        "cumsum": lambda x, y: (x + y).cumsum(1),
        "max": lambda x, y: (x + y).max(1),
        "clamp": lambda x, y: (x + y).clamp(3, 90).to(torch.int32),
        "lerp-int": lambda x, y: x + (y - x) // 2,
        "sort": lambda x, y: (x + y).sort(1).values,
        "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2).to(torch.int32),
        "add-alpha": lambda x, y: torch.add(x, y, alpha=3).to(torch.int32),
        "rsub": lambda x, y: (5 - (x + y)).to(torch.int32),
        "bitxor": lambda x, y: (x ^ (y + y)).to(torch.int32),
        "gt-scalar": lambda x, y: (x + y) > 127,
        "eq-scalar": lambda x, y: (x + y) == 300,
        "mixed": lambda x, y: (x + y) + torch.tensor([1000]),
        "mixed16": lambda x, y: (x + y) * torch.tensor([300], dtype=torch.int16),
        "scalar-tensor": lambda x, y: (x + y) * torch.tensor(2),
        "sign": lambda x, y: torch.sign(x - y).to(torch.int32),
        "gcd": lambda x, y: torch.gcd(x, y),
        "index": lambda x, y: torch.arange(300)[(x + y).to(torch.int64).abs() % 300],
        "diff": lambda x, y: x.diff(dim=1).to(torch.int32),
        "dot": lambda x, y: torch.dot(x[0], y[0]),
        "float-back": lambda x, y: ((x + y).float() * 0.5).to(x.dtype),
    }
    for dt in ("uint8", "int8", "int16", "int32", "int64"):
        for name, fn in fs.items():
            log.jit(
                f"{dt}-{name}",
                fn,
                lambda i: [
                    T(torch, rnd(i, 6, 19, dtype=dt)),
                    T(torch, rnd(20 + i, 6, 19, dtype=dt)),
                ],
                calls=2,
                state=False,
            )
    log.run(
        "zero-dim",
        lambda: [
            (torch.tensor(128, dtype=torch.uint8) + torch.tensor(128, dtype=torch.uint8)).to(
                torch.int16
            ),
            torch.tensor(200, dtype=torch.uint8) + 100,
            torch.tensor([200], dtype=torch.uint8) + 100,
            torch.tensor([-128], dtype=torch.int8).abs(),
            -torch.tensor([-128], dtype=torch.int8),
        ],
    )
    for n, v in (("300", 300), ("-1", -1), ("1.5", 1.5), ("True", True), ("2**40", 2**40)):
        log.run("add-scalar-" + n, lambda: torch.tensor([5], dtype=torch.uint8) + v)
        log.run("full-" + n, lambda: torch.full((2,), v, dtype=torch.uint8))
        log.run("fill-" + n, lambda: torch.zeros(2, dtype=torch.int8).fill_(v))
        log.run("eq-" + n, lambda: torch.tensor([5, 44], dtype=torch.uint8) == v)
        log.run("clamp-" + n, lambda: torch.tensor([5, 44], dtype=torch.uint8).clamp(max=v))
        log.run(
            "where-" + n,
            lambda: torch.where(
                torch.tensor([True, False]), torch.tensor([5, 44], dtype=torch.uint8), v
            ),
        )
        log.run(
            "masked_fill-" + n,
            lambda: torch.tensor([5, 44], dtype=torch.uint8).masked_fill(
                torch.tensor([True, False]), v
            ),
        )
        log.run("iadd-" + n, lambda: torch.tensor([5, 44], dtype=torch.uint8).add_(v))
        log.run(
            "pad-" + n,
            lambda: torch.nn.functional.pad(
                torch.tensor([[5, 44]], dtype=torch.uint8), (1, 1), value=v
            ),
        )
    return log.items

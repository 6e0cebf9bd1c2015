"""Programs after reports.

openxla/xla#42732 jax#37919 (log(exp x), sqrt(x*x)), xla#41579 (a*x + b*x), jax#39336 (alpha * (A @
B + bias)), xla#13054 (products with zeros), #148859: nothing is simplified that rounding or
overflow would show
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    inf, nan = float("inf"), float("nan")
    v = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        89.0,
        100.0,
        -104.0,
        1e20,
        -1e20,
        3.4e38,
        -3.4e38,
        1e-40,
        1e-45,
        inf,
        -inf,
        nan,
        0.1,
        3.3,
        1e10,
        16777217.0,
    ]
    fs = {
        "log-exp": lambda x: torch.log(torch.exp(x)),
        "exp-log": lambda x: torch.exp(torch.log(x.abs())),
        "sqrt-sq": lambda x: torch.sqrt(x * x),
        "sqrt-abs-sq": lambda x: torch.sqrt(torch.abs(torch.square(x))),
        "sq-sqrt": lambda x: torch.sqrt(x.abs()) ** 2,
        "x-x": lambda x: x - x,
        "x/x": lambda x: x / x,
        "x*0": lambda x: x * 0,
        "0*x": lambda x: 0.0 * x,
        "x+0": lambda x: torch.signbit(x + 0.0),
        "x+-0": lambda x: torch.signbit(x + -0.0),
        "x-0": lambda x: torch.signbit(x - 0.0),
        "0-x": lambda x: torch.signbit(0.0 - x),
        "neg": lambda x: torch.signbit(-x),
        "x*1": lambda x: x * 1,
        "x*-1": lambda x: torch.signbit(x * -1),
        "x/1": lambda x: x / 1,
        "x**1": lambda x: x**1,
        "x**0": lambda x: x**0,
        "x**2": lambda x: x**2,
        "x**.5": lambda x: x**0.5,
        "x**-1": lambda x: x**-1,
        "x**-.5": lambda x: x**-0.5,
        "x**3": lambda x: x**3,
        "x*2/2": lambda x: x * 2 / 2,
        "x/3*3": lambda x: x / 3 * 3,
        "(x+1e20)-1e20": lambda x: (x + 1e20) - 1e20,
        "x+x-x": lambda x: (x + x) - x,
        "recip": lambda x: 1 / (1 / x),
        "neg-neg": lambda x: -(-x),
        "abs-abs": lambda x: x.abs().abs(),
        "max-self": lambda x: torch.maximum(x, x),
        "where-nan": lambda x: torch.where(x != x, 7.0, x),
        "x==x": lambda x: x == x,
        "x>=x": lambda x: x >= x,
        "x<x+1": lambda x: x < x + 1,
        "isnan": lambda x: torch.isnan(x * 0),
        "relu": lambda x: torch.signbit(torch.relu(x)),
        "clamp0": lambda x: torch.signbit(x.clamp(min=0)),
        "max0": lambda x: torch.signbit(torch.maximum(x, torch.zeros(()))),
        "min0": lambda x: torch.signbit(torch.minimum(x, torch.tensor(-0.0))),
        "sum-neg0": lambda x: torch.signbit((x * 0 * -1).sum()),
        "sigm": lambda x: torch.sigmoid(x) + torch.sigmoid(-x),
        "tanh-atanh": lambda x: torch.tanh(torch.atanh(x.clamp(-1, 1))),
        "logsig": lambda x: torch.log(torch.sigmoid(x)),
        "log1p-expm1": lambda x: torch.log1p(torch.expm1(x)),
        "softplus": lambda x: torch.log1p(torch.exp(x)),
        "double-half": lambda x: x.half().float(),
        "int-trip": lambda x: x.clamp(-1e6, 1e6).nan_to_num().int().float(),
        "round": lambda x: torch.round(x * 10) / 10,
        "rsqrt-sq": lambda x: torch.rsqrt(x * x),
        "square-neg": lambda x: (-x).square() - x.square(),
        "pow-pow": lambda x: (x**2) ** 0.5,
        "exp-exp": lambda x: torch.exp(x) * torch.exp(-x),
        "cumsum-diff": lambda x: x[:5].cumsum(0).diff(),
        "assoc": lambda x: [(x + 1e8) + (x - 1e8), x + (1e8 - 1e8)],
        "distr": lambda x: 3 * (x + 0.1) - (3 * x + 0.3),
        "fma": lambda x: 1e20 * x + -1e20 * x,
        "fma2": lambda x: x * x - x * x,
        "fma3": lambda x: x * 3.3 + x * -3.3,
        "const": lambda x: x * (1e30 * 1e30) if False else (x * 1e30) * 1e30,
        "const2": lambda x: (x * 1e-30) * 1e-30,
        "div-const": lambda x: (x / 1e30) / 1e30,
        "add-consts": lambda x: (x + 1e-8) + 1e-8,
        "sub-mean": lambda x: (x[:5] - x[:5].mean()).sum().abs() < 1,
        "frac": lambda x: x - torch.floor(x),
        "sign-abs": lambda x: torch.sign(x) * x.abs(),
        "copysign": lambda x: torch.copysign(x.abs(), x),
        "double-neg-max": lambda x: -torch.maximum(-x, torch.tensor(-5.0)),
        "select": lambda x: torch.where(x > 0, x / x, 0.0),
        "logsumexp": lambda x: torch.logsumexp(torch.stack([x, x]), 0),
        "norm": lambda x: x[:8].norm(),
        "std": lambda x: (x[2:6] * 0 + 0.1).std(),
    }
    for n, f in fs.items():
        for dt in ("float32", "float64"):
            log.jit(
                f"{n}-{dt}",
                f,
                lambda k: [T(torch, np.array(v), dt)],
                calls=1,
                state=False,
                rtol=3e-6,
                atol=0,
            )
    log.jit(
        "abx",
        lambda a, b, x: [
            a * x + b * x,
            (a + b) * x,
            torch.addcmul(a * x, b, x),
            a * x - (-b) * x,
            torch.dot(torch.stack([a, b]), torch.stack([x, x])),
        ],
        lambda k: [torch.tensor(1e20), torch.tensor(-1e20), torch.tensor(1e10 + k)],
        rtol=1e-6,
        atol=0,
    )
    mk = lambda k: [
        T(torch, rnd(k, 5, 7)),
        T(torch, rnd(k + 1, 7, 4)),
        T(torch, rnd(k + 2, 4)),
        T(torch, rnd(k + 3, 5, 4)),
    ]
    log.jit(
        "alpha-bias",
        lambda a, b, c, p: [
            0.015625 * (a @ b + c),
            p + (a @ b + c) / 64,
            (a @ b + c) * 3 - c,
            torch.nn.functional.linear(a, b.t(), c) * 0.5 + p,
            torch.addmm(c, a, b, beta=2, alpha=0.5) * 3,
            torch.baddbmm(p[None], a[None], b[None], beta=0.5, alpha=2),
            (a @ b) * 2 + (a @ b),
            -(a @ b),
            (2 * a) @ (b * 3),
            a @ (b + 0),
            (a @ b).t() @ p,
            a.t() @ (a @ b),
            (a @ b) @ p.t() @ a,
        ],
        mk,
        calls=3,
        rtol=1e-4,
    )
    log.jit(
        "beta0-nan",
        lambda a, b, c, p: [
            torch.addmm(p * nan, a, b, beta=0),
            torch.addmv(p[:, 0] * nan, a, b[:, 0], beta=0),
            torch.baddbmm(p[None] * inf, a[None], b[None], beta=0),
            torch.addr(p * nan, a[:, 0], c, beta=0),
            torch.addbmm(p * nan, a[None], b[None], beta=0),
            torch.addmm(p, a, b * inf, alpha=0).isnan(),
        ],
        mk,
        calls=2,
        rtol=1e-4,
    )
    log.jit(
        "zeros-in-product",
        lambda a, b, c, p: [
            (a @ (b * 0)) + p,
            torch.where(torch.eye(5, 7) > 0, a, 0.0) @ b,
            (a * inf) @ torch.zeros(7, 2),
            torch.zeros(2, 5) @ (a * nan),
        ],
        mk,
        calls=2,
        rtol=1e-4,
    )

    def fun(x, y, w):
        d = y - x
        return d @ w + (d @ torch.zeros(3, 3)) @ d

    def mean_fun(x, ys, w):
        return torch.func.vmap(lambda y: fun(x, y, w))(ys).mean()

    log.jit(
        "grad-zeros",
        lambda x, ys, w: torch.func.grad(mean_fun)(x, ys, w),
        lambda k: [torch.ones(3), torch.ones(5000, 3) + k, torch.tensor([1.0, 2.0, 3.0])],
        calls=3,
    )
    return log.items

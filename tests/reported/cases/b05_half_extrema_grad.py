"""Programs after reports.

tinygrad/tinygrad#12296: gradient of max over 70000 equal half values underflowed (counts in half)
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    n = 70000

    def g(fn, x):
        x = x.clone().requires_grad_()
        y = fn(x)
        y.sum().backward()
        return y, x.grad[:5], x.grad.float().sum(), x.grad.dtype

    for dt in ("float16", "bfloat16", "float32"):
        one = torch.ones(n).to(getattr(torch, dt))
        mix = torch.arange(n).remainder(7).to(getattr(torch, dt))
        for name, fn in {
            "max": lambda x: x.max(),
            "amax": lambda x: x.amax(),
            "amin": lambda x: x.amin(0),
            "min": lambda x: x.min(),
            "mean": lambda x: x.mean(),
            "var": lambda x: x.var(),
            "std": lambda x: x[:3000].std(),
            "sum": lambda x: x[:60000].sum(),
            "norm": lambda x: x[:1000].norm(),
            "logsumexp": lambda x: x.logsumexp(0),
            "median": lambda x: x.median(),
            "softmax": lambda x: x.softmax(0)[0],
            "norminf": lambda x: x.norm(float("inf")),
            "max2d": lambda x: x.view(7, -1).max(1).values,
            "amax2d": lambda x: x.view(7, -1).amax(1),
            "cummax": lambda x: x[:500].cummax(0).values,
            "topk": lambda x: x[:500].topk(3).values,
            "prod": lambda x: x[:9].prod(),
            "maxpool": lambda x: torch.nn.functional.max_pool1d(x[None, None].float(), 1000).to(
                x.dtype
            ),
            "aminmax": lambda x: torch.aminmax(x)[0],
            "mse": lambda x: torch.nn.functional.mse_loss(x, x * 0),
            "bn": lambda x: torch.nn.functional.layer_norm(x[:2048], (2048,)),
        }.items():
            log.run(
                f"{dt}-{name}-ones",
                lambda: g(fn, one),
                rtol=2e-2 if dt != "float32" else 2e-4,
                atol=1e-6,
            )
            log.run(
                f"{dt}-{name}-mix",
                lambda: g(fn, mix),
                rtol=2e-2 if dt != "float32" else 2e-4,
                atol=1e-6,
            )
    return log.items

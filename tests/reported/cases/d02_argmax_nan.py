"""Programs after reports.

tensorflow/tensorflow#118647 #120232 jax-ml/jax#3193 pytorch#118266: argmax/argmin with NaN at all
places and sizes
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    nan, inf = float("nan"), float("inf")
    for dt in ("float32", "float64", "float16", "bfloat16"):
        for n in (1, 2, 3, 5, 7, 8, 9, 16, 17, 33, 100):
            for where in sorted({0, n // 2, n - 1}):
                v = np.arange(n, dtype="float32") - 2
                v[where] = nan
                t = T(torch, v, dt)
                log.run(
                    f"{dt}-{n}-{where}",
                    lambda: [
                        t.argmax(),
                        t.argmin(),
                        t.max(),
                        t.min(),
                        t.max(0),
                        t.min(0),
                        t.amax(),
                        t.amin(),
                        t.sort(),
                        t.sort(descending=True),
                        t.topk(1),
                        t.cummax(0),
                        t.cummin(0),
                        torch.log1p(t).argmax(),
                        t.median(),
                        t.nanmedian(),
                        t.nansum(),
                        t.nanmean(),
                        t.kthvalue(1),
                        torch.aminmax(t),
                        t.msort(),
                    ],
                )
            al = T(torch, np.full(n, nan, dtype="float32"), dt)
            log.run(
                f"{dt}-{n}-all",
                lambda: [
                    al.argmax(),
                    al.argmin(),
                    al.max(0),
                    al.min(0),
                    al.sort(),
                    al.cummax(0),
                    al.nansum(),
                    al.nanmean(),
                    al.nanmedian(),
                    al.mode().values.isnan(),
                    al.unique().shape,
                    al.softmax(0),
                ],
            )
    x = T(
        torch,
        np.array([[1, nan, 3, -inf], [nan, nan, inf, 0], [inf, -inf, 2, nan]], dtype="float32"),
    )
    log.run(
        "2d",
        lambda: [
            x.argmax(0),
            x.argmax(1),
            x.max(0),
            x.max(1),
            x.min(1),
            x.amax((0, 1)),
            x.t().argmax(0),
            x.sort(0),
            x.sort(1, descending=True),
            x.nanmean(0),
            x.nansum(1),
            x.logsumexp(1),
            x.softmax(1),
            x.log_softmax(0),
            x.clamp(0, 1),
            x.relu(),
            x.sign(),
            torch.maximum(x, x.flip(0)),
            torch.fmax(x, x.flip(0)),
            x.nan_to_num(),
            x.cumsum(1),
            x.cumprod(0),
            x.all(1),
            x.any(0),
            (x > 0),
            x.bool(),
            x.isfinite(),
            x.unique(),
            x.nanquantile(0.5, 1),
            x.quantile(0.5, 1),
            x.var(1),
            x.norm(),
            x.norm(inf),
            x.round(),
            x.floor(),
            x.trunc(),
            x.frac(),
            x.int().shape,
            torch.isclose(x, x, equal_nan=True),
            torch.equal(x, x),
            torch.allclose(x, x, equal_nan=True),
            x.count_nonzero(),
            x.nonzero(),
            x.heaviside(torch.tensor(0.5)),
            x.sgn(),
            x.hardtanh(0, 1) if hasattr(x, "hardtanh") else 0,
            torch.nn.functional.hardtanh(x),
            torch.nn.functional.relu6(x),
            torch.nn.functional.leaky_relu(x),
            torch.nn.functional.softplus(x),
            torch.nn.functional.elu(x),
            torch.nn.functional.gelu(x),
            torch.nn.functional.threshold(x, 0.0, 7.0),
            torch.nn.functional.hardshrink(x),
            torch.nn.functional.softshrink(x),
            torch.nn.functional.max_pool1d(x[None], 2),
            torch.nn.functional.avg_pool1d(x[None], 2),
            torch.nn.functional.hardswish(x),
            torch.nn.functional.silu(x),
            torch.nn.functional.mish(x),
            torch.nn.functional.hardsigmoid(x),
        ],
    )
    log.run(
        "hist",
        lambda: [
            torch.histc(torch.tensor([1.0, 2.0, 2.0]), 4, 0, 3),
            torch.bucketize(x[0], torch.tensor([0.0, 2.0])),
            torch.searchsorted(torch.tensor([0.0, 2.0]), x[0]),
        ],
    )

    def g(fn):
        y = T(torch, np.array([1, nan, 3, nan, 3], dtype="float32"), grad=True)
        fn(y).sum().backward()
        return y.grad

    for n, f in {
        "max": lambda y: y.max(),
        "maxdim": lambda y: y.max(0).values,
        "nansum": lambda y: y.nansum(),
        "nan_to_num": lambda y: y.nan_to_num(),
        "where": lambda y: torch.where(y > 0, y, 0.0),
        "relu": lambda y: y.relu(),
        "maximum": lambda y: torch.maximum(y, y.detach().flip(0)),
        "sort": lambda y: y.sort().values * torch.arange(5),
        "cummax": lambda y: y.cummax(0).values,
    }.items():
        log.run("grad-" + n, lambda: g(f))
    return log.items

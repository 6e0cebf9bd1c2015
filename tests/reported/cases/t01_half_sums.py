"""Programs after reports.

half-precision sums and statistics: pytorch#81077-like, tinygrad#12296, pytorch#132301 #170682,
flagos-ai#124 reports: long sums in 16 bits, means of large values, norms that overflow in between
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional
    for dt in ("float16", "bfloat16"):
        rt = 3e-3 if dt == "float16" else 2e-2
        big = lambda n, v: torch.full((n,), v).to(getattr(torch, dt))
        ramp = (torch.arange(4096) % 97).to(getattr(torch, dt))
        for n, f in {
            "sum-ones": lambda: big(70000, 1.0).sum(),
            "sum-2049": lambda: big(2049, 1.0).sum(),
            "sum-overflow": lambda: big(1000, 100.0).sum(),
            "mean-overflow": lambda: big(1000, 60000.0 if dt == "float16" else 1e38).mean(),
            "mean-rows": lambda: big(4096, 1000.0).view(64, 64).mean(0),
            "var": lambda: ramp.var(),
            "std": lambda: (ramp + 1000).std(),
            "norm": lambda: big(1000, 300.0).norm(),
            "norm-rows": lambda: big(1024, 300.0).view(32, 32).norm(dim=1),
            "square-sum": lambda: (big(10, 300.0) ** 2).sum(),
            "dot": lambda: torch.dot(big(3000, 1.0), big(3000, 1.0)),
            "mm": lambda: big(4096, 1.0).view(2, 2048) @ big(2048, 1.0).view(2048, 1),
            "mm-cancel": lambda: (
                torch.cat([big(1, 2048.0), big(64, 1.0), big(1, -2048.0)])[None]
                @ big(66, 1.0)[:, None]
            ),
            "cumsum": lambda: big(3000, 1.0).cumsum(0)[-3:],
            "cumprod": lambda: (big(30, 1.5)).cumprod(0)[-1],
            "softmax": lambda: (ramp * 0.1).softmax(0).sum(),
            "log_softmax": lambda: (ramp * 0.1).log_softmax(0)[:4],
            "logsumexp": lambda: (ramp[:100] * 0.1).logsumexp(0),
            "layer_norm": lambda: F.layer_norm(ramp.view(8, 512), (512,))[0, :4],
            "group_norm": lambda: F.group_norm(ramp.view(2, 8, 256), 4)[0, 0, :4],
            "batch_norm": lambda: F.batch_norm(ramp.view(64, 64), None, None, training=True)[0, :4],
            "rms": lambda: F.rms_norm(ramp.view(8, 512), (512,))[0, :4],
            "conv": lambda: F.conv1d(big(600, 1.0).view(1, 100, 6), big(300, 1.0).view(1, 100, 3))[
                0, 0
            ],
            "avg_pool": lambda: F.avg_pool1d(
                big(4096, 60000.0 if dt == "float16" else 3.0).view(1, 1, -1), 4096
            ),
            "mse": lambda: F.mse_loss(big(4096, 200.0), big(4096, 0.0)),
            "cross_entropy": lambda: F.cross_entropy(ramp.view(64, 64) * 0.1, torch.arange(64)),
            "sum-dtype": lambda: big(70000, 1.0).sum(dtype=torch.float32),
            "sum-int": lambda: big(2049, 1.0).to(torch.int8).sum(),
            "prod": lambda: big(12, 2.5).prod(),
            "nansum": lambda: big(70000, 1.0).nansum(),
            "count": lambda: (big(70000, 1.0) > 0).sum(),
            "bool-mean": lambda: (ramp > 50).to(ramp.dtype).mean(),
            "index_add": lambda: (
                torch.zeros(2)
                .to(ramp.dtype)
                .index_add(0, torch.zeros(3000, dtype=torch.int64), big(3000, 1.0))
            ),
            "scatter_add": lambda: (
                torch.zeros(2)
                .to(ramp.dtype)
                .scatter_add(0, torch.zeros(3000, dtype=torch.int64), big(3000, 1.0))
            ),
            "bincount": lambda: torch.bincount(
                torch.zeros(3000, dtype=torch.int64), weights=big(3000, 1.0)
            ),
            "einsum": lambda: torch.einsum("i,i->", big(3000, 1.0), big(3000, 1.0)),
            "trapz": lambda: torch.trapezoid(big(3000, 1.0)),
            "dist": lambda: torch.dist(big(3000, 1.0), big(3000, 0.0)),
            "cdist": lambda: torch.cdist(
                big(300, 10.0).view(1, 300).float(), big(300, 0.0).view(1, 300).float()
            ),
            "linspace": lambda: torch.linspace(0, 1, 7, dtype=ramp.dtype),
            "arange": lambda: torch.arange(0, 1, 0.1, dtype=ramp.dtype),
            "lerp": lambda: torch.lerp(ramp[:5], ramp[5:10], 0.3),
            "addcdiv": lambda: torch.addcdiv(ramp[:5], ramp[5:10], ramp[10:15] + 1, value=0.5),
            "chain": lambda: ((ramp[:9] * 3.3 + 0.1) / 7).exp().log(),
            "gelu": lambda: F.gelu(ramp[:9] * 0.1),
            "sdpa": lambda: F.scaled_dot_product_attention(
                ramp[:64].view(1, 1, 8, 8) * 0.01,
                ramp[64:128].view(1, 1, 8, 8) * 0.01,
                ramp[128:192].view(1, 1, 8, 8),
            ),
        }.items():
            log.run(f"{dt}-{n}", f, rtol=rt, atol=1e-3)

        def g(f):
            x = (torch.arange(1, 4097) % 97).to(getattr(torch, dt)).requires_grad_()
            f(x).sum().backward()
            return x.grad[:5]

        for n, f in {
            "mean": lambda x: x.mean(),
            "norm": lambda x: x.norm(),
            "softmax": lambda x: (x * 0.1).softmax(0)[3],
            "ln": lambda x: F.layer_norm(x.view(8, 512), (512,))[:, 0],
            "var": lambda x: x.var(),
            "lse": lambda x: x.logsumexp(0),
            "mse": lambda x: F.mse_loss(x, x * 0),
            "expand": lambda x: x[:1].expand(4096),
            "expand-ones": lambda x: x[:1].expand(70000) * 1e-3,
            "repeat": lambda x: x[:1].repeat(3000),
            "embedding": lambda x: F.embedding(
                torch.zeros(3000, dtype=torch.int64), x.view(64, 64)
            ),
            "index": lambda x: x[torch.zeros(3000, dtype=torch.int64)],
            "mm": lambda x: x.view(64, 64) @ torch.ones(64, 3).to(x.dtype) * 1e-2,
            "bias": lambda x: torch.ones(3000, 5).to(x.dtype) + x[:5],
        }.items():
            log.run(f"{dt}-grad-{n}", lambda: g(f), rtol=rt * 2, atol=1e-4)
    return log.items

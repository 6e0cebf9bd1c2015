"""Programs after reports.

pytorch/pytorch#130394: outputs made by empty_strided keep their strides; as_strided of them sees
the memory
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)

    def f(x):
        r = x + x
        out = torch.empty_strided(x.size(), x.stride())
        out[:] = r
        return out, out.stride(), torch.as_strided(out, (4, 4), (out.stride(0), 1))

    def g(x):
        out = torch.empty_strided((4, 3), (1, 4))
        out.copy_(x[:4, :3])
        return (
            out,
            out.stride(),
            out.t().contiguous().stride(),
            (out * 2).stride(),
            torch.empty_like(out).stride(),
            torch.zeros_like(out).stride(),
        )

    def h(x):
        out = torch.zeros(8, 8)
        torch.mul(x[:4, :4], 2, out=out[::2, ::2])
        return (
            out,
            x.clone().stride(),
            x.contiguous().stride(),
            (x * 1).stride(),
            x.to(torch.float64).stride(),
        )

    mk = lambda i: [torch.as_strided(torch.arange(256.0).reshape(16, 16) + i, (16, 8), (16, 1))]
    for n, fn in (("gap", f), ("turned", g), ("out", h)):
        log.jit(n, fn, mk, state=False)
        log.jit(n + "-t", fn, lambda i: [(torch.arange(64.0).reshape(8, 8) + i).t()], state=False)
    perm = [torch.zeros(2, 3, 4, 5).permute(p) for p in ((0, 2, 3, 1), (3, 0, 1, 2), (1, 0, 3, 2))]
    for n, p in enumerate(perm):
        log.run(
            f"strides-{n}",
            lambda: [
                (p + 1).stride(),
                p.exp().stride(),
                (p + p.contiguous()).stride(),
                (p.contiguous() + p).stride(),
                torch.where(p > 0, p, p).stride(),
                p.clone().stride(),
                torch.empty_like(p).stride(),
                p.sum(1).stride(),
                p.softmax(1).stride(),
                p.cumsum(1).stride(),
                torch.cat([p, p], 1).stride(),
                torch.stack([p, p]).stride(),
                p.float().stride(),
                p.double().stride(),
                p.flip(0).stride(),
                p.sort(1).values.stride(),
                torch.nn.functional.relu(p).stride(),
                torch.nn.functional.gelu(p).stride(),
                p.index_select(0, torch.tensor([0])).stride(),
                p[torch.tensor([0])].stride(),
                p.masked_fill(p > 0, 1).stride(),
                p.tril().stride(),
                p.roll(1, 0).stride(),
                torch.nn.functional.dropout(p, 0.5).stride(),
                torch.rand_like(p).stride(),
                p.reshape(-1).stride(),
                p.repeat(1, 1, 1, 1).stride(),
                torch.nn.functional.layer_norm(p, p.shape[-1:]).stride(),
                torch.nn.functional.log_softmax(p, -1).stride(),
            ],
        )
    return log.items

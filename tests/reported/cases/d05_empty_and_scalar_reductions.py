"""Programs after reports.

pytorch/pytorch#197108 #193265 #163971 #188218 PR 35062, xla#887, apache/tvm#19676: reductions of
empty and 0-dim tensors
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional
    ops = {
        "sum": lambda x, d: x.sum(d) if d is not None else x.sum(),
        "mean": lambda x, d: x.mean(d) if d is not None else x.mean(),
        "prod": lambda x, d: x.prod(d) if d is not None else x.prod(),
        "max": lambda x, d: x.max(d) if d is not None else x.max(),
        "min": lambda x, d: x.min(d) if d is not None else x.min(),
        "amax": lambda x, d: x.amax(d) if d is not None else x.amax(),
        "argmax": lambda x, d: x.argmax(d),
        "argmin": lambda x, d: x.argmin(d),
        "any": lambda x, d: x.any(d) if d is not None else x.any(),
        "all": lambda x, d: x.all(d) if d is not None else x.all(),
        "var": lambda x, d: x.var(d),
        "std": lambda x, d: x.std(d, correction=0),
        "var_mean": lambda x, d: torch.var_mean(x, d),
        "std_mean": lambda x, d: torch.std_mean(x, d, correction=0),
        "lse": lambda x, d: x.logsumexp(0 if d is None else d),
        "norm": lambda x, d: x.norm(dim=d),
        "norminf": lambda x, d: torch.linalg.vector_norm(x, float("inf"), d),
        "norm0": lambda x, d: torch.linalg.vector_norm(x, 0, d),
        "median": lambda x, d: x.median(d) if d is not None else x.median(),
        "mode": lambda x, d: x.mode(-1 if d is None else d),
        "sort": lambda x, d: x.sort(-1 if d is None else d),
        "topk": lambda x, d: x.topk(0, -1 if d is None else d),
        "topk1": lambda x, d: x.topk(1, -1 if d is None else d),
        "kth": lambda x, d: x.kthvalue(1, -1 if d is None else d),
        "cumsum": lambda x, d: x.cumsum(0 if d is None else d),
        "cumprod": lambda x, d: x.cumprod(0 if d is None else d),
        "cummax": lambda x, d: x.cummax(0 if d is None else d),
        "logcumsumexp": lambda x, d: x.logcumsumexp(0 if d is None else d),
        "softmax": lambda x, d: x.softmax(0 if d is None else d),
        "log_softmax": lambda x, d: x.log_softmax(-1 if d is None else d),
        "aminmax": lambda x, d: torch.aminmax(x, dim=d),
        "count": lambda x, d: x.count_nonzero(d),
        "nansum": lambda x, d: x.nansum(d),
        "nanmean": lambda x, d: x.nanmean(d),
        "quantile": lambda x, d: x.quantile(0.5, d),
        "unique": lambda x, d: x.unique(dim=d),
        "flip": lambda x, d: x.flip(0 if d is None else d),
        "diff": lambda x, d: x.diff(dim=-1 if d is None else d),
        "cat": lambda x, d: torch.cat([x, x], 0 if d is None else d),
        "norm1": lambda x, d: x.norm(1, dim=d),
        "renorm": lambda x, d: x.renorm(2, 0 if d is None else d, 1.0),
        "index": lambda x, d: x.index_select(
            0 if d is None else d, torch.tensor([], dtype=torch.int64)
        ),
        "gather": lambda x, d: x.gather(
            0 if d is None else d, torch.zeros(x.shape, dtype=torch.int64)
        ),
        "squeeze": lambda x, d: x.squeeze(d) if d is not None else x.squeeze(),
        "unbind": lambda x, d: x.unbind(0 if d is None else d),
        "split": lambda x, d: x.split(1, 0 if d is None else d),
        "chunk": lambda x, d: x.chunk(2, 0 if d is None else d),
        "dist": lambda x, d: torch.dist(x, x),
        "trapz": lambda x, d: torch.trapezoid(x, dim=-1 if d is None else d),
        "normalize": lambda x, d: F.normalize(x, dim=0 if d is None else d),
        "glu": lambda x, d: F.glu(x, -1 if d is None else d),
        "select": lambda x, d: x.select(0 if d is None else d, 0),
        "narrow": lambda x, d: x.narrow(0 if d is None else d, 0, 0),
        "tril": lambda x, d: x.tril(),
        "matmul": lambda x, d: x @ x.transpose(-1, -2) if x.ndim > 1 else x @ x,
        "roll": lambda x, d: x.roll(1, d),
        "bincount": lambda x, d: torch.bincount(x.long().flatten()),
        "histc": lambda x, d: x.histc(3),
        "cov": lambda x, d: x.cov(),
        "max2": lambda x, d: x.max(),
        "einsum": lambda x, d: torch.einsum("...i->...", x),
        "item": lambda x, d: x.item(),
        "bool": lambda x, d: bool(x),
        "tolist": lambda x, d: x.tolist(),
        "repr": lambda x, d: repr(x),
        "repeat": lambda x, d: x.repeat(2, 2),
        "expand": lambda x, d: x.expand(3, *x.shape),
        "pad": lambda x, d: F.pad(x, (1, 1)),
        "reshape": lambda x, d: x.reshape(-1),
        "reshape0": lambda x, d: x.reshape(0, -1),
        "view2": lambda x, d: x.view(x.shape + (1,)),
    }
    shapes = [(), (0,), (0, 3), (3, 0), (2, 0, 3), (1, 0, 1), (1,)]
    for n, f in ops.items():
        for s in shapes:
            for d in (None, 0, 1, -1):
                if d is not None and d >= max(len(s), 1) and d > 0:
                    continue
                log.run(f"{n}-{s}-{d}", lambda: f(torch.ones(s) * 5, d))
        log.run(f"{n}-int0", lambda: f(torch.zeros(0, dtype=torch.int64), None))
        log.run(f"{n}-int()", lambda: f(torch.tensor(5), None))
        log.run(f"{n}-bool()", lambda: f(torch.tensor(True), None))
        log.run(f"{n}-double0", lambda: f(torch.zeros(2, 0, dtype=torch.float64), None))
    for n, f in {
        "const-cumsum": lambda: torch.tensor(5.0).cumsum(0),
        "const-cumsum-1": lambda: torch.tensor(5).cumsum(-1),
        "bool-cumsum": lambda: torch.tensor(True).cumsum(0),
        "zeros": lambda: torch.zeros(()).cumsum(0),
        "softmax0": lambda: torch.softmax(
            F.gelu(torch.softmax(torch.tensor(0.3, dtype=torch.bfloat16), 0)), 0
        ),
        "max-of-sum": lambda: torch.max(torch.arange(4.0).sum()),
        "frac-pool": lambda: F.fractional_max_pool2d(
            torch.zeros(2, 8, 0, 4), 1, output_size=(0, 0)
        ),
        "conv-empty": lambda: F.conv2d(torch.zeros(0, 3, 5, 5), torch.zeros(2, 3, 3, 3)),
        "linear-empty": lambda: F.linear(torch.zeros(0, 3), torch.zeros(2, 3)),
        "linear-in0": lambda: F.linear(torch.zeros(4, 0), torch.zeros(2, 0), torch.ones(2)),
        "mm-k0": lambda: torch.zeros(3, 0) @ torch.zeros(0, 2),
        "bmm-0": lambda: torch.bmm(torch.zeros(0, 3, 2), torch.zeros(0, 2, 5)),
        "addmm-k0": lambda: torch.addmm(torch.ones(3, 2), torch.zeros(3, 0), torch.zeros(0, 2)),
        "ce-empty": lambda: F.cross_entropy(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)),
        "mse-empty": lambda: F.mse_loss(torch.zeros(0), torch.zeros(0)),
        "ln-empty": lambda: F.layer_norm(torch.zeros(0, 3), (3,)),
        "bn-empty": lambda: F.batch_norm(torch.zeros(0, 3), torch.zeros(3), torch.ones(3)),
        "bn-empty-train": lambda: F.batch_norm(
            torch.zeros(0, 3), torch.zeros(3), torch.ones(3), training=True
        ),
        "pool-empty": lambda: F.max_pool2d(torch.zeros(0, 3, 4, 4), 2),
        "pool-empty-c": lambda: F.avg_pool2d(torch.zeros(1, 0, 4, 4), 2),
        "emb-empty": lambda: F.embedding(torch.zeros(0, dtype=torch.int64), torch.zeros(3, 2)),
        "interp-empty": lambda: F.interpolate(torch.zeros(0, 3, 4, 4), scale_factor=2),
        "sdpa-empty": lambda: F.scaled_dot_product_attention(
            torch.zeros(1, 0, 4), torch.zeros(1, 0, 4), torch.zeros(1, 0, 4)
        ),
        "sdpa-k0": lambda: F.scaled_dot_product_attention(
            torch.zeros(1, 2, 4), torch.zeros(1, 0, 4), torch.zeros(1, 0, 4)
        ),
        "lstm-empty": lambda: torch.nn.LSTM(2, 3)(torch.zeros(0, 1, 2))[0].shape,
        "one_hot-empty": lambda: F.one_hot(torch.zeros(0, dtype=torch.int64), 3),
        "one_hot-none": lambda: F.one_hot(torch.zeros(0, dtype=torch.int64)),
        "cdist-empty": lambda: torch.cdist(torch.zeros(0, 3), torch.zeros(2, 3)),
        "nonzero": lambda: torch.zeros(3, 0).nonzero(),
        "where": lambda: torch.where(torch.zeros(0, dtype=torch.bool)),
        "mask": lambda: torch.zeros(3, 0)[torch.zeros(3, dtype=torch.bool)],
        "index-put": lambda: torch.zeros(3).index_put(
            (torch.zeros(0, dtype=torch.int64),), torch.tensor(1.0)
        ),
        "scatter": lambda: torch.zeros(3).scatter(
            0, torch.zeros(0, dtype=torch.int64), torch.zeros(0)
        ),
        "meshgrid": lambda: torch.meshgrid(torch.zeros(0), torch.zeros(2), indexing="ij")[0].shape,
        "cat-legacy": lambda: torch.cat([torch.zeros(0), torch.ones(2, 3)]),
        "stack0": lambda: torch.stack([]),
        "cat0": lambda: torch.cat([]),
        "inv": lambda: torch.linalg.inv(torch.zeros(0, 0)),
        "det": lambda: torch.linalg.det(torch.zeros(0, 0)),
        "svd": lambda: [s.shape for s in torch.linalg.svd(torch.zeros(0, 3))],
        "eigh": lambda: torch.linalg.eigh(torch.zeros(0, 0))[0].shape,
        "solve": lambda: torch.linalg.solve(torch.zeros(0, 0), torch.zeros(0, 2)),
        "arange": lambda: torch.arange(0),
        "linspace0": lambda: torch.linspace(0, 1, 0),
        "eye0": lambda: torch.eye(0, 3),
        "randperm0": lambda: torch.randperm(0),
        "multinomial": lambda: torch.multinomial(torch.zeros(0), 1),
        "tensordot": lambda: torch.tensordot(torch.zeros(2, 0), torch.zeros(0, 3), 1),
        "outer": lambda: torch.outer(torch.zeros(0), torch.zeros(2)),
        "kron": lambda: torch.kron(torch.zeros(0, 2), torch.ones(2, 2)).shape,
        "clip": lambda: torch.nn.utils.clip_grad_norm_([], 1.0),
        "vander": lambda: torch.vander(torch.zeros(0)).shape,
        "unfold": lambda: torch.zeros(3).unfold(0, 0, 1).shape,
        "as_tensor": lambda: torch.as_tensor([]),
        "tensor-nested": lambda: torch.tensor([[], []]).shape,
    }.items():
        log.run("x-" + n, f)
    log.grads(
        "g-empty",
        lambda x: [x.sum(0), (x * 2).sum(), x.cumsum(0), x.softmax(1)],
        lambda k: [torch.zeros(0, 3, requires_grad=True)],
    )
    log.grads(
        "g-empty-mean",
        lambda x, w: [(x @ w).sum()],
        lambda k: [torch.zeros(0, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)],
    )
    return log.items

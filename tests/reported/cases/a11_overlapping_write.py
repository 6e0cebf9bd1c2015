"""Programs after reports.

pytorch/pytorch#174371 PR 184864: in-place writes to views that overlap themselves are errors
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    mk = lambda i: [torch.arange(8.0) + i]
    views = {
        "window": lambda x: x.as_strided((3, 4), (1, 1)),
        "gapped": lambda x: x.as_strided((2, 3), (4, 1)),
        "zero": lambda x: x.as_strided((3, 2), (0, 1)),
        "unfold": lambda x: x.unfold(0, 4, 2),
        "unfold-apart": lambda x: x.unfold(0, 2, 2),
        "expand": lambda x: x[:, None].expand(8, 3),
        "size1": lambda x: x.as_strided((1, 8), (0, 1)),
        "complicated": lambda x: x.as_strided((2, 3), (3, 2)),
        "empty": lambda x: x.as_strided((0, 3), (1, 1)),
    }
    ops = {
        "add_": lambda v: v.add_(1),
        "mul_": lambda v: v.mul_(v),
        "exp_": lambda v: v.exp_(),
        "fill_": lambda v: v.fill_(3),
        "copy_": lambda v: v.copy_(torch.arange(float(v.numel())).reshape(v.shape)),
        "zero_": lambda v: v.zero_(),
        "setitem": lambda v: v.__setitem__(0, 9.0) if v.numel() else None,
        "masked_fill_": lambda v: v.masked_fill_(v > 2, 0),
        "clamp_": lambda v: v.clamp_(1, 2),
        "index_fill_": lambda v: v.index_fill_(0, torch.tensor([0]), 5) if v.numel() else None,
        "index_add_": lambda v: (
            v.index_add_(0, torch.tensor([0]), torch.ones(1, v.shape[1])) if v.numel() else None
        ),
        "scatter_": lambda v: (
            v.scatter_(0, torch.zeros(1, v.shape[1], dtype=torch.int64), 1.0) if v.numel() else None
        ),
        "normal_": lambda v: v.normal_() * 0,
        "uniform_": lambda v: v.uniform_() * 0,
        "out": lambda v: torch.add(v, 1, out=v),
        "where_": lambda v: v.lerp_(v, 0.5),
        "cumsum_": lambda v: v.cumsum_(0),
        "tril_": lambda v: v.tril_(),
        "random_": lambda v: v.random_(3) * 0,
        "addcmul_": lambda v: v.addcmul_(v, v),
        "bernoulli_": lambda v: v.bernoulli_(0.5) * 0,
        "put_": lambda v: v.put_(torch.tensor([0]), torch.tensor([1.0])) if v.numel() else None,
        "put2_": lambda v: (
            v.index_put_((torch.tensor([0]),), torch.tensor(1.0)) if v.numel() else None
        ),
        "mscatter_": lambda v: v.masked_scatter_(v > 99, v),
        "iadd": lambda v: v.__iadd__(1),
        "renorm": lambda v: v.renorm_(2, 0, 1.0) if v.numel() else None,
        "sort-out": lambda v: torch.sort(v, out=(v, torch.zeros(v.shape, dtype=torch.int64)))[0],
    }
    # what PyTorch does not refuse and leaves undefined is refused by lazyt, with the same text: not compared
    undefined = {"window", "unfold"}
    also = {
        ("zero", "masked_fill_"),
        ("zero", "index_fill_"),
        ("zero", "tril_"),
        ("zero", "put2_"),
        ("expand", "masked_fill_"),
        ("expand", "index_fill_"),
        ("expand", "tril_"),
        ("expand", "put2_"),
        ("expand", "sort-out"),
    }
    for vn, view in views.items():
        for on, op in ops.items():
            if (vn in undefined and on not in ("fill_", "zero_", "setitem")) or (vn, on) in also:
                continue

            def run():
                x = torch.arange(8.0)
                r = op(view(x))
                return x if on not in ("normal_", "uniform_", "random_", "bernoulli_") else None

            log.run(f"{vn}-{on}", run)
    for vn in ("gapped", "unfold-apart"):
        log.jit(f"jit-{vn}", lambda x: [views[vn](x * 2).add_(1), views[vn](x).sum()], mk, calls=3)
    return log.items

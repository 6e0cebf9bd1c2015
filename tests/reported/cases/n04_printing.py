"""Programs after reports.

pytorch/pytorch#9395 #7175 PR 7632 PR 12746 #15683 #13446 PR 126859 PR 40919: printed tensors, with
every option
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    inf, nan = float("inf"), float("nan")
    ts = {
        "small": [1e-5],
        "small2": [2e-5],
        "mix": [1e28, 1e-28],
        "mixneg": [1e28, -1e-28],
        "ints": [1.0, 2.0, -3.0],
        "big": [1e8, 1.0],
        "big2": [1e9, 1.0],
        "ratio": [10, 1e-1, 1e-2],
        "ratio2": [10, 1e-1, 1e-1],
        "nan": [4, inf, 1.5, -inf, 0, nan, 1],
        "nanonly": [nan, inf],
        "negzero": [-0.0, 0.0],
        "tiny": [1e-45],
        "half": [0.5, 0.25],
        "1000": [1000.0, 1.5],
        "1001": [1001.5, 1.0],
        "100000": [100000.5, 1.0],
        "neg": [-1.5, -100.25],
        "wide": [123456789.0, 1.0],
        "sci-int": [1e10, 2e10],
        "int-like": [100.0, 20000.0],
        "empty": [],
        "nested": [[1.5, 2], [3, 4]],
        "3d": [[[1.0], [2.5]]],
        "bool": [True, False],
        "i": [1, -20, 300],
        "i-big": [2341234123412341],
        "max": [3.4028235e38],
        "four": [0.12345, 0.99999],
        "round": [0.99999, 0.00005],
        "round2": [9.99999, 99.99999],
    }
    for n, v in ts.items():
        for dt in (
            "float32",
            "float64",
            "float16",
            "bfloat16",
            "int64",
            "int8",
            "bool",
            "uint8",
            "int32",
        ):
            if (
                dt not in ("float32", "float64")
                and n in ("max", "tiny", "i-big", "big2", "wide", "sci-int", "mix", "mixneg", "big")
            ) or (
                ("int" in dt or dt == "bool")
                and any(x != x or abs(x) == inf for x in np.ravel(v).astype(float))
            ):
                continue
            log.run(f"{n}-{dt}", lambda: repr(torch.tensor(v).to(getattr(torch, dt))))
    t = torch.tensor([[10, 1e-1, 1e-2], [1234.5678, nan, -inf]])
    for n, kw in {
        "sci": {"sci_mode": True},
        "nosci": {"sci_mode": False},
        "prec": {"precision": 2},
        "prec8": {"precision": 8},
        "line": {"linewidth": 30},
        "thr": {"threshold": 3, "edgeitems": 1},
        "short": {"profile": "short"},
        "full": {"profile": "full"},
        "both": {"sci_mode": True, "precision": 1},
        "prec0": {"precision": 0},
    }.items():

        def run():
            torch.set_printoptions(**kw)
            try:
                return [
                    repr(t),
                    repr(torch.arange(20.0)),
                    repr(torch.arange(2000)),
                    str(torch.ones(2, 2, requires_grad=True)),
                    f"{torch.tensor(3.14159):.2f}",
                    repr(torch.tensor(1e-7)),
                ]
            finally:
                torch.set_printoptions(profile="default")

        log.run("opt-" + n, run)
    log.run(
        "shapes",
        lambda: [
            repr(torch.arange(float(np.prod(s))).reshape(s))
            for s in (
                (0,),
                (0, 3),
                (2, 0),
                (1,),
                (3, 4),
                (2, 3, 4),
                (1, 1, 1),
                (2, 2, 2, 2),
                (1001,),
                (40, 40),
                (1, 2000),
                (2000, 1),
                (30, 30, 30),
                (7, 8, 9),
                (3, 1, 500),
            )
        ],
    )
    x = torch.ones(2, requires_grad=True)
    log.run(
        "grads",
        lambda: [
            repr(v)
            for v in (
                x,
                x * 2,
                x.sum(),
                x[0],
                x.view(2, 1),
                x.clone(),
                x.detach(),
                x.exp(),
                torch.nn.Parameter(torch.ones(2)),
                x.t() if x.ndim > 1 else x,
                (x > 0),
                x.max(0),
                x.sort(),
                x.unbind()[0],
                x + x,
                x @ x,
                x.relu(),
                x.mean(),
                torch.cat([x, x]),
                x.long(),
                x.double(),
                torch.nn.functional.softmax(x, 0),
                x.pow(2),
                x.std(),
                x.norm(),
                x.index_select(0, torch.tensor([0])),
                x.expand(2, 2),
                x.squeeze(),
                x.requires_grad_(),
                torch.zeros(1, requires_grad=True) + 1,
                torch.utils.checkpoint.checkpoint(lambda t: t * 2, x, use_reentrant=False)
                if True
                else 0,
            )
        ],
    )
    log.run(
        "structs",
        lambda: [
            repr(torch.ones(3).sort()),
            repr(torch.ones(2, 2).max(0)),
            repr(torch.Size([1, 2])),
            repr(torch.float32),
            repr(torch.device("cpu")),
            repr(torch.strided),
            repr(torch.finfo(torch.float16)),
            repr(torch.iinfo(torch.int8)),
            repr(torch.Generator().device),
            str(torch.ones(2).shape),
            repr(torch.linalg.qr(torch.eye(2))),
            repr(torch.svd(torch.eye(2))),
            repr(torch.ones(2, 2).mode()),
            repr(torch.topk(torch.arange(3.0), 2)),
            repr(torch.memory_format if False else torch.contiguous_format),
            repr(torch.ones(1).layout),
            repr(torch.promote_types(torch.int8, torch.float16)),
            repr(torch.Tensor),
            repr(torch.get_default_dtype()),
        ],
    )
    log.run(
        "format",
        lambda: [
            f"{torch.tensor(2)}",
            f"{torch.tensor(2.5):>8}",
            f"{torch.tensor([1, 2])}",
            "%d %.3f %s" % (torch.tensor(3), torch.tensor(2.5), torch.tensor(1)),
            f"{torch.tensor(7):05d}",
            f"{torch.tensor(True)}",
            str(torch.tensor(3, dtype=torch.uint8)),
            repr([torch.ones(1)]),
            repr({"a": torch.zeros(2)}),
            f"{torch.tensor(1e-9)}",
            f"{torch.tensor(0.1, dtype=torch.float64)}",
            f"{torch.tensor(float('nan')):.1f}",
            bin(torch.tensor(5)),
            hex(torch.tensor(255)),
            round(torch.tensor(2.567), 1) if hasattr(torch.Tensor, "__round__") else 0,
            str(torch.tensor(2.0).item()),
            f"{torch.tensor([1.5])[0]:.3e}",
        ],
    )
    log.run("format-bad", lambda: f"{torch.tensor([1, 2]):d}")
    log.run(
        "default-dtype",
        lambda: [
            torch.set_default_dtype(torch.float64),
            repr(torch.tensor([1.5])),
            repr(torch.tensor([1.5], dtype=torch.float32)),
            torch.set_default_dtype(torch.float32),
            repr(torch.tensor([1.5], dtype=torch.float64)),
        ],
    )
    return log.items

"""Programs after reports.

pytorch/pytorch#144539 #115931; ml-explore/mlx#1807 #1052 #873 #231 #176 #610: index shapes that
broadcast, 0-dim indices, writes through indices
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    mk = lambda k: [torch.arange(60).reshape(5, 4, 3) + k]
    log.jit(
        "put-bcast",
        lambda x: [
            torch.index_put(
                x, [torch.tensor([[0, 2], [1, 3]])], torch.tensor([100, 200, 300]), accumulate=a
            )
            for a in (False, True)
        ],
        mk,
    )
    log.jit(
        "put-bcast2",
        lambda x: torch.index_put(
            x, [torch.tensor([[0, 2], [1, 3]]), torch.tensor([1])], torch.tensor(7), accumulate=True
        ),
        mk,
    )
    log.jit(
        "put-none",
        lambda x: [
            x.index_put(
                [torch.tensor([0, 0]), torch.tensor([1, 1])],
                torch.ones(2, 3, dtype=torch.int64),
                accumulate=True,
            ),
            x.index_put((torch.tensor([True, False, True, False, True]),), torch.tensor(0)),
        ],
        mk,
    )
    log.run(
        "put-badshape", lambda: torch.zeros(3, 4).index_put((torch.tensor([0, 1]),), torch.zeros(3))
    )
    log.run(
        "put-baddtype",
        lambda: torch.zeros(3, 4).index_put(
            (torch.tensor([0, 1]),), torch.zeros(4, dtype=torch.float64)
        ),
    )
    log.run(
        "put-floatindex",
        lambda: torch.zeros(3, 4).index_put((torch.tensor([0.0, 1.0]),), torch.zeros(4)),
    )
    log.run(
        "put-many", lambda: torch.zeros(3, 4).index_put((torch.tensor([0]),) * 3, torch.zeros(1))
    )
    for sh in ((1, 10), (10,)):
        log.run(
            f"index_copy0-{sh}",
            lambda: torch.ones(2, 10).index_copy_(0, torch.tensor(0), torch.zeros(sh)),
        )
        log.run(
            f"index_add0-{sh}",
            lambda: torch.ones(2, 10).index_add_(0, torch.tensor(0), torch.zeros(sh)),
        )
    log.run(
        "index_select0",
        lambda: [
            torch.ones(2, 10).index_select(0, torch.tensor(0)),
            torch.tensor(5.0).index_select(0, torch.tensor([0])),
            torch.ones(2, 3).index_fill(0, torch.tensor(1), 5),
        ],
    )
    log.run(
        "gather0",
        lambda: [
            torch.tensor(5.0).gather(0, torch.tensor(0)),
            torch.arange(3.0).gather(0, torch.tensor(2)),
            torch.arange(3.0).scatter(0, torch.tensor(1), 9.0),
            torch.tensor(1.0).scatter(0, torch.tensor(0), 2.0),
        ],
    )

    def pal(x):  # put along an axis with indices that broadcast
        i = torch.tensor([0, 2, 4, 5]).reshape(1, 1, 4, 1).expand(1, 1, 4, 32)
        return (
            x.scatter(-2, i, 1.0),
            x.scatter(-2, i, torch.arange(128.0).reshape(1, 1, 4, 32)),
            torch.take_along_dim(x, torch.tensor([0, 2]).reshape(1, 1, 2, 1), -2),
        )

    log.jit("along", pal, lambda k: [torch.arange(256.0).reshape(1, 1, 8, 32) + k])

    def sets(x):
        x[..., 0] = 1
        x[:, [0, 1]] = 0 * x[:, [0, 1]]
        x[0:-1, 0] = -5
        mid = x[1:-1, 1:-1]
        x[1:-1, 1:-1] = mid
        x[-1] = x[0]
        x[:, -1:] += 1
        x[torch.tensor([0, 2]), ..., torch.tensor([1, 0])] = 99
        x[None, 1, :, None] *= 2
        x[[True, False, True, False, True]] -= 1
        x[torch.tensor(3)] = 0
        x[..., torch.tensor([[0], [2]]), :] += 1
        x[()] = x * 2
        return x

    log.jit("sets", sets, mk)
    log.jit("sets-float", sets, lambda k: [T(torch, rnd(k, 5, 4, 3))])
    log.jit("sets-turned", sets, lambda k: [T(torch, rnd(k, 3, 4, 5)).permute(2, 1, 0)])

    def grow(x):
        x += torch.ones(3, 3, 3)
        return x

    log.run("iadd-grow", lambda: grow(torch.ones(3, 3)))
    log.run("add_-grow", lambda: torch.ones(3, 1).add_(torch.ones(3, 3)))
    log.run(
        "out-grow", lambda: torch.add(torch.ones(3), torch.ones(2, 3), out=torch.zeros(3)).shape
    )
    gets = [
        "x[0]",
        "x[-1, ..., 0]",
        "x[:, None, 1]",
        "x[[0, 1], :, [0, 1]]",
        "x[:, [0, 1], [0, 1]]",
        "x[[[0, 1]]]",
        "x[[0, 1]]",
        "x[(0, 1)]",
        "x[torch.tensor([0, 1]), None]",
        "x[None, torch.tensor([0, 1]), :, torch.tensor([0, 2])]",
        "x[x > 30]",
        "x[x[:, 0, 0] > 30]",
        "x[:, x[0, :, 0] > 2]",
        "x[torch.tensor([True, False, True, False, False]), 0]",
        "x[True]",
        "x[False]",
        "x[..., True]",
        "x[5:2]",
        "x[::2, ::3]",
        "x[3:100]",
        "x[-100:2]",
        "x[1:1]",
        "x[torch.tensor(2)]",
        "x[torch.tensor(2):torch.tensor(4)]",
        "x[slice(None), torch.tensor([[0], [1]]), torch.tensor([0, 2])]",
        "x[np.array([0, 2])]",
        "x[np.int64(2)]",
        "x[range(2)]",
        "x[torch.tensor([0, 1], dtype=torch.uint8)]",
        "x[torch.tensor([0, 1], dtype=torch.int32)]",
        "x[torch.tensor([0, 1], dtype=torch.int8)]",
        "x[[]]",
        "x[torch.tensor([], dtype=torch.int64)]",
        "x[..., ...]",
        "x[0, 0, 0, 0]",
        "x[7]",
        "x[-6]",
        "x[::-1]",
        "x[torch.tensor([9])]",
        "x[torch.tensor([-6])]",
        "x[1.0]",
        "x['a']",
        "x[[0.5]]",
        "x[torch.tensor([True, False])]",
        "x[:, torch.tensor([0, 1]), torch.tensor([0, 1, 2])]",
        "x[[0, -1], [-1, 0]]",
        "x[torch.zeros(2, 0, dtype=torch.int64)].shape",
        "x[None].shape",
        "x[None, None, ..., None].shape",
        "x[0, None, :, 1:2].shape",
        "x.__getitem__(slice(0, 2, None)).shape",
        "x[torch.tensor([[True, False, True, False]] * 5)].shape",
        "x[np.array([True, False, True, False, False])].shape",
        "x[[np.int64(0), np.int64(1)]].shape",
        "x[(torch.tensor([0]), [1])]",
    ]
    x = torch.arange(60).reshape(5, 4, 3)
    for g in gets:
        log.run("get " + g, lambda: eval(g, {"x": x, "torch": torch, "np": np}))
    for g in [
        "x[0] = 5",
        "x[x > 30] = 0",
        "x[x > 30] = torch.arange(29)",
        "x[x > 30] = torch.arange(3)",
        "x[[0, 1]] = torch.arange(3)",
        "x[:, 0] = torch.ones(4, 3)",
        "x[:, 0] = torch.ones(5, 3) * 1.7",
        "x[0] = 2.9",
        "x[0] = True",
        "x[..., 0] = torch.tensor([[1]])",
        "x[7] = 1",
        "x[torch.tensor([9])] = 1",
        "x[1:3] = [[[1, 2, 3]]]",
        "x[0, 0] = [1, 2, 3]",
        "x[0, 0] = np.array([1, 2, 3])",
        "x[0, 0, 0] = np.float32(4.5)",
        "x[[0, 0, 0]] += 1",
        "x[True] = 7",
        "x[False] = 7",
        "x[()] = 7",
        "x[...] = x.flip(0)",
        "x[::2] = x[1::2]",
        "x[::2] = x[::2].flip(0)",
        "x[torch.tensor([0, 0])] = torch.tensor([[[1]], [[2]]])",
        "x[x == x] = -1",
        "x[torch.zeros(5, dtype=torch.bool)] = torch.zeros(0, 4, 3, dtype=torch.int64)",
        "x[0] = torch.zeros(1, 1, 4, 3, dtype=torch.int64)",
        "x[0] = torch.zeros(2, 4, 3)",
        "x[0, 0] = 'a'",
        "x[0, 0] = None",
        "x[0,0] = torch.tensor(3.7)",
        "x[[True, False, False, False, True]] = 3",
    ]:

        def st():
            y = torch.arange(60).reshape(5, 4, 3)
            exec(g, {"x": y, "torch": torch, "np": np})
            return y

        log.run("set " + g, st)
    return log.items

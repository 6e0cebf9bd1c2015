"""Programs after reports.

pytorch/pytorch PR 188843 (#94336 #27614): index smaller than src; the gradient of src is zero where
index does not reach Here the right value is compared (PyTorch 2.13 raises or is wrong).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, is_lazyt, jit, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    idx = np.array([[0, 1], [2, 0]])
    x, s = rnd(1, 4, 3, dtype="float64"), rnd(2, 5, 3, dtype="float64")
    up = np.arange(12.0).reshape(4, 3) / 12 + 0.5

    def right_sum():  # scatter_add along 0
        out, gs = x.copy(), np.zeros_like(s)
        for i in range(2):
            for j in range(2):
                out[idx[i, j], j] += s[i, j]
                gs[i, j] += up[idx[i, j], j]
        return [out, up.copy(), gs]

    def right_set():
        out, gx, gs = x.copy(), up.copy(), np.zeros_like(s)
        for i in range(2):
            for j in range(2):
                out[idx[i, j], j] = s[i, j]
                gx[idx[i, j], j] = 0
                gs[i, j] = up[idx[i, j], j]
        return [out, gx, gs]

    def run(fn, compiled=False):
        a, b = T(torch, x, grad=True), T(torch, s, grad=True)

        def step(a, b):
            o = fn(a, torch.tensor(idx), b)
            g = torch.autograd.grad((o * torch.tensor(up)).sum(), [a, b])
            return o, g[0], g[1]

        return list((jit(torch, step) if compiled else step)(a, b))

    for name, fn, right in (
        ("scatter_add", lambda a, i, b: a.scatter_add(0, i, b), right_sum),
        ("scatter", lambda a, i, b: a.scatter(0, i, b), right_set),
        ("reduce-sum", lambda a, i, b: a.scatter_reduce(0, i, b, "sum"), right_sum),
    ):
        for c in (False, True):
            log.run(f"{name}-{c}", lambda: run(fn, c) if is_lazyt(torch) else right())

    def amax():
        out, gx, gs = x.copy(), up.copy(), np.zeros_like(s)
        for j in range(3):
            for r in range(4):
                c = [("x", r, x[r, j])] + [
                    ("s", i, s[i, j]) for i in range(2) if j < 2 and idx[i, j] == r
                ]
                best = max(v for _, _, v in c)
                out[r, j] = best
                win = [q for q in c if q[2] == best]
                gx[r, j] = 0
                for w, i, _ in win:
                    (gx if w == "x" else gs)[i, j] += up[r, j] / len(win)
        return [out, gx, gs]

    for c in (False, True):
        log.run(
            f"amax-{c}",
            lambda: (
                run(lambda a, i, b: a.scatter_reduce(0, i, b, "amax"), c)
                if is_lazyt(torch)
                else amax()
            ),
        )
    log.run(
        "empty-index",
        lambda: torch.zeros(3, 2).scatter_add(
            0, torch.zeros(0, 2, dtype=torch.int64), torch.ones(4, 2)
        ),
    )
    log.run(
        "forward",
        lambda: [
            torch.zeros(3, 2).scatter(0, torch.tensor([[1]]), torch.ones(4, 2)),
            torch.zeros(3, 2).gather(0, torch.tensor([[1]])),
        ],
    )
    return log.items

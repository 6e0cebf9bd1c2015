"""Programs after reports.

pytorch/pytorch#41329 PR 56488 (worker seeds), #73603 (persistent workers), PR 15170 #7209
(samplers), collate corners
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.reported.shown import Item, Log

TORCH = None


class Rnd:
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return (
            i,
            np.random.randint(1, 10**9),
            random.randint(1, 10**9),
            int(TORCH.randint(0, 10**9, (1,))),
        )


def _part_1(torch: Any, log: Log) -> None:
    global TORCH
    TORCH = torch
    D = torch.utils.data

    class It(D.IterableDataset):
        def __iter__(self):
            w = D.get_worker_info()
            return iter(
                [(w.id, w.num_workers, n, int(np.random.randint(10**9))) for n in range(4)]
                if w
                else [(0, 0, n, 0) for n in range(4)]
            )

    def ds(w, **kw):
        torch.manual_seed(7)
        np.random.seed(7)
        random.seed(7)
        dl = D.DataLoader(Rnd(), batch_size=3, num_workers=w, **kw)
        eps = []
        for _ in range(2):
            eps.append([[int(v) for v in t] for b in dl for t in zip(*b)])
        return eps

    def props(w, **kw):
        a, b = ds(w, **kw), ds(w, **kw)
        cols = list(zip(*[r for e in a for r in e]))
        return (
            a == b,
            sorted(r[0] for r in a[0]) == list(range(12)),
            len(set(cols[1])),
            len(set(cols[2])),
            len(set(cols[3])),
            a[0] == a[1],
        )

    for w in (0, 2):
        log.run(f"seeds-{w}", lambda: props(w))
    log.run("persistent", lambda: props(2, persistent_workers=True))
    log.run("shuffle", lambda: props(2, shuffle=True))
    log.run(
        "spawn-ctx",
        lambda: [
            len(
                list(
                    D.DataLoader(
                        torch.arange(6), batch_size=2, num_workers=1, multiprocessing_context="fork"
                    )
                )
            )
        ],
    )


def _part_2(torch: Any, log: Log) -> None:
    D = torch.utils.data

    class It(D.IterableDataset):
        def __iter__(self):
            w = D.get_worker_info()
            return iter(
                [(w.id, w.num_workers, n, int(np.random.randint(10**9))) for n in range(4)]
                if w
                else [(0, 0, n, 0) for n in range(4)]
            )

    def it(w):
        torch.manual_seed(0)
        rows = [
            tuple(int(v) for v in r)
            for b in D.DataLoader(It(), batch_size=2, num_workers=w)
            for r in zip(*b)
        ]
        return [r[:3] for r in rows], len({r[3] for r in rows}) if w else 0

    log.run("iterable-0", lambda: it(0))
    log.run("iterable-2", lambda: it(2))
    log.run(
        "drop",
        lambda: [
            len(D.DataLoader(range(7), 3)),
            len(D.DataLoader(range(7), 3, drop_last=True)),
            [b.tolist() for b in D.DataLoader(range(7), 3, drop_last=True)],
            list(D.DataLoader(range(3), None)),
            [b.tolist() for b in D.DataLoader(range(4), batch_sampler=[[3, 0], [1]])],
        ],
    )
    log.run(
        "samplers",
        lambda: [
            list(D.SequentialSampler(range(3))),
            sorted(D.RandomSampler(range(5))),
            len(list(D.RandomSampler(range(5), replacement=True, num_samples=9))),
            sorted(D.SubsetRandomSampler([4, 7])),
            list(D.BatchSampler(D.SequentialSampler(range(5)), 2, False)),
            set(D.WeightedRandomSampler([0, 1.0, 0], 20)) == {1},
        ],
    )


def _part_3(torch: Any, log: Log) -> None:
    D = torch.utils.data

    class It(D.IterableDataset):
        def __iter__(self):
            w = D.get_worker_info()
            return iter(
                [(w.id, w.num_workers, n, int(np.random.randint(10**9))) for n in range(4)]
                if w
                else [(0, 0, n, 0) for n in range(4)]
            )

    def same_gen():
        g = torch.Generator().manual_seed(3)
        a = list(D.RandomSampler(range(20), generator=g))
        g.manual_seed(3)
        b = [
            int(x)
            for bb in D.DataLoader(range(20), 4, sampler=D.RandomSampler(range(20), generator=g))
            for x in bb
        ]
        g.manual_seed(3)
        c = list(D.RandomSampler(range(20), generator=g))
        return a == c, sorted(b) == list(range(20)), a == b

    log.run("generator", same_gen)


def _part_3b(torch: Any, log: Log) -> None:
    D = torch.utils.data
    col = D.default_collate

    class It(D.IterableDataset):
        def __iter__(self):
            w = D.get_worker_info()
            return iter(
                [(w.id, w.num_workers, n, int(np.random.randint(10**9))) for n in range(4)]
                if w
                else [(0, 0, n, 0) for n in range(4)]
            )

    log.run(
        "collate",
        lambda: [
            col([1, 2]),
            col([1.5, 2.0]),
            col([True, False]),
            col(["a", "b"]),
            col([{"x": 1, "y": torch.ones(2)}, {"x": 2, "y": torch.zeros(2)}]),
            col([(1, 2.0), (3, 4.0)]),
            col([np.float32(1), np.float32(2)]),
            col([np.ones(2), np.zeros(2)]),
            col([[1, 2], [3, 4]]),
        ],
    )
    for n, f in {
        "ragged": lambda: col([torch.ones(2), torch.ones(3)]),
        "ragged-list": lambda: col([[1, 2], [3]]),
        "none": lambda: col([None, None]),
        "object": lambda: col([object()]),
        "mixed": lambda: col([1, "a"]),
        "empty": lambda: col([]),
        "shuffle-iter": lambda: D.DataLoader(It(), shuffle=True),
        "bs-sampler": lambda: D.DataLoader(range(3), batch_size=2, batch_sampler=[[0]]),
        "prefetch": lambda: D.DataLoader(range(3), prefetch_factor=2),
        "persist0": lambda: D.DataLoader(range(3), persistent_workers=True),
        "neg": lambda: D.DataLoader(range(3), num_workers=-1),
        "td": lambda: D.TensorDataset(torch.ones(2), torch.ones(3)),
        "split": lambda: [len(s) for s in D.random_split(range(10), [0.33, 0.33, 0.34])],
        "split-bad": lambda: D.random_split(range(10), [3, 3]),
        "rs0": lambda: D.RandomSampler(range(3), num_samples=0),
        "subset": lambda: [D.Subset([5, 6, 7], [2, 0])[i] for i in range(2)],
        "concat": lambda: [D.ConcatDataset([[1, 2], [3]])[i] for i in (0, 2, -1)],
        "concat-bad": lambda: D.ConcatDataset([[1]])[-5],
        "stack": lambda: D.StackDataset(a=[1, 2], b=[3, 4])[1],
        "wrs": lambda: D.WeightedRandomSampler([1.0], -1),
        "len-iter": lambda: len(D.DataLoader(It())),
    }.items():
        log.run("x-" + n, f)


def _part_4(torch: Any, log: Log) -> None:
    D = torch.utils.data

    class Bad(Rnd):
        def __getitem__(self, i):
            if i == 5:
                raise ValueError("item five")
            return i

    for w in (0, 1):

        def run():
            try:
                list(D.DataLoader(Bad(), 2, num_workers=w))
            except ValueError as e:
                return "item five" in str(e), "worker process 0" in str(e)

        log.run(f"worker-error-{w}", run)

    def init(i):
        np.random.seed(i)

    log.run(
        "init-fn",
        lambda: [
            int(x)
            for b in D.DataLoader(
                type("S", (Rnd,), {"__getitem__": lambda s, i: int(np.random.randint(1000))})(),
                6,
                num_workers=2,
                worker_init_fn=init,
            )
            for x in b
        ],
    )


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    for part in (
        _part_1,
        _part_2,
        _part_3,
        _part_3b,
        _part_4,
    ):
        part(torch, log)
    return log.items

"""Programs after reports.

pytorch/pytorch#192635 #181136 #176842 #141557 #142853 #198333 #103330 #158643: random numbers
keep their order and masks, however they are computed lazyt draws other numbers than PyTorch:
what is compared is whether ways to compute agree, and statistics.
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, jit


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional

    def same(fn, seeds=(0, 0, 1, 2, 0)):
        f = jit(torch, fn)
        out = []
        for s in seeds:
            torch.manual_seed(s)
            a = fn()
            a = [t.clone() for t in (a if isinstance(a, (list, tuple)) else [a])]
            after = torch.rand(3)
            torch.manual_seed(s)
            b = f()
            b = b if isinstance(b, (list, tuple)) else [b]
            after2 = torch.rand(3)
            out.append(
                all(bool(torch.equal(p, q)) for p, q in zip(a, b))
                and bool(torch.equal(after, after2))
            )
        return out

    def conv():
        a, b, c = torch.randn(2, 4, 4, 4), torch.randn(2, 3, 4, 4), torch.randn(4, 3, 3, 3)
        return a + F.conv2d(b, c, padding=1)

    def two_ints():
        a = torch.randint(0, 100, (50,))
        b = torch.randint(0, 100, (50,))
        return b.float().sort().values, a

    def unused():
        torch.rand(7)
        a = torch.rand(5)
        torch.randn(3)
        return a, torch.randperm(9)

    def drops():
        enc = F.dropout(torch.ones(64, 64), 0.3)
        dec = F.dropout(torch.ones(4), 0.5)
        return (
            dec * 2,
            enc.sum(0),
            F.dropout1d(torch.ones(5, 7, 3), 0.4),
            F.alpha_dropout(torch.ones(9), 0.2),
            F.feature_alpha_dropout(torch.ones(2, 5, 3), 0.5),
        )

    def branches():
        return [torch.rand(3) if i % 2 else torch.randn(3) for i in range(5)]

    def inplace():
        x = torch.zeros(6)
        x.uniform_(1, 2)
        y = x * 2
        x.normal_()
        x[2:].bernoulli_(0.5)
        return (
            y,
            x,
            torch.empty(4).exponential_(),
            torch.empty(3).cauchy_().isfinite(),
            torch.empty(5).geometric_(0.3),
            torch.empty(5).log_normal_(),
            torch.empty(9).random_(10),
        )

    def seeded_inside():
        torch.manual_seed(5)
        return F.dropout2d(torch.ones(1, 3, 8, 8), 0.5), torch.rand(2)

    def multinom():
        return (
            torch.multinomial(torch.ones(5), 3),
            torch.normal(torch.zeros(3), torch.ones(3)),
            torch.bernoulli(torch.full((9,), 0.5)),
            torch.poisson(torch.full((9,), 2.0)),
            torch.rand_like(torch.zeros(2, 3)),
            torch.randint_like(torch.zeros(4), 9),
        )

    def relu_drop():
        x = torch.arange(20.0) - 10
        y = F.dropout(x, 0.5)
        z = F.relu(y, inplace=True)
        return y + z, F.dropout(z, 0.5)

    for n, fn in (
        ("conv", conv),
        ("ints", two_ints),
        ("unused", unused),
        ("drops", drops),
        ("branches", branches),
        ("inplace", inplace),
        ("seeded", seeded_inside),
        ("multinom", multinom),
        ("relu", relu_drop),
    ):
        log.run(n, lambda: same(fn))

    # the mask of the backward pass is that of the forward pass; values are 0 or 1 / (1 - p)
    for p in (0.1, 0.25, 0.5, 0.75, 0.9):

        def fb(x):
            y = F.dropout(x, p)
            y = y.transpose(0, 1).contiguous()
            (g,) = torch.autograd.grad(y.sum(), x)
            return y, g

        def check(f):
            x = torch.ones(64, 96, requires_grad=True)
            y, g = f(x)
            return (
                bool(torch.allclose(y.t(), g)),
                bool(((g == 0) | ((g - 1 / (1 - p)).abs() < 1e-5)).all()),
                abs(float((g > 0).float().mean()) - (1 - p)) < 0.03,
            )

        log.run(f"mask-{p}", lambda: [check(fb) for _ in range(2)])
        fj = jit(torch, fb)
        log.run(f"mask-jit-{p}", lambda: [check(fj) for _ in range(5)])

    # calls after one another differ; compiled too
    def diff(f):
        a, b = f(), f()
        return bool(torch.equal(a, b))

    log.run(
        "fresh",
        lambda: [diff(lambda: F.dropout(torch.ones(100), 0.5)), diff(lambda: torch.rand(10))],
    )
    fr = jit(torch, lambda x: F.dropout(x, 0.5))
    log.run(
        "fresh-jit",
        lambda: [bool(torch.equal(fr(torch.ones(100)), fr(torch.ones(100)))) for _ in range(4)],
    )

    # neighbours are independent: pairs at distances 1, 2, 4, 64 agree about as often as chance says
    def agree(p):
        torch.manual_seed(1)
        m = F.dropout(torch.ones(64, 4096), p) > 0
        want = p * p + (1 - p) ** 2
        return [
            abs(float((m[:, :-d] == m[:, d:]).float().mean()) - want) < 0.01
            for d in (1, 2, 3, 4, 16, 64)
        ] + [abs(float((m[:-1] == m[1:]).float().mean()) - want) < 0.01]

    log.run("independent", lambda: [agree(p) for p in (0.1, 0.5, 0.75)])

    ck = torch.utils.checkpoint.checkpoint

    def ckpt(x, re):
        y = ck(lambda t: F.dropout(t * 2, 0.5), x, use_reentrant=re)
        (g,) = torch.autograd.grad(y.sum(), x) if not re else (None,)
        if re:
            x.grad = None
            y.sum().backward()
            g = x.grad
        return bool(torch.equal((y > 0), (g > 0)))

    log.run(
        "checkpoint",
        lambda: [
            ckpt(torch.ones(200, requires_grad=True), r) for r in (False, True) for _ in range(3)
        ],
    )
    fc = jit(
        torch,
        lambda x: [
            (y := ck(lambda t: F.dropout(t * 2, 0.5), x, use_reentrant=False)),
            torch.autograd.grad(y.sum(), x)[0],
        ],
    )
    log.run(
        "checkpoint-jit",
        lambda: [
            bool(torch.equal(r[0] > 0, r[1] > 0))
            for r in (fc(torch.ones(200, requires_grad=True)) for _ in range(5))
        ],
    )

    def gen():
        g = torch.Generator().manual_seed(3)
        a = torch.rand(4, generator=g)
        st = g.get_state()
        b = torch.randn(4, generator=g)
        g.set_state(st)
        c = torch.randn(4, generator=g)
        g2 = torch.Generator()
        g2.manual_seed(3)
        return (
            bool(torch.equal(b, c)),
            bool(torch.equal(a, torch.rand(4, generator=g2))),
            g.initial_seed(),
            torch.randperm(5, generator=g2).sort().values,
        )

    log.run("generator", gen)

    def forked():
        torch.manual_seed(0)
        with torch.random.fork_rng():
            torch.rand(100)
            torch.manual_seed(9)
        a = torch.rand(3)
        torch.manual_seed(0)
        st = torch.get_rng_state()
        b = torch.rand(3)
        torch.set_rng_state(st)
        return bool(torch.equal(a, b)), bool(torch.equal(b, torch.rand(3)))

    log.run("fork", forked)
    return log.items

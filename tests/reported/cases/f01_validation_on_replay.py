"""Programs after reports.

pytorch/pytorch#197554 (umbrella), #183769 #185885 #183608 #193757 #184340 #150993: what eager
refuses must be refused when compiled, also by a replay whose captured call was fine
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, jit


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional
    L = lambda *v: torch.tensor(v)

    def good_bad(name, fn, good, bad, extra=()):
        """good, good, good, good, bad, good, bad."""
        h = jit(torch, fn)
        for n, kind in enumerate([good, good, good, good, bad, good, bad, bad, *extra]):
            log.run(f"{name}/jit{n}", lambda: h(*kind()))
        log.run(f"{name}/plain-bad", lambda: fn(*bad()))
        log.run(f"{name}/plain-good", lambda: fn(*good()))

    x = lambda: torch.arange(12.0).reshape(4, 3)
    for nm, badidx in (("neg", (0, -1)), ("big", (0, 9)), ("verybig", (2**40, 1))):
        good_bad(
            f"index_add-{nm}",
            lambda x, i: torch.index_add(x, 0, i, torch.ones(2, 3)).clamp_max(5),
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"index_copy-{nm}",
            lambda x, i: x.index_copy(0, i, torch.ones(2, 3)) * 2,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"index_select-{nm}",
            lambda x, i: x.index_select(0, i) + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"embedding-{nm}",
            lambda x, i: F.embedding(i, x) * 2,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"gather-{nm}",
            lambda x, i: x.gather(0, i[:, None]) + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"scatter-{nm}",
            lambda x, i: x.scatter(0, i[:, None], 7.0) + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"scatter_add-{nm}",
            lambda x, i: x.scatter_add(0, i[:, None], torch.ones(2, 1)) + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"getitem-{nm}",
            lambda x, i: x[i] + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"setitem-{nm}",
            lambda x, i: [x.__setitem__(i, 5.0), x + 0][1],
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"take-{nm}",
            lambda x, i: x.take(i) + 1,
            lambda: [x(), L(0, 1)],
            lambda: [
                x(),
                L(
                    badidx[0] - 20 if nm == "neg" else badidx[0],
                    badidx[1] * 3 if nm != "verybig" else 1,
                ),
            ],
        )
        good_bad(
            f"put-{nm}",
            lambda x, i: x.put(i, torch.ones(2)),
            lambda: [x(), L(0, 1)],
            lambda: [
                x(),
                L(
                    badidx[0] - 20 if nm == "neg" else badidx[0],
                    badidx[1] * 3 if nm != "verybig" else 1,
                ),
            ],
        )
        good_bad(
            f"one_hot-{nm}", lambda i: F.one_hot(i, 4), lambda: [L(0, 1)], lambda: [L(*badidx)]
        )
        good_bad(
            f"nll-{nm}",
            lambda x, i: F.nll_loss(x.log_softmax(1), i),
            lambda: [x()[:2], L(0, 1)],
            lambda: [x()[:2], L(*badidx)],
        )
        good_bad(
            f"ce-{nm}",
            lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1),
            lambda: [x()[:2], L(0, 1)],
            lambda: [x()[:2], L(*badidx)],
        )
        good_bad(
            f"bincount-{nm}",
            lambda i: torch.bincount(i, minlength=3)[:3],
            lambda: [L(0, 1)],
            lambda: [L(-1, 0)],
        )
        good_bad(
            f"index_fill-{nm}",
            lambda x, i: x.index_fill(0, i, 7.0) + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"index_reduce-{nm}",
            lambda x, i: x.index_reduce(0, i, torch.ones(2, 3), "amax") + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"computed-{nm}",
            lambda x, i: x[(i * 2 - i)] + 1,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"repeat_interleave-{nm}",
            lambda x, i: x[:2].repeat_interleave(i, 0).shape,
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(0, -1)],
        )
        good_bad(
            f"multi_margin-{nm}",
            lambda x, i: F.multi_margin_loss(x, i),
            lambda: [x()[:2], L(0, 1)],
            lambda: [x()[:2], L(*badidx)],
        )
        good_bad(
            f"embedding_bag-{nm}",
            lambda x, i: F.embedding_bag(i[None], x),
            lambda: [x(), L(0, 1)],
            lambda: [x(), L(*badidx)],
        )
        good_bad(
            f"unpool-{nm}",
            lambda x, i: F.max_unpool1d(x[:1, None, :2].reshape(1, 1, 2), i.reshape(1, 1, 2), 2),
            lambda: [x(), L(0, 3)],
            lambda: [x(), L(*badidx)],
        )
    t = lambda v: torch.full((3, 2), v)
    good_bad(
        "bce-target",
        lambda p, t: F.binary_cross_entropy(p, t),
        lambda: [t(0.5), t(0.5)],
        lambda: [t(1.0), t(1.5)],
    )
    good_bad(
        "bce-input",
        lambda p, t: F.binary_cross_entropy(p, t),
        lambda: [t(0.5), t(0.5)],
        lambda: [t(1.5), t(0.5)],
    )
    good_bad(
        "bce-nan",
        lambda p, t: F.binary_cross_entropy(p, t),
        lambda: [t(0.5), t(0.5)],
        lambda: [t(float("nan")), t(0.5)],
    )
    good_bad(
        "multinomial",
        lambda p: torch.multinomial(p, 1),
        lambda: [L(0.0, 1.0)],
        lambda: [L(-1.0, 1.0)],
    )
    good_bad(
        "multinomial-zero",
        lambda p: torch.multinomial(p, 1),
        lambda: [L(0.0, 1.0)],
        lambda: [L(0.0, 0.0)],
    )
    good_bad(
        "multinomial-inf",
        lambda p: torch.multinomial(p, 1),
        lambda: [L(0.0, 1.0)],
        lambda: [L(float("inf"), 1.0)],
    )
    good_bad(
        "bernoulli", lambda p: torch.bernoulli(p), lambda: [L(0.0, 1.0)], lambda: [L(0.0, 1.5)]
    )
    good_bad(
        "poisson", lambda p: torch.poisson(p) * 0, lambda: [L(0.0, 1.0)], lambda: [L(-1.0, 1.5)]
    )
    good_bad(
        "normal", lambda s: torch.normal(0.0, s) * 0, lambda: [L(0.0, 1.0)], lambda: [L(-1.0, 1.5)]
    )
    good_bad(
        "cholesky",
        lambda a: torch.linalg.cholesky(a),
        lambda: [torch.eye(2)],
        lambda: [-torch.eye(2)],
    )
    good_bad(
        "inv", lambda a: torch.linalg.inv(a), lambda: [torch.eye(2)], lambda: [torch.zeros(2, 2)]
    )
    good_bad(
        "solve",
        lambda a: torch.linalg.solve(a, torch.ones(2)),
        lambda: [torch.eye(2)],
        lambda: [torch.zeros(2, 2)],
    )
    good_bad(
        "quantile",
        lambda q: torch.quantile(torch.arange(5.0), q),
        lambda: [L(0.5)],
        lambda: [L(1.5)],
    )
    good_bad(
        "item",
        lambda a: a.sum().item(),
        lambda: [torch.ones(2)],
        lambda: [torch.ones(3) * float("nan")],
    )
    good_bad(
        "int-nan",
        lambda a: int(a.sum()),
        lambda: [torch.ones(2)],
        lambda: [torch.ones(2) * float("nan")],
    )
    good_bad(
        "assert",
        lambda a: (
            [
                torch._assert_async((a > 0).all()) if hasattr(torch, "_assert_async") else None,
                a + 1,
            ][1]
            if bool((a > 0).all())
            else 1 / 0
        ),
        lambda: [torch.ones(2)],
        lambda: [-torch.ones(2)],
    )
    good_bad(
        "grad-index",
        lambda x, i: torch.autograd.grad((x.requires_grad_()[i] ** 2).sum(), x)[0],
        lambda: [x(), L(0, 1)],
        lambda: [x(), L(0, 9)],
    )
    good_bad(
        "ctc",
        lambda l: F.ctc_loss(
            torch.zeros(5, 1, 4).log_softmax(2), l[None], torch.tensor([5]), torch.tensor([2])
        ),
        lambda: [L(1, 2)],
        lambda: [L(1, 9)],
    )
    good_bad(
        "searchsorted",
        lambda s: torch.searchsorted(s, torch.tensor([1.0])),
        lambda: [L(0.0, 2.0)],
        lambda: [L(0.0, 2.0, 3.0)],
    )
    # shapes: the compiled function meets an argument that eager refuses
    good_bad(
        "mm-shape",
        lambda a: a @ torch.ones(3, 2),
        lambda: [torch.ones(2, 3)],
        lambda: [torch.ones(2, 4)],
    )
    good_bad(
        "mm-dtype",
        lambda a: a @ torch.ones(3, 2),
        lambda: [torch.ones(2, 3)],
        lambda: [torch.ones(2, 3, dtype=torch.float64)],
    )
    good_bad(
        "lin-dtype",
        lambda a: F.linear(a, torch.ones(2, 3)),
        lambda: [torch.ones(2, 3)],
        lambda: [torch.ones(2, 3, dtype=torch.int64)],
    )
    good_bad(
        "select",
        lambda a: torch.cat([a.unsqueeze(1).select(1, 0), a.select(1, 2)[:, None]], -1),
        lambda: [torch.ones(2, 3)],
        lambda: [torch.ones(2, 2)],
    )
    good_bad(
        "softmax-dim",
        lambda a: torch.softmax(a, 1),
        lambda: [torch.ones(2, 3)],
        lambda: [torch.ones(3)],
    )
    good_bad(
        "conv-ch",
        lambda a: F.conv2d(a, torch.ones(2, 3, 2, 2)),
        lambda: [torch.ones(1, 3, 4, 4)],
        lambda: [torch.ones(1, 2, 4, 4)],
    )
    good_bad(
        "conv-small",
        lambda a: F.conv2d(a, torch.ones(2, 3, 2, 2)),
        lambda: [torch.ones(1, 3, 4, 4)],
        lambda: [torch.ones(1, 3, 1, 4)],
    )
    good_bad(
        "view", lambda a: a.view(2, -1), lambda: [torch.ones(4, 3)], lambda: [torch.ones(3, 3)]
    )
    good_bad(
        "reshape", lambda a: a.t().view(-1), lambda: [torch.ones(1, 3)], lambda: [torch.ones(3, 3)]
    )
    good_bad(
        "cat",
        lambda a: torch.cat([a, torch.ones(1, 3)]),
        lambda: [torch.ones(4, 3)],
        lambda: [torch.ones(4, 2)],
    )
    good_bad(
        "bn1",
        lambda a: F.batch_norm(a, None, None, training=True),
        lambda: [torch.arange(6.0).reshape(2, 3)],
        lambda: [torch.ones(1, 3)],
    )
    good_bad(
        "ln-shape",
        lambda a: F.layer_norm(a, (3,)),
        lambda: [torch.arange(6.0).reshape(2, 3)],
        lambda: [torch.ones(1, 2)],
    )
    good_bad(
        "inplace-leaf",
        lambda a: a.add_(1),
        lambda: [torch.ones(2)],
        lambda: [torch.ones(2, requires_grad=True)],
    )
    good_bad(
        "inplace-type",
        lambda a: a.add_(1.5),
        lambda: [torch.ones(2)],
        lambda: [torch.ones(2, dtype=torch.int64)],
    )
    good_bad(
        "numpy-grad",
        lambda a: a.numpy().sum(),
        lambda: [torch.ones(2)],
        lambda: [torch.ones(2, requires_grad=True)],
    )
    return log.items

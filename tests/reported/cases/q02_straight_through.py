"""Programs after reports.

pytorch/functorch#353 (detach, second order), tinygrad PR 5701 (forces), pytorch#13669
(broadcast in backward), #85568 #83378 #84681 (detach_, flags), nn.labml WGAN-GP page,
functorch#124 #363 #501 #105 #381, pytorch#95738 #99187, mlx#4321: transforms
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, T, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    ft, F, nn = torch.func, torch.nn.functional, torch.nn

    def q(x):
        h = torch.tanh(x)
        return h + (torch.clip(torch.round(x), -1, 1) - h).detach()

    def fl(x, y, M):
        return torch.norm(M @ q(y) - M @ x, 2) + 0.1 * torch.norm(y, 1)

    M = T(torch, rnd(1, 2, 2, dtype="float64"))
    log.jit(
        "ste-grad",
        lambda x, y: ft.grad(fl, argnums=1)(x, y, M),
        lambda k: [T(torch, rnd(k, 2, dtype="float64")), T(torch, rnd(k + 1, 2, dtype="float64"))],
        calls=3,
    )
    log.jit(
        "ste-hess",
        lambda x, y: [
            ft.jacrev(ft.grad(fl, argnums=1), argnums=1)(x, y, M),
            ft.jacfwd(ft.grad(fl, argnums=1), argnums=1)(x, y, M),
            ft.hessian(fl, argnums=1)(x, y, M),
        ],
        lambda k: [T(torch, rnd(k, 2, dtype="float64")), T(torch, rnd(k + 1, 2, dtype="float64"))],
        calls=3,
    )

    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(T(torch, rnd(i, *p.shape, dtype="float64")))

    def forces(pos):
        pos = pos.clone().requires_grad_()
        d = pos[:, None] - pos[None]
        r = (d**2).sum(-1) + torch.eye(len(pos), dtype=pos.dtype)
        e = net(torch.stack([r.sqrt().sum(1), (1 / r).sum(1), r.sum(1)], 1)).sum()
        f = -torch.autograd.grad(e, pos, create_graph=True)[0]
        loss = (f**2).sum() + e**2
        g = torch.autograd.grad(loss, list(net.parameters()))
        return e.detach(), f.detach(), list(g)

    log.jit(
        "forces", forces, lambda k: [T(torch, rnd(k, 4, 3, dtype="float64"))], calls=4, rtol=1e-6
    )

    def gp(real, fake):
        a = torch.linspace(0, 1, len(real), dtype=real.dtype)[:, None]
        x = (a * real + (1 - a) * fake).requires_grad_()
        o = net(x)
        (g,) = torch.autograd.grad(o, x, torch.ones_like(o), create_graph=True, retain_graph=True)
        pen = ((g.view(len(g), -1).norm(2, 1) - 1) ** 2).mean() * 10
        return pen.detach(), list(torch.autograd.grad(pen + o.mean(), list(net.parameters())))

    log.jit(
        "wgan-gp",
        gp,
        lambda k: [
            T(torch, rnd(k, 6, 3, dtype="float64")),
            T(torch, rnd(k + 9, 6, 3, dtype="float64")),
        ],
        calls=4,
        rtol=1e-6,
    )
    log.grads(
        "broadcast-scalar",
        lambda z: [(z.exp() - 0).sum() + (z.exp() - torch.zeros(1000)).sum()],
        lambda k: [torch.tensor(1.0 + k, requires_grad=True)],
    )

    def per_sample(x, t):
        def loss(params, x, t):
            return F.mse_loss(ft.functional_call(net, params, (x[None],)), t[None])

        params = {k: v.detach() for k, v in net.named_parameters()}
        return ft.vmap(ft.grad(loss), (None, 0, 0))(params, x, t)

    log.jit(
        "per-sample",
        per_sample,
        lambda k: [
            T(torch, rnd(k, 5, 3, dtype="float64")),
            T(torch, rnd(k, 5, 1, dtype="float64")),
        ],
        calls=3,
        rtol=1e-6,
    )
    X = lambda k: T(torch, rnd(k, 4, 5, 5))
    log.run(
        "vmap-index_put",
        lambda: ft.vmap(lambda x, i, v: torch.index_put(x, (i,), v), (None, 0, None))(
            T(torch, rnd(1, 5, 5)), torch.tensor([[4, 1], [4, 2], [0, 3]]), T(torch, rnd(2, 2, 5))
        ),
    )
    log.run(
        "vmap-getitem",
        lambda: ft.vmap(
            lambda x, i: ft.vjp(lambda x: x[[0, 2, 3], [1, 3, 3], i], x)[1](torch.ones(3))[0]
        )(T(torch, rnd(1, 4, 5, 5, 5)), torch.tensor([[0, 1, 2], [1, 1, 1], [4, 3, 2], [0, 0, 0]])),
    )
    log.run(
        "hess-trace",
        lambda: [
            ft.vmap(ft.jacrev(ft.jacrev(torch.trace)))(T(torch, rnd(1, 2, 4, 4))),
            ft.vmap(ft.jacrev(torch.trace))(T(torch, rnd(1, 2, 4, 4))),
            ft.vmap(ft.hessian(lambda m: torch.trace(m @ m)))(T(torch, rnd(1, 2, 3, 3))),
        ],
    )
    log.run(
        "strided-slices",
        lambda: ft.vmap(ft.grad(lambda y: (y[:, ::2, ::2] ** 2).sum() + y[:, 1:, 1:].sum()))(
            T(torch, rnd(1, 3, 2, 4, 5))
        ),
    )
    log.run(
        "inplace-vmap",
        lambda: ft.vmap(ft.grad(lambda x: [(z := x * 2), z[0].add_(3), (z**2).sum()][2]))(
            T(torch, rnd(1, 3, 5))
        ),
    )
    log.run(
        "vmap-copy-unbatched",
        lambda: ft.vmap(lambda y: torch.zeros(5).copy_(y))(T(torch, rnd(1, 3, 5))),
    )
    log.run(
        "take",
        lambda: ft.jacrev(lambda x: torch.take(x, torch.ones(4, dtype=torch.int64)))(
            torch.arange(6.0)
        ),
    )
    log.run(
        "normalize",
        lambda: [
            ft.jacrev(F.normalize)(T(torch, rnd(1, 3, 2))),
            ft.vmap(ft.jacrev(lambda t: F.normalize(t, dim=0)))(T(torch, rnd(1, 3, 2))),
        ],
    )
    log.run("normalize-bad", lambda: ft.vmap(ft.jacrev(F.normalize))(T(torch, rnd(1, 3, 2))))
    for ax in (0, 1, 2):
        src = T(torch, rnd(1, 2, 3, 4))
        sl = list(src.unbind(ax))
        upd = lambda a: a.index_add(
            0, torch.tensor([0, 0]), torch.ones(2, *a.shape[1:]) * 2
        ).index_put((torch.tensor([1]),), torch.tensor(9.0))
        log.run(
            f"vmap-scatter-{ax}",
            lambda: [
                ft.vmap(upd, in_dims=ax, out_dims=ax)(src),
                torch.stack([upd(s) for s in sl], ax),
                ft.vmap(lambda a: [c := a.clone(), c.__setitem__(1, 5.0), c][2], in_dims=ax)(src),
            ],
        )
    log.run(
        "vmap-random",
        lambda: [
            ft.vmap(lambda x: x + torch.rand(()), randomness="same")(torch.zeros(3))
            .unique()
            .numel(),
            ft.vmap(lambda x: x + torch.rand(()), randomness="different")(torch.zeros(3))
            .unique()
            .numel(),
        ],
    )
    log.run("vmap-random-err", lambda: ft.vmap(lambda x: x + torch.rand(()))(torch.zeros(3)))
    log.run("vmap-item", lambda: ft.vmap(lambda x: x.item())(torch.zeros(3)))
    log.run("vmap-if", lambda: ft.vmap(lambda x: x if x > 0 else -x)(torch.ones(3)))
    log.run("vmap-dims", lambda: ft.vmap(lambda x, y: x + y)(torch.ones(3), torch.ones(4)))
    log.run("vmap-none-out", lambda: ft.vmap(lambda x: 5)(torch.ones(3)))
    log.run(
        "vmap-chunk",
        lambda: [
            ft.vmap(lambda x: x.sum(), chunk_size=2)(X(1)),
            ft.vmap(lambda x, y: x @ y, in_dims=(0, 2), out_dims=1)(
                X(1)[..., 0], T(torch, rnd(2, 5, 3, 4))
            ),
            ft.vmap(ft.vmap(torch.dot, (0, None)), (None, 0))(
                T(torch, rnd(1, 3, 4)), T(torch, rnd(2, 2, 4))
            ),
        ],
    )
    log.run(
        "vmap-ops",
        lambda: [
            ft.vmap(f)(X(3))
            for f in (
                lambda x: x.sort(0).values,
                lambda x: x.cumsum(0),
                lambda x: x[x.argmax(0), torch.arange(5)],
                lambda x: torch.where(x > 0, x, 0),
                lambda x: x.softmax(-1),
                lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 2, 2)),
                lambda x: F.layer_norm(x, (5,)),
                lambda x: torch.linalg.inv(x + 5 * torch.eye(5)),
                lambda x: x.t() @ x,
                lambda x: torch.einsum("ij,kj->ik", x, x),
                lambda x: F.pad(x, (1, 1)),
                lambda x: x.unfold(0, 2, 1),
                lambda x: F.max_pool1d(x, 2),
                lambda x: x.view(-1).topk(3).values,
                lambda x: x.triu(),
                lambda x: torch.cdist(x, x),
                lambda x: x.roll(1, 0),
                lambda x: torch.stack([x, x], -1),
                lambda x: x.flip(0),
                lambda x: x.std(0),
                lambda x: x.norm(),
                lambda x: F.cross_entropy(x, torch.arange(5)),
                lambda x: F.one_hot(x.argmax(1), 5),
                lambda x: x.masked_fill(x > 0, 1),
                lambda x: x.new_zeros(2) + x[0, 0],
                lambda x: torch.full((2,), 3.0) * x[0, 0],
            )
        ],
        rtol=1e-4,
        atol=1e-4,
    )

    def detach_():
        w = torch.ones(2, requires_grad=True)
        y = w * 2
        y.detach_()
        out = [y.requires_grad, y.is_leaf]
        try:
            (w * 2)[:1].detach_()
        except RuntimeError as e:
            out.append(str(e))
        return out

    log.run("detach_", detach_)
    log.run(
        "flags",
        lambda: [
            (
                (a := torch.ones(2, requires_grad=True)) + (torch.ones(2) / -torch.ones(2))[:]
            ).requires_grad,
            (torch.ones(2) / -torch.ones(2))[:].requires_grad,
            torch.where(torch.tensor([True, False]), a, torch.ones(2)).requires_grad,
            a.detach().requires_grad,
            a.data.requires_grad,
            (a > 0).requires_grad,
            a.argmax().requires_grad,
            a.long().requires_grad,
            torch.zeros_like(a).requires_grad,
            a.new_tensor([1.0]).requires_grad,
            torch.tensor(a).requires_grad if False else None,
            a.max(0).indices.requires_grad,
        ],
    )
    log.run(
        "jvp",
        lambda: [
            ft.jvp(lambda x: x.sin() * x, (T(torch, rnd(1, 3)),), (torch.ones(3),)),
            ft.jvp(
                lambda x: F.multilabel_soft_margin_loss(x, torch.tensor([[2.0, 2.0]])),
                (torch.ones(1, 2),),
                (torch.ones(1, 2),),
            ),
            torch.autograd.functional.jacobian(lambda x: x.cumprod(0), T(torch, rnd(1, 3))),
            torch.autograd.functional.hessian(lambda x: (x**3).sum(), T(torch, rnd(1, 3))),
            torch.autograd.functional.jacobian(
                lambda x: x**2, T(torch, rnd(1, 3)), vectorize=True, strategy="forward-mode"
            ),
            torch.autograd.functional.vhp(
                lambda x: (x**3).sum(), T(torch, rnd(1, 3)), torch.ones(3)
            ),
            ft.linearize(lambda x: x.sin(), torch.ones(2))[0] if hasattr(ft, "linearize") else 0,
        ],
    )
    log.run(
        "stack_state",
        lambda: [
            ft.vmap(lambda p, b, x: ft.functional_call(net, (p, b), (x,)), (0, 0, None))(
                *ft.stack_module_state([net, net]), torch.ones(2, 3, dtype=torch.float64)
            )
        ],
    )
    return log.items

"""Programs after reports.

pytorch/pytorch#36383 #26546 (checkpoint + in-place view), PR 34145 #31258 (Function, views,
mark_dirty), #36608 PR 56093 (multi-view outputs), PR 117552 #117366 (retain_grad and in-place),
#8874, #88312 (hooks twice differentiated), f-dangel/singd#56
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log, is_lazyt


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    from importlib import import_module

    checkpoint = (
        import_module(torch.__name__ + ".utils.checkpoint").checkpoint
        if not is_lazyt(torch)
        else torch.utils.checkpoint.checkpoint
    )

    fs = {
        "copy": lambda x, p: (x + p)[:].relu(),
        "inplace": lambda x, p: (x + p).relu_(),
        "view-inplace": lambda x, p: (x + p)[:].relu_(),
        "slice-inplace": lambda x, p: (x + p)[1:].mul_(2),
        "reshape-inplace": lambda x, p: (x * p).view(-1, 1).add_(1).exp_(),
        "t": lambda x, p: (x * p)[None].t().sin_(),
        "two": lambda x, p: [(y := x * p), y[::2].mul_(3), y][2],
    }
    for n, f in fs.items():
        for re in (False, True):

            def run():
                p = torch.tensor(2.0, requires_grad=True)
                x = torch.arange(5.0, requires_grad=True)
                y = checkpoint(lambda t: f(t, p), x, use_reentrant=re)
                (y * torch.arange(1.0, y.numel() + 1).reshape(y.shape)).sum().backward()
                return y, p.grad, x.grad

            log.run(f"ckpt-{n}-{re}", run)

    def inorm(re):
        x = torch.ones(3, 2, 1, requires_grad=True)
        m = torch.nn.Sequential(torch.nn.InstanceNorm1d(2), torch.nn.ReLU(inplace=True))
        y = checkpoint(lambda t: m(torch.cat([t, t * 2], 2)), x, use_reentrant=re)
        y.norm().backward()
        return x.grad

    log.run("ckpt-instnorm", lambda: [inorm(False), inorm(True)], rtol=1e-3, atol=1e-4)

    class ViewFn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inp, inplace):
            v = inp.clone()[:3]
            if inplace:
                v += 2
            return v

        @staticmethod
        def backward(ctx, g):
            return torch.cat([g * 10, torch.zeros(7)]), None

    def viewfn(inplace, after):
        b = torch.arange(10.0, requires_grad=True)
        o = ViewFn.apply(b, inplace)
        name = type(o.grad_fn).__name__
        if after:
            o.mul_(3)
        o.sum().backward()
        return name, o, b.grad

    for i in (False, True):
        for a in (False, True):
            log.run(f"viewfn-{i}-{a}", lambda: viewfn(i, a))

    class Dirty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    def dirty(kind):
        a = torch.arange(4.0, requires_grad=True)
        b = a * 1
        t = b if kind == "base" else b[1:] if kind == "view" else a
        o = Dirty.apply(t)
        (o.sum() + b.sum()).backward()
        return o, b, a.grad, o is t

    for k in ("base", "view", "leaf"):
        log.run("dirty-" + k, lambda: dirty(k))

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x[:2], x[2:], x.argmax()

        @staticmethod
        def backward(ctx, a, b, c):
            return torch.cat(
                [torch.zeros(2) if a is None else a, torch.zeros(2) if b is None else b * 3]
            )

    def two(mut):
        x = torch.arange(4.0, requires_grad=True)
        y = x * 2
        a, b, c = Two.apply(y)
        if mut:
            a.add_(1)
        (b * 2).sum().backward()
        return a, b, c, x.grad, c.requires_grad

    log.run("two", lambda: two(False))
    log.run("two-mut", lambda: two(True))

    class Ident(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    def ident(inpl):
        x = torch.arange(3.0, requires_grad=True)
        y = x * 2
        z = Ident.apply(y)
        if inpl:
            z.mul_(3)
        (z + y).sum().backward()
        return z is y, z, y, x.grad

    log.run("ident", lambda: ident(False))
    log.run("ident-inplace", lambda: ident(True))

    def unb(fn, grad=True):
        r = torch.arange(9.0).reshape(3, 3)
        r.requires_grad_(grad)
        x = r.clone()
        v = fn(x)
        v.mul_(2)
        out = x.sum()
        if grad:
            out.backward()
        return x, r.grad

    for n, f in {
        "unbind": lambda x: x.unbind()[0],
        "unbind-narrow": lambda x: x.unbind()[0].narrow(0, 0, 2),
        "split": lambda x: x.split(1)[1],
        "chunk": lambda x: x.chunk(3, 1)[1],
        "tensor_split": lambda x: x.tensor_split(2)[0],
        "iter": lambda x: list(x)[1],
        "select": lambda x: x[0],
        "hsplit": lambda x: x.hsplit(3)[0],
        "split-view": lambda x: x.split(1)[0].view(-1),
        "detach": lambda x: x.detach()[0],
        "unfold": lambda x: x.unfold(0, 1, 2),
        "diag": lambda x: x.diagonal(),
        "T": lambda x: x.T,
        "expand": lambda x: x[None].squeeze(0),
        "chunk1": lambda x: x.chunk(1)[0],
        "unflatten": lambda x: x.unflatten(0, (3, 1)),
        "movedim": lambda x: x.movedim(0, 1),
        "real": lambda x: x.real,
        "swap": lambda x: x.swapaxes(0, 1),
    }.items():
        log.run("multi-" + n, lambda: unb(f))
        log.run("multi-nograd-" + n, lambda: unb(f, False))

    def ng_view():
        x = torch.arange(4.0, requires_grad=True)
        y = x * 1
        with torch.no_grad():
            v = y[:2]
        v.mul_(2)
        return v

    def leaf_view():
        x = torch.arange(4.0, requires_grad=True)
        x[0] += 0
        return x

    def leaf_view2():
        x = torch.arange(4.0, requires_grad=True)
        x.view(2, 2).mul_(2)

    def saved():
        x = torch.arange(4.0, requires_grad=True)
        y = x.exp()
        y[0] = 5
        y.sum().backward()
        return x.grad

    def saved2():
        x = torch.arange(4.0, requires_grad=True)
        y = x * 1
        z = y**2
        y += 1
        z.sum().backward()
        return x.grad

    def saved3():
        x = torch.arange(4.0, requires_grad=True)
        w = torch.ones(4)
        z = x * w
        w.mul_(2)
        z.sum().backward()
        return x.grad

    def twice():
        x = torch.ones(2, requires_grad=True)
        y = (x * x).sum()
        y.backward()
        y.backward()

    def inference():
        with torch.inference_mode():
            t = torch.ones(3)
        x = torch.ones(3, requires_grad=True)
        return (x * t).sum().backward()

    def inference2():
        with torch.inference_mode():
            t = torch.ones(3)
        t.add_(1)
        return t

    for n, f in {
        "nograd-view": ng_view,
        "leaf-setitem": leaf_view,
        "leaf-view": leaf_view2,
        "saved-exp": saved,
        "saved-pow": saved2,
        "saved-mul": saved3,
        "twice": twice,
        "inference": inference,
        "inference2": inference2,
    }.items():
        log.run("err-" + n, f)

    def retain(order):
        b = torch.ones(4, requires_grad=True).clone()
        v = b[2:]
        if order == 0:
            v.retain_grad()
            v.mul_(2)
        elif order == 1:
            v.mul_(2)
            v.retain_grad()
        elif order == 2:
            v.retain_grad()
            b.mul_(3)
        elif order == 3:
            b.retain_grad()
            v.mul_(2)
        elif order == 4:
            b.retain_grad()
            v.retain_grad()
            b[0] += 0
        y = (b * torch.arange(4.0)).sum() + v[1]
        y.backward()
        return b.grad if b.retains_grad else None, v.grad if v.retains_grad else None

    for o in range(5):
        log.run(f"retain-{o}", lambda: retain(o))

    def hooks(order):
        got = []
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        if order == 0:
            y.register_hook(lambda g: (got.append(("h", g.clone())), g * 10)[1])
            y.mul_(3)
        else:
            y.mul_(3)
            y.register_hook(lambda g: (got.append(("h", g.clone())), g * 10)[1])
        x.register_hook(lambda g: got.append(("x", g.clone())))
        x.register_post_accumulate_grad_hook(lambda t: got.append(("post", t.grad.clone())))
        z = y.sum()
        z.grad_fn.register_hook(lambda gi, go: got.append(("node", go[0].clone())))
        z.grad_fn.register_prehook(lambda go: got.append(("pre", go[0].clone())))
        z.backward()
        return [list(g) for g in got], x.grad

    for o in (0, 1):
        log.run(f"hooks-{o}", lambda: hooks(o))

    def modhook(inpl, dd):
        got = []
        net = torch.nn.Sequential(
            torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=inpl), torch.nn.Linear(2, 1)
        )
        with torch.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(torch.arange(float(p.numel())).reshape(p.shape) * 0.1 + i * 0.3 - 0.2)
        for m in net:
            m.register_full_backward_hook(
                lambda m, gi, go: got.append(
                    (
                        type(m).__name__,
                        [g.clone() if g is not None else None for g in gi],
                        [g.clone() for g in go],
                    )
                )
            )
        x = torch.tensor([[1.0, -2.0], [0.5, 0.3]], requires_grad=True)
        y = net(x).pow(2).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=dd)
        if dd:
            (g2,) = torch.autograd.grad(g.pow(2).sum(), x)
            return g, g2, len(got)
        return g, [[a, b, c] for a, b, c in got]

    for i in (False, True):
        for d in (False, True):
            log.run(f"modhook-{i}-{d}", lambda: modhook(i, d))

    def mse_hess():
        x = torch.tensor([0.3], requires_grad=True)
        y = torch.tensor([0.7])
        lf = torch.nn.MSELoss()
        lf.register_full_backward_hook(lambda m, gi, go: None)
        f = lf(x, y)
        (g,) = torch.autograd.grad(f, x, create_graph=True)
        return torch.autograd.grad(g @ torch.ones(1), x)

    log.run("mse-hess", mse_hess)
    return log.items

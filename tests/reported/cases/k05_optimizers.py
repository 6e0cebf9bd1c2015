"""Programs after reports.

huggingface/pytorch-image-models#2750 (mixed dtypes), pytorch PR 186444 (lr 0), flagos-
ai/FlagGems#4988 bitsandbytes#2010 mlverse/torch#821 (decay order), keras/tinygrad fused steps,
accelerate#641 (accumulation + clip), pytorch/examples#1196 #111739 (scaler)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.reported.shown import Item, Log, T, jit, rnd

DTYPES = ("float32", "float64", "float32")
WITH_DECAY = {
    "sgd",
    "adam",
    "adamw",
    "rmsprop",
    "adagrad",
    "adadelta",
    "adamax",
    "nadam",
    "radam",
    "asgd",
    "adafactor",
}


def parameters(torch: Any, dtypes: Sequence[str]) -> list[Any]:
    """Parameters of these types."""
    return [torch.nn.Parameter(T(torch, rnd(10 + i, 3, 2), dt)) for i, dt in enumerate(dtypes)]


def makers(torch: Any) -> dict[str, Any]:
    """Functions of settings, and then of parameters, by name."""
    O = torch.optim
    return {
        "sgd": lambda **k: lambda ps: O.SGD(ps, 0.1, **k),
        "adam": lambda **k: lambda ps: O.Adam(ps, 0.1, **k),
        "adamw": lambda **k: lambda ps: O.AdamW(ps, 0.1, **k),
        "rmsprop": lambda **k: lambda ps: O.RMSprop(ps, 0.01, **k),
        "adagrad": lambda **k: lambda ps: O.Adagrad(ps, 0.1, **k),
        "adadelta": lambda **k: lambda ps: O.Adadelta(ps, 1.0, **k),
        "adamax": lambda **k: lambda ps: O.Adamax(ps, 0.1, **k),
        "nadam": lambda **k: lambda ps: O.NAdam(ps, 0.1, **k),
        "radam": lambda **k: lambda ps: O.RAdam(ps, 0.1, **k),
        "asgd": lambda **k: lambda ps: O.ASGD(ps, 0.1, **k),
        "rprop": lambda **k: lambda ps: O.Rprop(ps, 0.1, **k),
        "adafactor": lambda **k: lambda ps: O.Adafactor(ps, 0.1, **k),
    }


def step(
    torch: Any, make: Any, dts: Any, n: int = 6, compiled: bool = False, zero_grad: bool = False
) -> Any:
    """Losses, parameters and state after some steps."""
    ps = parameters(torch, dts)
    o = make(ps)

    def one(k: Any) -> Any:
        o.zero_grad()
        loss = sum(
            ((p - 0.3) ** 2 * (1 + 0.1 * k)).sum().float() + (p[0] * k).sum().float() * 0.01
            for p in ps
        )
        loss.backward()
        if zero_grad:
            ps[0].grad = None
        o.step()
        return loss

    f = jit(torch, one) if compiled else one
    losses = [f(torch.tensor(float(k))).detach() for k in range(n)]
    st = o.state_dict()["state"]
    keys = sorted({k for s in st.values() for k in s})
    return (
        losses,
        [p.detach() for p in ps],
        keys,
        [[s[k] for k in sorted(s) if hasattr(s[k], "shape")] for s in st.values()],
    )


def options(n: str) -> list[dict[str, Any]]:
    """The settings to try."""
    opts = [{}] + ([{"weight_decay": 0.3}] if n in WITH_DECAY else []) + [{"maximize": True}]
    if n not in ("adafactor",):
        opts += [
            {"foreach": True, **({"weight_decay": 0.1} if n in WITH_DECAY else {})},
            {"foreach": False},
            {"differentiable": False},
        ]
    if n in ("adam", "adamw"):
        opts += [{"amsgrad": True}, {"betas": (0.0, 0.99)}, {"eps": 0.0}, {"fused": True}]
    if n == "sgd":
        opts += [
            {"momentum": 0.9, "nesterov": True},
            {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
        ]
    if n == "rmsprop":
        opts += [{"momentum": 0.9, "centered": True}]
    if n in ("nadam", "radam"):
        opts += [{"decoupled_weight_decay": True, "weight_decay": 0.1}]
    return opts


def _part_1(torch: Any, log: Log) -> None:
    for n, mk in makers(torch).items():
        for kw in options(n):
            for dts in (("float32", "float64", "float32"), ("float32",) * 3):
                for c in (False, True):
                    if c and dts[1] == "float64":
                        continue
                    log.run(
                        f"{n}-{kw}-{dts[1]}-{c}",
                        lambda: step(torch, mk(**kw), dts, compiled=c),
                        rtol=1e-4,
                        atol=1e-5,
                    )
        log.run(
            f"{n}-none",
            lambda: step(torch, mk(), ("float32",) * 3, zero_grad=True),
            rtol=1e-4,
            atol=1e-5,
        )


def _part_2(torch: Any, log: Log) -> None:
    O = torch.optim
    log.run(
        "bf16",
        lambda: step(
            torch, makers(torch)["adamw"](weight_decay=0.1), ("bfloat16", "float16", "float32"), n=3
        ),
        rtol=3e-2,
        atol=1e-2,
    )
    log.run("lr0", lambda: step(torch, lambda ps: O.Adam(ps, 0.0), ("float32",) * 2))
    log.run(
        "lr0-capt",
        lambda: step(
            torch, lambda ps: O.Adam(ps, torch.tensor(0.1), foreach=False), ("float32",) * 2
        ),
        rtol=1e-4,
    )
    log.run(
        "lr-tensor",
        lambda: step(
            torch, lambda ps: O.AdamW(ps, torch.tensor(0.1)), ("float32",) * 2, compiled=True
        ),
        rtol=1e-4,
    )


def _part_3(torch: Any, log: Log) -> None:
    O = torch.optim

    def groups():
        ps = parameters(torch, ("float32",) * 3)
        o = O.SGD([{"params": ps[:1], "lr": 0.5}, {"params": ps[1:2], "weight_decay": 0.2}], lr=0.1)
        o.add_param_group({"params": ps[2], "momentum": 0.9})
        for _ in range(3):
            o.zero_grad()
            sum((p**2).sum() for p in ps).backward()
            o.step()
        sd = o.state_dict()
        ps2 = parameters(torch, ("float32",) * 3)
        o2 = O.SGD([{"params": [p]} for p in ps2], lr=0.9)
        o2.load_state_dict(sd)
        for p in ps2:
            p.grad = torch.ones_like(p)
        o2.step()
        return [p.detach() for p in ps + ps2], [g["lr"] for g in o2.param_groups], str(o)

    log.run("groups", groups, rtol=1e-4)

    def resume(name):
        mk = makers(torch)[name]()
        a = parameters(torch, ("float32",))
        o = mk(a)
        for k in range(3):
            a[0].grad = torch.ones_like(a[0]) * (k + 1)
            o.step()
        b = [torch.nn.Parameter(a[0].detach().clone())]
        o2 = mk(b)
        import copy

        o2.load_state_dict(
            copy.deepcopy(o.state_dict())
        )  # PyTorch shares the tensors otherwise, lazyt copies them
        for x, oo in ((a, o), (b, o2)):
            x[0].grad = torch.ones_like(x[0]) * 5
            oo.step()
        return a[0].detach(), b[0].detach(), bool(torch.equal(a[0], b[0]))

    for n in makers(torch):
        log.run("resume-" + n, lambda: resume(n), rtol=1e-4)


def _part_4(torch: Any, log: Log) -> None:
    O = torch.optim

    S = O.lr_scheduler
    scheds = {
        "step": lambda o: S.StepLR(o, 3, 0.5),
        "multi": lambda o: S.MultiStepLR(o, [2, 2, 5], 0.1),
        "exp": lambda o: S.ExponentialLR(o, 0.9),
        "cos": lambda o: S.CosineAnnealingLR(o, 4, 0.01),
        "warm": lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2),
        "lin": lambda o: S.LinearLR(o, 0.25, 1.0, 4),
        "const": lambda o: S.ConstantLR(o, 0.5, 3),
        "poly": lambda o: S.PolynomialLR(o, 5, 2.0),
        "one": lambda o: S.OneCycleLR(o, 1.0, total_steps=12),
        "cyc": lambda o: S.CyclicLR(o, 0.1, 1.0, 3, mode="triangular2"),
        "lam": lambda o: S.LambdaLR(o, lambda e: 1 / (e + 1)),
        "mul": lambda o: S.MultiplicativeLR(o, lambda e: 0.9),
        "seq": lambda o: S.SequentialLR(
            o,
            [S.LinearLR(o, 0.1, 1.0, 3), S.CosineAnnealingLR(o, 6), S.ConstantLR(o, 0.1, 2)],
            [3, 7],
        ),
        "chain": lambda o: S.ChainedScheduler([S.ExponentialLR(o, 0.9), S.StepLR(o, 2, 0.5)]),
        "seqwarm": lambda o: S.SequentialLR(
            o, [S.ConstantLR(o, 0.1, 4), S.ExponentialLR(o, 0.5)], [4]
        ),
    }
    for n, mk in scheds.items():

        def run():
            p = parameters(torch, ("float32", "float32"))
            o = O.SGD(
                [{"params": p[:1], "lr": 0.5}, {"params": p[1:], "lr": 0.2}], lr=0.1, momentum=0.9
            )
            s = mk(o)
            out = [[g["lr"] for g in o.param_groups]]
            for k in range(11):
                o.step()
                s.step()
                out.append(
                    [float(g["lr"]) for g in o.param_groups]
                    + [float(g["momentum"]) for g in o.param_groups]
                )
                if k == 5:
                    sd = s.state_dict()
            s2 = mk(
                O.SGD(
                    [{"params": p[:1], "lr": 0.5}, {"params": p[1:], "lr": 0.2}],
                    lr=0.1,
                    momentum=0.9,
                )
            )
            s2.load_state_dict(sd)
            return out, s.get_last_lr(), s2.last_epoch if hasattr(s2, "last_epoch") else None

        log.run("sched-" + n, run)


def _part_5(torch: Any, log: Log) -> None:
    O = torch.optim
    S = O.lr_scheduler

    def plateau():
        p = parameters(torch, ("float32",))
        o = O.SGD(p, 1.0)
        s = S.ReduceLROnPlateau(o, patience=1, factor=0.5, threshold=0.01, cooldown=1, min_lr=0.1)
        out = []
        for v in (
            1.0,
            0.9,
            0.9,
            0.899,
            0.9,
            0.95,
            float("nan"),
            1.0,
            0.5,
            torch.tensor(0.5),
            0.5,
            0.5,
        ):
            s.step(v)
            out.append(o.param_groups[0]["lr"])
        return out, s.num_bad_epochs

    log.run("plateau", plateau)


def _part_6(torch: Any, log: Log) -> None:
    O = torch.optim

    def accum():
        m = torch.nn.Linear(3, 2)
        with torch.no_grad():
            m.weight.copy_(T(torch, rnd(1, 2, 3)))
            m.bias.zero_()
        o = O.SGD(m.parameters(), 0.1)
        out = []
        for k in range(6):
            loss = (m(T(torch, rnd(k, 4, 3))) ** 2).mean() / 2
            loss.backward()
            if k % 2:
                out.append(torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5, foreach=bool(k % 3)))
                out.append(torch.nn.utils.clip_grad_value_(m.parameters(), 0.1))
                o.step()
                o.zero_grad(set_to_none=k == 3)
                out.append(m.weight.grad)
        return out, m.weight.detach()

    log.run("accum", accum, rtol=1e-4)
    for v in (float("inf"), float("nan"), 1e30, 0.0):
        for p in (2.0, float("inf"), 1.0):

            def clip():
                a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
                a.grad, b.grad = torch.tensor([v, 1.0]), torch.tensor([2.0, 3.0])
                n = torch.nn.utils.clip_grad_norm_([a, b], 1.0, p)
                return n, a.grad, b.grad

            log.run(f"clip-{v}-{p}", clip)
    log.run(
        "clip-err",
        lambda: [
            setattr(
                a := torch.ones(2, requires_grad=True), "grad", torch.tensor([float("nan"), 1])
            ),
            torch.nn.utils.clip_grad_norm_([a], 1.0, error_if_nonfinite=True),
        ],
    )


def _part_7(torch: Any, log: Log) -> None:
    O = torch.optim

    def scaler():
        sc = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
        p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        o = O.SGD([p], 0.1)
        out = []
        for k in range(7):
            o.zero_grad()
            loss = (p * (float("inf") if k == 3 else 1.0)).sum()
            sc.scale(loss).backward()
            if k % 2:
                sc.unscale_(o)
                torch.nn.utils.clip_grad_norm_([p], 1.0)
            out.append(p.grad.clone())
            sc.step(o)
            sc.update()
            out += [sc.get_scale(), p.detach().clone()]
        try:
            sc.unscale_(o)
            sc.unscale_(o)
        except Exception as e:
            out.append(e)
        return out, dict(sc.state_dict().items())

    log.run("scaler", scaler)


def _part_8(torch: Any, log: Log) -> None:
    def autocast():
        a, w = T(torch, rnd(1, 3, 4)), T(torch, rnd(2, 4, 5), grad=True)
        out = []
        with torch.autocast("cpu", torch.bfloat16):
            y = a @ w
            out += [
                y,
                (a + a).dtype,
                torch.nn.functional.softmax(y, 1).dtype,
                (y + a[:, :1]).dtype,
                torch.nn.functional.linear(a, w.t()).dtype,
                torch.nn.functional.mse_loss(y, y.float()).dtype,
                y.sum().dtype,
                torch.cat([y, y.float()]).dtype,
                y.exp().dtype,
                y.pow(2).dtype,
                torch.nn.functional.layer_norm(y, (5,)).dtype,
                torch.nn.functional.cross_entropy(y, torch.tensor([0, 1, 2])).dtype,
                torch.bmm(a[None], a.t()[None]).dtype,
                torch.einsum("ij,jk->ik", a, w).dtype,
                torch.nn.functional.conv1d(
                    a[None],
                    a[:, :, None].transpose(0, 1)[:3].transpose(0, 1)[:, :3].contiguous()[:2]
                    if False
                    else torch.ones(2, 3, 1),
                ).dtype,
                torch.addmm(y, a, w).dtype if False else None,
                y.norm().dtype,
                y.cumsum(0).dtype,
                y.prod(0).dtype,
            ]
            with torch.autocast("cpu", enabled=False):
                out += [(a @ w).dtype]
            z = (a @ w).float().sum()
        z.backward()
        out += [w.grad, w.grad.dtype, torch.is_autocast_enabled("cpu")]
        return [str(v) if str(v).startswith(("torch.", "lazyt.")) else v for v in out]

    log.run("autocast", autocast)


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    for part in (
        _part_1,
        _part_2,
        _part_3,
        _part_4,
        _part_5,
        _part_6,
        _part_7,
        _part_8,
    ):
        part(torch, log)
    return log.items

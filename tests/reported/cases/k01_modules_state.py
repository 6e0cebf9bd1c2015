"""Programs after reports.

pytorch/pytorch#188346 (assign breaks ties), #102981 #28594 (weight_norm deepcopy), PR 117276
(Parameter's __dict__), skorch#741, DLPack-free pickling of modules
"""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

from tests.reported.shown import Item, Log


def _part_1(torch: Any, log: Log) -> None:
    nn = torch.nn

    def fill(m):
        with torch.no_grad():
            for i, p in enumerate(m.parameters()):
                p.copy_(torch.arange(float(p.numel())).reshape(p.shape) * 0.01 + i * 0.1 - 0.05)
        return m

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4, 3)
            self.proj = nn.Linear(3, 4, bias=False)
            self.proj.weight = self.embed.weight
            self.register_buffer("mask", torch.ones(2))
            self.register_buffer("tmp", torch.zeros(1), persistent=False)
            self.alias = self.mask

    def tied(assign):
        src, dst = fill(Tied()), fill(Tied())
        with torch.no_grad():
            src.embed.weight.mul_(3)
        r = dst.load_state_dict(src.state_dict(), assign=assign)
        return (
            str(r),
            dst.embed.weight is dst.proj.weight,
            [n for n, _ in dst.named_parameters()],
            [n for n, _ in dst.named_parameters(remove_duplicate=False)],
            dst.embed.weight,
            list(dst.state_dict()),
            dst.embed.weight.data_ptr() == src.embed.weight.data_ptr(),
            [n for n, _ in dst.named_buffers()],
        )

    for a in (False, True):
        log.run(f"tied-{a}", lambda: tied(a))


def _part_2(torch: Any, log: Log) -> None:
    nn = torch.nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4, 3)
            self.proj = nn.Linear(3, 4, bias=False)
            self.proj.weight = self.embed.weight
            self.register_buffer("mask", torch.ones(2))
            self.register_buffer("tmp", torch.zeros(1), persistent=False)
            self.alias = self.mask

    def fill(m):
        with torch.no_grad():
            for i, p in enumerate(m.parameters()):
                p.copy_(torch.arange(float(p.numel())).reshape(p.shape) * 0.01 + i * 0.1 - 0.05)
        return m

    def tie_copy():
        m = copy.deepcopy(fill(Tied()))
        b = io.BytesIO()
        torch.save(m.state_dict(), b)
        b.seek(0)
        sd = torch.load(b)
        same = sd["embed.weight"].data_ptr() == sd["proj.weight"].data_ptr()
        return m.embed.weight is m.proj.weight, same, m.alias is m.mask, len(list(m.parameters()))

    log.run("tied-copy", tie_copy)
    for name in ("weight_norm", "spectral_norm"):
        for old in (True, False):

            def wn():
                torch.manual_seed(0)
                f = getattr(nn.utils, name) if old else getattr(nn.utils.parametrizations, name)
                m = f(fill(nn.Linear(2, 3)))
                y = m(torch.ones(1, 2))
                try:
                    m2 = copy.deepcopy(m)
                except Exception as e:
                    return e
                keys = list(m.state_dict())
                with torch.no_grad():
                    for p in m2.parameters():
                        p.add_(1)
                return (
                    keys,
                    list(m2.state_dict()),
                    y.shape,
                    bool(torch.equal(m(torch.ones(1, 2)), m2(torch.ones(1, 2)))),
                    [n for n, _ in m2.named_parameters()],
                )

            log.run(f"{name}-{old}", wn)


def _part_3(torch: Any, log: Log) -> None:
    nn = torch.nn

    def fill(m):
        with torch.no_grad():
            for i, p in enumerate(m.parameters()):
                p.copy_(torch.arange(float(p.numel())).reshape(p.shape) * 0.01 + i * 0.1 - 0.05)
        return m

    def wn_values():
        m = nn.utils.weight_norm(fill(nn.Linear(2, 3)))
        y = m(torch.ones(1, 2))
        y.sum().backward()
        g = [p.grad for p in m.parameters()]
        nn.utils.remove_weight_norm(m)
        return y, g, m.weight, list(m.state_dict())

    log.run("wn-values", wn_values)
    log.run("deepcopy-nonleaf", lambda: copy.deepcopy(torch.ones(2, requires_grad=True) * 2))

    def pdict():
        p = nn.Parameter(torch.ones(2))
        p.tag = "x"
        p.grad = torch.ones(2)
        q = copy.deepcopy(p)
        r = pickle.loads(pickle.dumps(p))
        s = copy.copy(p)
        t = torch.ones(2, requires_grad=True)
        t.note = [1]
        u = copy.deepcopy(t)
        return (
            getattr(q, "tag", None),
            q.grad,
            getattr(r, "tag", None),
            r.grad,
            r.requires_grad,
            s is p,
            s.data_ptr() == p.data_ptr(),
            type(q).__name__,
            getattr(u, "note", None),
            u.note is t.note if hasattr(u, "note") else None,
        )

    log.run("param-dict", pdict)


def _part_4(torch: Any, log: Log) -> None:
    def views():
        b = torch.arange(6.0)
        l = [b, b[2:], b.view(2, 3).t()]
        c = copy.deepcopy(l)
        c[0][3] = 99
        d = pickle.loads(pickle.dumps(l))
        d[0][3] = 77
        f = io.BytesIO()
        torch.save(l, f)
        f.seek(0)
        e = torch.load(f)
        e[0][3] = 55
        return c, d, e, e[2].stride(), c[2].stride()

    log.run("views", views)


def _part_5(torch: Any, log: Log) -> None:
    nn = torch.nn

    def strict():
        m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        sd = m.state_dict()
        out = []
        bad = dict(sd)
        bad.pop("0.bias")
        bad["zzz"] = torch.ones(1)
        for kw in ({}, {"strict": False}):
            try:
                out.append(str(m.load_state_dict(bad, **kw)))
            except RuntimeError as e:
                out.append(str(e))
        bad2 = dict(sd)
        bad2["0.weight"] = torch.ones(3, 3)
        try:
            m.load_state_dict(bad2)
        except RuntimeError as e:
            out.append(str(e))
        try:
            m.load_state_dict({k: v.double() for k, v in sd.items()})
            out.append(str(m[0].weight.dtype))
        except RuntimeError as e:
            out.append(str(e))
        try:
            m.load_state_dict([1])
        except TypeError as e:
            out.append(type(e).__name__)
        return out

    log.run("strict", strict)


def _part_6(torch: Any, log: Log) -> None:
    nn = torch.nn

    def hooks():
        got = []
        m = nn.Linear(2, 2)
        m.register_state_dict_post_hook(lambda mod, sd, pre, lm: got.append(sorted(sd)))
        m.register_state_dict_pre_hook(lambda mod, pre, kv: got.append("pre"))
        m.register_load_state_dict_pre_hook(
            lambda mod, sd, *a: sd.update({"weight": sd["weight"] * 2})
        )
        m.register_load_state_dict_post_hook(lambda mod, inc: inc.missing_keys.clear())
        sd = m.state_dict()
        r = m.load_state_dict({"weight": torch.ones(2, 2)}, strict=True)
        return got, str(r), m.weight

    log.run("hooks", hooks)

    def lazy():
        m = nn.Sequential(
            nn.LazyLinear(3), nn.ReLU(), nn.LazyConv1d(2, 1) if False else nn.Identity()
        )
        s = repr(m)
        m(torch.ones(2, 5))
        return s, repr(m), m[0].weight.shape

    log.run("lazy", lazy)
    log.run(
        "reprs",
        lambda: [
            repr(
                nn.Sequential(
                    nn.Conv2d(1, 2, 3, padding="same", bias=False),
                    nn.BatchNorm2d(2),
                    nn.MaxPool2d(2),
                    nn.LSTM(2, 3, batch_first=True),
                    nn.TransformerEncoderLayer(4, 2),
                    nn.MultiheadAttention(4, 2),
                    nn.Embedding(3, 4, padding_idx=0),
                    nn.Dropout(0.2, True),
                    nn.GELU("tanh"),
                    nn.Softmax(1),
                    nn.Upsample(scale_factor=2),
                    nn.CrossEntropyLoss(),
                    nn.ModuleDict({"a": nn.Linear(1, 1)}),
                    nn.ParameterList([nn.Parameter(torch.ones(2))]),
                    nn.GroupNorm(2, 4),
                    nn.PReLU(),
                    nn.Bilinear(1, 2, 3),
                )
            )
        ],
    )


def _part_7(torch: Any, log: Log) -> None:
    nn = torch.nn

    def swapped():
        m = nn.Linear(2, 2)
        o = torch.optim.SGD(m.parameters(), 0.1)
        w = m.weight
        m.half()
        a = m.weight is w, m.weight.dtype
        m.float()
        m.to(torch.float64)
        m(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
        o.step()
        return a, m.weight is w, m.weight.grad.dtype

    log.run("to-dtype", lambda: [str(v) for v in swapped()])


def _part_8(torch: Any, log: Log) -> None:
    nn = torch.nn

    def nested():
        m = nn.Module()
        m.a = nn.Linear(1, 1)
        m.b = m.a
        m.c = nn.ModuleList([m.a, nn.Linear(1, 1)])
        m.register_parameter("none", None)
        m.x = nn.Parameter(torch.ones(1))
        m.x = None
        out = [
            [n for n, _ in m.named_modules()],
            [n for n, _ in m.named_modules(remove_duplicate=False)],
            list(m.state_dict()),
            [n for n, _ in m.named_parameters()],
            [n for n, _ in m.named_children()],
        ]
        try:
            m.a.weight = torch.ones(1, 1)
        except TypeError as e:
            out.append(str(e))
        try:
            m.register_buffer("a", torch.ones(1))
        except KeyError as e:
            out.append(str(e))
        try:  # the error is what is shown
            m.register_parameter("a.b", None)
        except KeyError as e:
            out.append(str(e))
        try:
            m.get_submodule("c.5")
        except AttributeError as e:
            out.append(str(e))
        try:
            m.nope  # noqa: B018  # the error is what is shown
        except AttributeError as e:
            out.append(str(e))
        return out

    log.run("nested", nested)


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

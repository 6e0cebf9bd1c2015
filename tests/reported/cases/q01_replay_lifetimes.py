"""Programs after reports.

pytorch "tensor output of CUDAGraphs that has been overwritten" reports (#104435-like),
tinygrad/tinygrad#16571 #8014-like (captured inputs), mlx#2900: results of replays that are held
in many ways, written to, fed back
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from tests.reported.shown import Item, Log, T, jit, rnd


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F = torch.nn.functional

    def f(x):
        y = x * 2 + 1
        return y, y.sum(), y[1:], x.t() * 3

    holders = {
        "tensor": lambda r: r[0],
        "numpy": lambda r: r[0].numpy(),
        "asarray": lambda r: np.asarray(r[0]),
        "slice": lambda r: r[0][1],
        "numpy-slice": lambda r: r[0].numpy()[1],
        "detach": lambda r: r[0].detach(),
        "data": lambda r: r[0].data,
        "view": lambda r: r[0].view(-1),
        "t": lambda r: r[3].t(),
        "part": lambda r: r[2],
        "dlpack": lambda r: np.from_dlpack(r[0]),
        "from_dlpack": lambda r: torch.from_dlpack(r[0]),
        "memoryview": lambda r: memoryview(r[0].numpy()),
        "storage": lambda r: r[0].untyped_storage(),
        "expand": lambda r: r[0][None].expand(2, 3, 4),
        "item": lambda r: r[1].item(),
        "tolist": lambda r: r[0].tolist(),
        "iter": lambda r: iter(r[0]),
        "lazy": lambda r: r[0] + 1,
        "unbind": lambda r: r[0].unbind(0),
        "param": lambda r: torch.nn.Parameter(r[0]),
        "as_strided": lambda r: r[0].as_strided((2, 2), (4, 1)),
        "dict": lambda r: {"k": r[0]},
        "closure": lambda r: lambda: r[0],
        "set_": lambda r: torch.zeros(0).set_(r[0]) if True else 0,
        "dview": lambda r: r[0].view(torch.int32),
        "frombuffer": lambda r: torch.frombuffer(r[0].numpy(), dtype=torch.float32),
        "tensor_of_numpy": lambda r: torch.from_numpy(r[0].numpy()),
    }

    def value(h):
        if callable(h):
            h = h()
        if isinstance(h, dict):
            h = h["k"]
        if isinstance(h, memoryview):
            return np.asarray(h)
        if hasattr(h, "nbytes") and hasattr(h, "tolist") and not hasattr(h, "shape"):
            return list(h.tolist())[:8]
        if type(h).__name__.endswith("iterator") or hasattr(h, "__next__"):
            return list(h)
        return h

    for name, hold in holders.items():

        def run():
            g = jit(torch, f)
            kept = []
            for k in range(7):
                r = g(torch.arange(12.0).reshape(3, 4) + k)
                kept.append(hold(r))
                del r
                gc.collect() if k == 4 else None
            return [value(h) for h in kept]

        log.run("hold-" + name, run)

    def inplace_results():
        g = jit(torch, f)
        out = []
        for k in range(7):
            a, s, p, t = g(torch.arange(12.0).reshape(3, 4) + k)
            a.mul_(100)
            p.add_(1)
            t.zero_()
            out.append([a.clone(), s, p.clone()])
        return out

    log.run("inplace-results", inplace_results)

    def feedback():
        g = jit(torch, lambda x, v: (x + 0.1 * v, v - 0.1 * x))
        x, v = torch.ones(5), torch.zeros(5)
        out = []
        for k in range(12):
            x, v = g(x, v)
            if k % 3 == 0:
                out.append(x)
            if k == 6:
                x = x.clone()
            if k == 8:
                v = v[:] * 1
        return out, x, v

    log.run("feedback", feedback)

    def swap():
        g = jit(torch, lambda x, y: (y, x, x + y))
        a, b = torch.ones(2), torch.zeros(2)
        out = []
        for k in range(8):
            a, b, c = g(a, b)
            out.append([a, b, c, a is b])
            if k == 5:
                a.add_(7)
        return out

    log.run("swap", swap)

    def return_input():
        x = torch.arange(3.0)
        g = jit(torch, lambda x: (x, x * 2, x[1:], x.view(3, 1)))
        out = []
        for _k in range(6):
            a, b, c, d = g(x)
            with torch.no_grad():
                c.add_(1)
            out.append(
                [
                    a is x,
                    a.clone(),
                    b,
                    d.clone(),
                    c.data_ptr() == x.data_ptr() + 4,
                    d.data_ptr() == x.data_ptr(),
                ]
            )
        return out

    log.run("return-input", return_input)

    def same_object():
        def h(x):
            y = x * 2
            return y, y, y.view(-1), [y, {"a": y}]

        g = jit(torch, h)
        out = []
        for k in range(6):
            a, b, c, (d, e) = g(torch.ones(2, 2) * k)
            a.add_(1)
            out.append([a is b, b, c, d is a, e["a"] is a])
        return out

    log.run("same-object", same_object)

    def mutate_arg():
        def h(x, buf):
            buf[:, 0] = x.sum()
            buf.mul_(2)
            x.add_(buf[0, 0])
            return x * 1, buf

        g = jit(torch, h)
        buf = torch.zeros(2, 3)
        x = torch.ones(3)
        seen = x.view(3, 1)
        out = []
        for k in range(7):
            y, b = g(x, buf)
            out.append([y, b is buf, buf.clone(), seen.clone(), x._version > 0])
            if k == 3:
                buf.zero_()
            if k == 5:
                x = torch.zeros(3)
        return out

    log.run("mutate-arg", mutate_arg)

    def batches():
        data = torch.arange(40.0).reshape(10, 4)
        g = jit(torch, lambda b: (b * 2).sum(0))
        out = (
            [g(data[i]) for i in range(10)]
            + [g(data[i : i + 2]) for i in range(6)]
            + [g(data[i::3]) for i in range(3)]
            + [g(data[:, i]) for i in range(4)]
        )
        data.mul_(10)
        out += [g(data[i]) for i in range(3)]
        return out

    log.run("batches", batches)

    def batch_written():
        data = torch.arange(12.0).reshape(4, 3)
        g = jit(torch, lambda b: b.mul_(2).sum())
        out = (
            [g(data[i]) for i in range(4)]
            + [g(data[0]) for _ in range(3)]
            + [g(data[1:3]) for _ in range(3)]
        )
        return out, data

    log.run("batch-written", batch_written)

    def numpy_args():
        arr = np.arange(6, dtype="float32")
        t = torch.from_numpy(arr)
        g = jit(torch, lambda x: x * 2)
        out = []
        for k in range(7):
            arr[0] = k * 10
            out.append(g(t).numpy().copy())
            t[1] = k
        return out, arr

    log.run("numpy-args", numpy_args)

    def kwargs_structs():
        g = jit(torch, lambda d, *, k=1, l=(): d["a"] * k + sum(l) + (d["b"][0] if d["b"] else 0))
        out = []
        for k in range(8):
            d = {"a": torch.ones(2) * k, "b": [torch.ones(2)] if k % 2 else []}
            out.append(g(d, k=k % 3, l=(torch.ones(2),) * (k % 4 == 0)))
        return out

    log.run("structs", kwargs_structs)

    def grads_kept():
        w = torch.ones(3, requires_grad=True)

        def h(x):
            loss = ((w * x) ** 2).sum()
            (g,) = torch.autograd.grad(loss, w)
            return loss, g

        g = jit(torch, h)
        kept = []
        for k in range(7):
            kept.append(g(torch.arange(3.0) + k))
            if k == 4:
                with torch.no_grad():
                    w.mul_(2)
        return kept

    log.run("grads-kept", grads_kept)

    def backward_outside():
        w = torch.ones(3, requires_grad=True)
        g = jit(torch, lambda x: ((w * x).sin().sum(), w * x))
        out = []
        for k in range(7):
            loss, y = g(torch.arange(3.0) + k)
            (loss + y.sum() * 2).backward()
            out.append(w.grad.clone())
            if k % 2:
                w.grad = None
        return out

    log.run("backward-outside", backward_outside)

    def grad_buffers():
        m = torch.nn.Linear(3, 2)
        with torch.no_grad():
            m.weight.copy_(T(torch, rnd(1, 2, 3)))
            m.bias.zero_()

        def h(x):
            m.zero_grad()
            m(x).pow(2).sum().backward()
            return m.weight.grad

        g = jit(torch, h)
        kept, alias = [], []
        for k in range(7):
            r = g(T(torch, rnd(k, 4, 3)))
            kept.append(r)
            alias.append(r is m.weight.grad)
            if k == 3:
                m.weight.grad.mul_(0)
            if k == 4:
                m.weight.grad = torch.ones(2, 3)
        return kept, alias, m.weight.grad

    log.run("grad-buffers", grad_buffers, rtol=1e-4)

    def two_backwards():  # tinygrad 16571
        m = torch.nn.Conv2d(3, 4, 3)
        with torch.no_grad():
            m.weight.copy_(T(torch, rnd(1, 4, 3, 3, 3)))
            m.bias.zero_()

        def h(x, t):
            m.zero_grad()
            z = m(x.permute(0, 3, 1, 2).contiguous()).mean((2, 3))
            loss = -z.log_softmax(1).gather(1, t[:, None])[:, 0]
            loss.sum().backward(retain_graph=True)
            n = m.weight.grad.norm()
            a = m.weight.grad.clone()
            m.zero_grad()
            (loss * 0.5).sum().backward()
            return a, n, m.weight.grad, loss.detach()

        g = jit(torch, h)
        return [g(T(torch, rnd(k, 2, 6, 5, 3)), torch.tensor([k % 4, 1])) for k in range(6)]

    log.run("two-backwards", two_backwards, rtol=1e-4)

    def nested():
        inner = jit(torch, lambda x: x.sin() + 1)
        outer = jit(torch, lambda x: inner(x * 2) + inner(x))
        return [[inner(torch.ones(2) * k), outer(torch.ones(2) * k)] for k in range(6)]

    log.run("nested", nested)

    def exceptions():
        def h(x, k):
            x.add_(1)
            if k == 3:
                raise ValueError("three")
            return x * 2

        g = jit(torch, h)
        x = torch.zeros(2)
        out = []
        for k in range(7):
            try:
                out.append(g(x, k))
            except ValueError as e:
                out.append(str(e))
            out.append(x.clone())
        return out

    log.run("exceptions", exceptions)

    def methods():
        class A:
            def __init__(self, s):
                self.s = s
                self.t = torch.ones(2) * s

            def go(self, x):
                self.t = self.t + x
                return self.t * self.s

        a, b = A(2), A(3)
        ga, gb = jit(torch, a.go), jit(torch, b.go)
        gs = jit(torch, A.go)
        return [
            [
                ga(torch.ones(2)),
                gb(torch.ones(2)),
                gs(a, torch.ones(2)),
                gs(b, torch.ones(2)),
                a.t,
                b.t,
            ]
            for k in range(6)
        ]

    log.run("methods", methods)

    def modes():
        w = torch.ones(2, requires_grad=True)
        g = jit(torch, lambda x: w * x)
        out = []
        for k in range(9):
            with torch.set_grad_enabled(k % 3 != 0):
                y = g(torch.ones(2) * k)
            out.append([y, y.requires_grad])
        with torch.inference_mode():
            y = g(torch.ones(2))
            out.append([y, y.is_inference()])
        return out

    log.run("modes", modes)

    def train_eval():
        m = torch.nn.Sequential(
            torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.0)
        )
        with torch.no_grad():
            m[0].weight.copy_(T(torch, rnd(1, 3, 3)))
            m[0].bias.zero_()
        g = jit(torch, m)
        out = []
        for k in range(10):
            m.train(k % 4 < 2)
            with torch.no_grad():
                out.append(
                    [
                        g(T(torch, rnd(k, 5, 3))),
                        m[1].running_mean.clone(),
                        m[1].num_batches_tracked.clone(),
                    ]
                )
        return out

    log.run("train-eval", train_eval, rtol=1e-4, atol=1e-5)

    def dtype_device():
        g = jit(torch, lambda x: x * 2 + torch.ones(()).sum())
        return [
            g(torch.arange(3).to(getattr(torch, d)))
            for d in ("float32", "float64", "int64", "float32", "bool", "bfloat16", "float32")
        ] + [
            g(torch.arange(6.0).reshape(2, 3).t()),
            g(torch.arange(6.0).reshape(3, 2)),
            g(torch.ones(3, requires_grad=True)).requires_grad,
        ]

    log.run("dtypes", dtype_device)

    def default_dtype():
        g = jit(torch, lambda x: x + torch.ones(2) * 0.1 + torch.tensor(1.5))
        out = [g(torch.ones(2, dtype=torch.int64)) for _ in range(4)]
        torch.set_default_dtype(torch.float64)
        out.append(g(torch.ones(2, dtype=torch.int64)))
        torch.set_default_dtype(torch.float32)
        out.append(g(torch.ones(2, dtype=torch.int64)))
        return out

    log.run("default-dtype", default_dtype)
    return log.items

"""Small programs as people write them, for comparing what they compute however it is computed.

Each takes the module and a source of random choices, and returns tensors. ``CELLS`` has them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Cell = Callable[[Any, random.Random], list[Any]]


def _classifier(lt: Any, chance: random.Random) -> tuple[Any, Any, Any]:
    wide = chance.randint(5, 40)
    net = lt.nn.Sequential(
        lt.nn.Linear(6, wide), chance.choice([lt.nn.ReLU, lt.nn.GELU, lt.nn.Tanh])(),
        lt.nn.LayerNorm(wide), lt.nn.Linear(wide, 3),
    )  # fmt: skip
    return net, lt.randn(chance.randint(3, 20), 6), wide


def training(lt: Any, chance: random.Random) -> list[Any]:
    """Steps of some optimizer, captured or not, on batches of one size or of several."""
    net, x, _ = _classifier(lt, chance)
    kind, settings = chance.choice(
        [("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {}), ("RMSprop", {}), ("Adagrad", {})]
    )
    optimizer = getattr(lt.optim, kind)(net.parameters(), lr=0.05, **settings)
    schedule = lt.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = lt.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        lt.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run = lt.jit(step) if chance.random() < 0.6 else step
    losses = []
    for number in range(9):
        some = x[: len(x) - number % 2] if chance.random() < 0.4 else x
        losses.append(run(some, lt.arange(len(some)) % 3))
        if chance.random() < 0.5:
            losses[-1].item()
        schedule.step()
    return [*losses, *net.parameters()]


def pictures(lt: Any, chance: random.Random) -> list[Any]:
    """A small convolutional network, trained and evaluated."""
    channels = chance.randint(2, 6)
    net = lt.nn.Sequential(
        lt.nn.Conv2d(1, channels, 3, padding=chance.randint(0, 1)), lt.nn.BatchNorm2d(channels),
        lt.nn.ReLU(), lt.nn.MaxPool2d(2), lt.nn.Flatten(), lt.nn.LazyLinear(4),
    )  # fmt: skip
    x = lt.rand(chance.randint(2, 5), 1, 8, chance.choice([8, 10]))
    net(x)
    optimizer = lt.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = (net(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    return [lt.tensor(losses), net(x), *net.parameters(), *net.buffers()]


def attention(lt: Any, chance: random.Random) -> list[Any]:
    """Attention with a mask, and a cache that grows by one place a step."""
    heads, size = chance.choice([1, 2, 3]), chance.choice([4, 5, 8])
    q, k, v = (lt.randn(heads, 7, size).requires_grad_() for _ in range(3))
    mask = lt.ones(7, 7, dtype=lt.bool).tril()
    scores = (q @ k.transpose(-2, -1) / size**0.5).masked_fill(~mask, float("-inf"))
    found = scores.softmax(-1) @ v
    found.square().sum().backward()
    fused = lt.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    keys, values = lt.zeros(heads, 0, size), lt.zeros(heads, 0, size)
    results = [found, fused, q.grad, k.grad, v.grad]
    with lt.no_grad():
        for place in range(chance.randint(4, 7)):
            keys = lt.cat([keys, k[:, place : place + 1]], 1)
            values = lt.cat([values, v[:, place : place + 1]], 1)
            one = q[:, place : place + 1]
            results.append((one @ keys.mT).softmax(-1) @ values)
            results[-1].sum().item()
    return results


def recurrent(lt: Any, chance: random.Random) -> list[Any]:
    """A recurrent layer over sequences of changing lengths, with its gradients."""
    kind = chance.choice(["LSTM", "GRU", "RNN"])
    layer = getattr(lt.nn, kind)(3, chance.randint(2, 6), batch_first=True)
    results = []
    for _ in range(4):
        x = lt.randn(2, chance.randint(2, 6), 3)
        output, _ = layer(x)
        output.square().sum().backward()
        results.append(output)
    return [*results, *[parameter.grad for parameter in layer.parameters()]]


def folds(lt: Any, chance: random.Random) -> list[Any]:
    """Reductions of all kinds, over changing extents and dtypes."""
    results = []
    for _ in range(5):
        shape = (chance.choice([1, 3, 33]), chance.choice([2, 17, 1100]))
        x = lt.randn(*shape).to(chance.choice([lt.float32, lt.float64, lt.float16]))
        axis = chance.choice([0, 1, (0, 1)])
        results += [x.sum(axis), x.mean(axis), x.amax(axis), x.amin(axis), (x * x).sum(axis) + 1]
        results += [x.float().var(axis), x.float().logsumexp(axis), x.float().norm(dim=axis)]
        results += [x.argmax(), x.argmin(0), (x > 0).all(), (x > 3).any(0), x.prod(0)]
        results[-1].tolist()
    return results


def orders(lt: Any, chance: random.Random) -> list[Any]:
    """Scans, sorts and what is built on them."""
    x = (lt.randn(chance.randint(2, 6), chance.randint(3, 40)) * 4).round()
    axis = chance.choice([0, 1])
    largest = x.topk(2, dim=1)
    found = [x.cumsum(axis), x.cumprod(axis), *x.cummax(axis), *x.sort(axis), x.argsort(axis)]
    found += [*largest, x.flip(axis), x.roll(3, axis), x.unique(), *x.median(axis)]
    found += [lt.searchsorted(x.flatten().sort()[0], x[0]), x.logcumsumexp(axis), x.diff(dim=1)]
    return [*found, lt.bincount(x.abs().long().flatten()), x.kthvalue(2, 1)[0]]


def writes(lt: Any, chance: random.Random) -> list[Any]:
    """Writes at places that change, through views and by index."""
    x = lt.arange(60.0).reshape(6, 10)
    if chance.random() < 0.5:
        x = x.double()
    seen = []
    for number in range(8):
        start = chance.randint(0, 4)
        row = x[start]
        x[start, number : number + 2] = number - 0.5
        row.mul_(1.25)
        index = lt.tensor([chance.randint(0, 5) for _ in range(4)])
        x.index_add_(0, index, lt.ones(4, 10, dtype=x.dtype) * number)
        x.scatter_add_(1, index[:, None] % 6, x[:4, :1] * 0.5)
        x.masked_fill_(x > 100, 3.0)
        x.t()[number % 10].add_(start)
        seen.append(x[::2, start:].clone() if chance.random() < 0.5 else x.sum(0))
        if chance.random() < 0.4:
            seen[-1].tolist()
    return [*seen, x, x.take(lt.tensor([3, 59, 7])), x[x > 2.5]]


def statistics(lt: Any, chance: random.Random) -> list[Any]:
    """Running averages in a loop, by numbers that change from step to step."""
    mean, var = lt.zeros(5), lt.ones(5)
    seen = []
    for number in range(1, 13):
        x = lt.sin(lt.arange(20.0) * number).reshape(4, 5) + chance.choice([0, 0.25, number])
        rate = 1 / number if chance.random() < 0.7 else 0.1
        mean = mean * (1 - rate) + x.mean(0) * rate
        var.mul_(1 - rate).add_(x.var(0), alpha=rate)
        if float(var.sum()) > 3:
            seen.append((x - mean) / (var + 1e-5).sqrt())
    return [mean, var, *seen]


def halves(lt: Any, chance: random.Random) -> list[Any]:
    """Training in 16 bits, with a scale that changes."""
    net, x, _ = _classifier(lt, chance)
    dtype = chance.choice([lt.bfloat16, lt.float16])
    optimizer = lt.optim.SGD(net.parameters(), lr=0.01)
    scaler = lt.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        with lt.autocast("cpu", dtype=dtype):
            loss = net(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return [*losses, *net.parameters(), x.to(dtype).exp().sum(0), x.to(dtype) @ x.to(dtype).t()]


def products(lt: Any, chance: random.Random) -> list[Any]:
    """Products of all shapes, and factorizations, which are calls of a library."""
    m, k, n = (chance.choice([1, 2, 9, 33]) for _ in range(3))
    a, b, many = lt.randn(m, k), lt.randn(k, n), lt.randn(3, m, k)
    square = lt.randn(4, 4)
    square = square @ square.t() + lt.eye(4)
    found = [a @ b, a.double() @ b.double(), many @ b, a[0] @ b[:, 0], a @ b[:, 0], b.t() @ a.t()]
    found += [lt.einsum("bij,jk->bki", many, b), lt.outer(a[0], b[0]), lt.kron(a[:1], b[:1])]
    found += [lt.linalg.cholesky(square), lt.linalg.solve(square, lt.ones(4)), square.inverse()]
    return [
        *found,
        square.det(),
        lt.tensordot(many, b, 1),
        lt.baddbmm(many @ b, many, b.expand(3, k, n)),
    ]


def chances(lt: Any, chance: random.Random) -> list[Any]:
    """Random numbers, in the graph and in layers."""
    shape = chance.randint(1, 30), 4
    x = lt.rand(shape)
    drawn = [lt.randn(shape), lt.randint(0, 9, shape), lt.bernoulli(x), lt.randperm(shape[0])]
    drawn += [lt.nn.functional.dropout(x, 0.3), lt.multinomial(x[0] + 0.1, 3), lt.normal(x, x + 1)]
    return [*drawn, x.uniform_(-1, 1), x.exponential_(), lt.distributions.Gamma(2.0, x).sample()]


def derivatives(lt: Any, chance: random.Random) -> list[Any]:
    """Derivatives of derivatives, forward and backward, and of many examples."""
    x, w = lt.linspace(-1, 1, chance.randint(2, 7)), chance.choice([0.5, 2.0, 3.0])

    def function(x: Any) -> Any:
        return ((x * w).sin() * x.exp()).sum() + x.prod()

    many, func = lt.stack([x, x * 2, x - 1]), lt.func
    found = [func.grad(function)(x), func.hessian(function)(x), func.jacrev(lambda x: x**3)(x)]
    found += [func.vmap(func.grad(function))(many), *func.jvp(function, (x,), (x.cos(),))]
    leaf = x.clone().requires_grad_()
    (first,) = lt.autograd.grad(function(leaf), leaf, create_graph=True)
    (second,) = lt.autograd.grad((first * first).sum(), leaf)
    return [*found, first, second]


def searches(lt: Any, chance: random.Random) -> list[Any]:
    """Loops that end by what they compute."""
    a = lt.rand(5, 5) + lt.eye(5) * 3
    v, count = lt.ones(5), 0
    while count < 40:
        new = a @ v
        new = new / new.norm()
        count += 1
        if float((new - v).abs().max()) < chance.choice([1e-3, 1e-2]):
            break
        v = new
    low, high = lt.tensor(0.0), lt.tensor(4.0)
    for _ in range(12):
        middle = (low + high) / 2
        if middle * middle > chance.choice([2, 3]):
            high = middle
        else:
            low = middle
    return [v, lt.tensor(count), low, high]


def integers(lt: Any, chance: random.Random) -> list[Any]:
    """Integers of all sizes, that wrap around."""
    kind = chance.choice([lt.int64, lt.int32, lt.int16, lt.int8, lt.uint8])
    x = (lt.arange(40) * 37 % 251).to(kind).reshape(5, 8)
    y = (x % 7 + 1).to(kind)
    found = [x + x, x * y, x // y, x % y, x - 100, -x, x.sum(0), x.prod(1), x.cumsum(0), x & y]
    found += [x | 5, x ^ y, ~x, x << 1, x >> 2, x.abs(), lt.gcd(x.long(), y.long()), x / y, x**2]
    return [*found, x.sort(1)[0], x.float().long(), (x > y).sum(), x.clamp(3, 90), x.flip(0)]


CELLS: tuple[Cell, ...] = (
    training, pictures, attention, recurrent, folds, orders, writes, statistics, halves, products,
    chances, derivatives, searches, integers,
)  # fmt: skip

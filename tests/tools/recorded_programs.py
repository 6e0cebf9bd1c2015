"""Thirty short programs, of many kinds, that look at a value in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lazyt
from lazyt import Tensor, nn
from lazyt.utils.checkpoint import checkpoint
from lazyt.utils.data import DataLoader, TensorDataset


class Doubled(lazyt.autograd.Function):
    """A function with a backward that its program wrote."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp() * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        found: Tensor = grads[0] * x.exp() * 2
        return found


def filled(module: nn.Module) -> nn.Module:
    """The module with weights that no generator drew."""
    with lazyt.no_grad():
        for number, p in enumerate(module.parameters()):
            values = np.sin(np.arange(p.numel(), dtype=np.float32) + number) / 3
            p.copy_(lazyt.from_numpy(values.reshape(tuple(p.shape))))
    return module


def trained(optimizer: str, **settings: Any) -> Callable[[], Any]:
    """Three steps of a small network."""

    def program() -> Any:
        model = filled(nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 2)))
        x = lazyt.from_numpy(np.linspace(-1, 2, 24, dtype=np.float32).reshape(4, 6))
        rule = getattr(lazyt.optim, optimizer)(model.parameters(), **settings)
        for _ in range(3):
            rule.zero_grad()
            loss = (model(x) - 1).square().mean()
            loss.backward()
            rule.step()
        return loss.item()

    return program


def in_place(a: Tensor) -> Any:
    """Writes of parts of a tensor."""
    x = a.clone()
    x[:, 2:5] *= 1.5
    x[1].add_(x[0].exp())
    x.clamp_(-1, 2)
    return x.sum(0).tolist()


def loop(a: Tensor) -> Any:
    """As many steps as values say."""
    x, steps = a[0].exp(), 0
    while float(x.max()) > 0.5:
        x = x * 0.6 + 0.01
        steps += 1
    return steps, x.tolist()


def batches(a: Tensor) -> Any:
    """Rows that a loader brings."""
    total = lazyt.zeros(10)
    for (rows,) in DataLoader(TensorDataset(a), batch_size=4):
        total = total + rows.sin().mean(0)
    return total.tolist()


def drawn(a: Tensor) -> Any:
    """Random numbers."""
    lazyt.manual_seed(3)
    return (nn.functional.dropout(a, 0.3) + lazyt.randn(6, 10)).square().mean().item()


def _plain(a: Tensor, labels: Tensor) -> dict[str, Callable[[], Any]]:
    g, one = nn.functional, lazyt.from_numpy(np.eye(6, dtype=np.float32))
    return {
        "map": lambda: (a.exp() * 2 - a.sin()).sum().item(),
        "product": lambda: ((a @ a.t()).tanh() @ a).tolist(),
        "softmax": lambda: a.softmax(1).log().mean(0).numpy(),
        "norm": lambda: g.layer_norm(a * 3, (10,)).square().sum(1).tolist(),
        "sort": lambda: (a.sin().sort(1)[0] * 1.5).cumsum(1).numpy(),
        "loss": lambda: float(g.cross_entropy(a * 2, labels)),
        "double": lambda: (a.double().cos() / 3).prod(1).tolist(),
        "solve": lambda: lazyt.linalg.solve((a @ a.t()) + 9 * one, a).abs().sum().item(),
    }


def programs() -> dict[str, Callable[[], Any]]:
    """The programs, by name."""
    # Inputs, as graphs of constants would be computed once for all runs of this process.
    a = lazyt.from_numpy(np.linspace(-2, 3, 60, dtype=np.float32).reshape(6, 10))
    labels = lazyt.from_numpy(np.arange(6))
    images = lazyt.from_numpy(np.cos(np.arange(2 * 3 * 64, dtype=np.float32)).reshape(2, 3, 8, 8))
    table = lazyt.from_numpy(np.sin(np.arange(40, dtype=np.float32)).reshape(10, 4))
    g, func = nn.functional, lazyt.func
    conv = filled(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()))
    lstm, attention = filled(nn.LSTM(10, 4)), filled(nn.MultiheadAttention(10, 2))
    weight = lazyt.from_numpy(np.linspace(0.1, 1, 10, dtype=np.float32))

    @lazyt.jit
    def captured(x: Tensor) -> Tensor:
        return (x.tanh() @ x.t()).softmax(1)

    def with_gradient(function: Callable[[Tensor], Tensor]) -> Any:
        leaf = a.detach().clone().requires_grad_()
        function(leaf).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.tolist()

    return {
        **_plain(a, labels),
        "sgd": trained("SGD", lr=0.1, momentum=0.9),
        "adam": trained("AdamW", lr=0.01),
        "rmsprop": trained("RMSprop", lr=0.01),
        "captured": lambda: captured(a.exp()).sum(0).tolist(),
        "network": lambda: conv(images).sin().sum(1).tolist(),
        "recurrent": lambda: lstm(a[:, None, :])[0].square().sum().item(),
        "attention": lambda: attention(a[:, None], a[:, None], a[:, None])[0].exp().mean().item(),
        "function": lambda: with_gradient(lambda x: Doubled.apply(x.sin()) * x),
        "checkpoint": lambda: with_gradient(
            lambda x: checkpoint(lambda y: (y * y.sigmoid()).tanh(), x, use_reentrant=False)
        ),
        "gradient": lambda: func.grad(lambda x: (x.sin() * x).sum())(a).mean().item(),
        "vmap": lambda: func.vmap(lambda row: (row * weight).exp().sum())(a).tolist(),
        "jacobian": lambda: func.jacrev(lambda x: (x * weight).tanh())(weight).tolist(),
        "scan": lambda: func.scan(lambda c, x: (c * 0.5 + x.cos(), c), weight, a)[0].tolist(),
        "in place": lambda: in_place(a),
        "loop": lambda: loop(a),
        "batches": lambda: batches(a),
        "drawn": lambda: drawn(a),
        "embedding": lambda: (g.embedding(labels, table) * 1.1).sum(1).tolist(),
        "scatter": lambda: table.exp().index_add(0, labels, table[:6].sin()).mean(1).tolist(),
        "spectrum": lambda: lazyt.fft.rfft(a.sin()).abs().sum(1).tolist(),
        "einsum": lambda: lazyt.einsum("ij,kj,j->ik", a, a.cos(), weight).max().item(),
        "half": lambda: (a.half().exp() / 3).float().log1p().sum(1).tolist(),
    }

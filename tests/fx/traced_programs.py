"""Programs that are traced under PyTorch and under lazyt, whose graphs print alike.

``python tests/fx/record_graphs.py`` of a Python that has PyTorch notes what they print there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Trace = Callable[[], Any]


class Pair(NamedTuple):
    """A named tuple among arguments."""

    first: Any
    second: Any


def checked(x: Any) -> Any:
    """Here pytest leaves assert as it is."""
    assert x.sum() > 0
    return x


def functions(torch: Any) -> dict[str, Callable[..., Any]]:
    """Functions by name."""
    functional = torch.nn.functional

    def operators(x: Any, y: Any) -> Any:
        a = x + y - 1 + (1 - x) * 2 / y // 2 % 3
        b = -(a**2) @ y.T
        return abs(b), ~(x > 0) & (y <= 1) | (x != y) ^ (y >= 2), x[0, :, None, ..., 1:3], 2**x

    def methods(x: Any) -> Any:
        y = x.view(x.size(0), -1).transpose(0, 1).contiguous()
        a, b = y.chunk(2, dim=1)
        return a.sum(dim=(0, 1), keepdim=True), b.max(dim=1).values, x.shape[0] + x.ndim, x.T

    def calls(x: Any, y: Any) -> Any:
        a = torch.cat([x, torch.zeros(2, dtype=torch.float32)], dim=0)
        b = torch.stack((x, y), 1) + torch.matmul(x, y) + torch.clamp(x, min=0.0)
        c = torch.where(x > 0, torch.sigmoid(y), torch.flatten(y, 1))
        return a, torch.max(b, dim=0), torch.arcsin(c), torch.full_like(x, float("inf"))

    def layers(x: Any, w: Any) -> Any:
        a = functional.relu(x, inplace=True) + functional.dropout(x, 0.5, False)
        a = functional.max_pool2d(a, 2) + functional.adaptive_avg_pool2d(a, 1)
        a = functional.batch_norm(a, None, None, training=True) + functional.pad(a, (1, 1))
        a = functional.layer_norm(a, (2,)) + functional.softmax(a, -1) + functional.elu(a)
        a = functional.interpolate(a, scale_factor=2) + functional.embedding(x, w)
        a = functional.log_softmax(a, dim=1) + functional.silu(a) + functional.hardtanh(a)
        return functional.cross_entropy(a, x) + functional.mse_loss(a, x), functional.normalize(a)

    programs = (operators, methods, calls, layers)
    for program in programs:
        program.__annotations__ = {}  # which are texts here, and would be printed
    return {program.__name__: program for program in programs}


def signatures(torch: Any) -> dict[str, Callable[..., Any]]:
    """Functions with arguments and results of all kinds, by name."""

    def containers(x: Any, y: Any) -> Any:
        return {"a": [x, (y, None)], "b": {"c": x + 1}, "d": (x,), "e": slice(x, 2)}

    def defaults(x: Any, y: float = 2.0, *, z: int = 3) -> Any:
        return x * y + z

    def stars(x: Any, *args: Any, **kwargs: Any) -> Any:
        return x + args[0] * kwargs["scale"]

    def constants(x: Any) -> Any:
        return x + torch.ones(2) + torch.tensor([1.0, 2.0]) + torch.ones(2)

    def tensors_first(x: Any, i: Any) -> Any:
        held = torch.ones(3)
        sums = held.add(x) + (held @ x) + held * x - (held - x) / (held**x)
        return sums, held == x, held > x, held.expand_as(x), held.index_select(0, i)

    def numbers(x: Any) -> Any:
        return math.sqrt(x) + math.floor(2.5), x.to(torch.float64), x.to("cpu")

    def names(max: Any, input: Any, lambda_: Any, torch: Any) -> Any:
        return max + input + lambda_ + torch

    def unused(x: Any, y: Any) -> Any:
        y + 1
        return x

    def unpacked(x: Any) -> Any:
        a, b = x
        (c, d), e = a, b
        return c + d + e

    def asserted(x: Any) -> Any:
        torch._assert(x.sum() > 0, "not above 0")
        return x

    programs = (
        containers, defaults, stars, constants, tensors_first, numbers, names, unused, unpacked,
        asserted,
    )  # fmt: skip
    for program in programs:
        program.__annotations__ = {}
    defaults.__annotations__ = {"x": torch.Tensor, "y": float}
    stars.__annotations__ = {"x": list[torch.Tensor]}
    unused.__annotations__ = {"x": int | None, "return": torch.Tensor}
    return {program.__name__: program for program in programs}


def modules(torch: Any) -> dict[str, Any]:
    """Modules by name."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.Identity()])
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.zeros(4))
            self.drop = nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            for norm in self.norms:
                y = norm(y)
            if self.training:
                y = self.drop(y)
            y = y.mean((2, 3)) * self.weight + self.shift
            return self.shift + y, y * self.weight

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(Block(), nn.Sequential(nn.ReLU()))
            self.head = nn.Linear(4, 2, bias=False)
            self.scale = 2.0

        def forward(self, x: Any, y: Any = None) -> Any:
            a, b = self.blocks[0](x)
            return self.head(self.blocks[1](a)) * self.scale, self.head(b)

    Block.forward.__annotations__ = Net.forward.__annotations__ = {}
    return {"block": Block(), "block_eval": Block().eval(), "net": Net()}


def specialized(torch: Any) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Functions with concrete arguments."""

    def branches(a: Any, b: Any, c: Any = None) -> Any:
        if b:
            a = a + 1
        return a if c is None else a * c

    def dictionary(x: Any) -> Any:
        total = 0
        for value in x.values():
            total = total + value
        return {"total": total}

    branches.__annotations__ = dictionary.__annotations__ = {}
    hidden = torch.fx.PH
    return {
        "branch": (branches, {"b": True}),
        "none": (branches, {"b": False, "c": None}),
        "tuple": (branches, (hidden, True, hidden)),
        "number": (branches, {"b": 1, "c": 3.0}),
        "dict": (dictionary, {"x": {"a": hidden, "b": hidden}}),
    }


def printed(torch: Any) -> dict[str, list[str]]:
    """What all of them print: their graphs and their code."""
    found = {}
    programs: dict[str, tuple[Any, Any]] = {
        **{name: (program, None) for name, program in functions(torch).items()},
        **{name: (program, None) for name, program in signatures(torch).items()},
        **{name: (program, None) for name, program in modules(torch).items()},
        **specialized(torch),
    }
    for name, (program, concrete) in programs.items():
        traced = torch.fx.symbolic_trace(program, concrete_args=concrete)
        traced.graph.lint()
        found[name] = [str(traced.graph), traced.code]
    return found

"""What programs for ``lazyt.jit`` hold: objects and structures of many kinds with tensors in them.

Each kind is made from a number, is read by an expression that gives a float32 vector of three, and
can be changed by statements, of which some may stand in a captured function, too.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import lazyt as lt
from lazyt import nn


def filled(value: float) -> Any:
    """A vector of this number."""
    return lt.full((3,), float(value))


@dataclass
class Batch:
    """Tensors with a setting."""

    x: Any
    scale: float = 2.0
    rest: Any = field(default_factory=list)

    def scaled(self) -> Any:
        """Their product."""
        return self.x * self.scale


@dataclass(frozen=True, slots=True)
class Frozen:
    """Without a dict, and not to be changed."""

    x: Any
    n: int = 3


class Plain:
    """An object of the user's."""

    factor = 2.0

    def __init__(self, x: Any, n: int = 2) -> None:
        self.x, self.n, self.seen = x, n, 0

    def scaled(self, t: Any) -> Any:
        """By all that it has."""
        return t * self.x * self.n * self.factor

    @property
    def double(self) -> Any:
        """Twice the tensor."""
        return self.x * 2


class Slots:
    """Without a dict, and without weak references."""

    __slots__ = ("n", "x")

    def __init__(self, x: Any, n: int = 2) -> None:
        self.x, self.n = x, n


class Output(OrderedDict[str, Any]):
    """A dict with attributes of the same names."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Registry(dict[str, Any]):
    """A dict with methods of its own."""

    def get(self, key: str) -> Any:  # type: ignore[override]
        """What there is, or zero."""
        return super().get(key) or 0.0


class Row(list[Any]):
    """A list with an attribute."""

    scale = 1.0


class Scale(nn.Module):
    """A layer with everything that layers have."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.w = nn.Parameter(filled(value))
        self.register_buffer("b", filled(value + 1))
        self.n = 2.0

    def forward(self, x: Any) -> Any:
        """Scaled in training, shifted else."""
        return x * self.w * self.n if self.training else x * self.w + self.b


Point = namedtuple("Point", "x y")


class Pair(Point):
    """With a method."""

    def total(self) -> Any:
        """Of both."""
        return self.x + self.y


def closure(value: float) -> Callable[[Any], Any]:
    """A function that knows a tensor."""
    w = filled(value)
    return lambda t: t * w


def default(value: float) -> Callable[..., Any]:
    """A function that knows a tensor by a default."""
    known = filled(value)
    return lambda t, w=known: t + w


def counting(value: float) -> Callable[[Any], Any]:
    """A function that changes a variable of its closure."""
    total = filled(value)

    def add(t: Any) -> Any:
        nonlocal total
        total = total + t
        return total

    return add


def row(value: float) -> Row:
    """A list with a scale of its own."""
    made = Row([filled(value)])
    made.scale = 1.5
    return made


def hooked(value: float) -> Any:
    """A leaf whose gradient is scaled by a hook."""
    x = filled(1).requires_grad_()
    x.register_hook(lambda grad: grad * value)
    return x


def marked(value: float) -> Any:
    """A tensor with attributes."""
    x = filled(1)
    x.n, x.of = value, Plain(filled(value))
    return x


def nested(value: float) -> Any:
    """Structures in each other."""
    return {"a": [Batch(filled(value), 1.5, (Frozen(filled(value)), Plain(filled(value))))]}


def layered(value: float) -> nn.Module:
    """Layers in each other, one of them twice."""
    inner = Scale(value)
    return nn.Sequential(inner, nn.ReLU(), inner)


def words(value: float) -> Any:
    """The bits of whole numbers as floats."""
    return lt.full((3,), int(value), dtype=lt.int32).view(lt.float32)


class Kind(NamedTuple):
    """How a kind is made, read and changed.

    Attributes:
        make: from a number.
        read: expressions of what is in ``{h}``.
        change: statements, with ``{v}`` for a number, that programs run between calls.
        inside: statements that functions run.
    """

    make: str
    read: tuple[str, ...]
    change: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()


_X = ("{h}.x = K.filled({v})", "{h}.x.fill_({v})", "{h}.x.add_({v})", "{h}.x = {h}.x[:]")
_IN = ("{h}.x.add_(1)", "{h}.x = {h}.x + 1", "{h}.n += 1", "{h}.extra = {h}.x * 2")
_ITEM = ("{h}['a'] = K.filled({v})", "{h}['a'].fill_({v})", "{h}['c'] = {v}",
         "{h}['a'] = {h}.pop('a')", "{h}.pop('c', None)")  # fmt: skip
_ITEM_IN = ("{h}['a'].add_(1)", "{h}['a'] = {h}['a'] + 1", "{h}['n'] = 1")

KINDS: dict[str, Kind] = {
    "tensor": Kind("K.filled({v})", ("{h}", "{h}.flip(0)"), ("{h}.fill_({v})",), ("{h}.add_(1)",)),
    "leaf": Kind("K.filled({v}).requires_grad_()", ("{h}.detach() * 2", "{h} * 1"),
                 ("{h}.data.fill_({v})", "{h}.grad = K.filled({v})"), ("{h}.data.add_(1)",)),
    "part": Kind("K.filled({v}).repeat(3)[3:6]", ("{h}",), ("{h}.fill_({v})",), ("{h}.add_(1)",)),
    "turned": Kind("K.filled({v}).flip(0).expand(2, 3)", ("{h}[1]", "{h}.sum(0)")),
    "words": Kind("K.words({v})", ("{h}.view(torch.int32).float()", "{h}.abs() * 0 + 1"),
                  ("{h}.view(torch.int32).fill_({v})",)),
    "bytes": Kind("K.words({v}).view(torch.uint8)", ("{h}.view(torch.int32) * 1.0",
                  "{h}[:3] * 2.0")),
    "marked": Kind("K.marked({v})", ("{h} * {h}.n", "{h} * {h}.of.x"),
                   ("{h}.n = {v}", "{h}.of.x = K.filled({v})", "{h}.of.x.fill_({v})")),
    "hooked": Kind("K.hooked({v})", ("torch.autograd.grad(({h} * 2).sum(), {h})[0]",),
                   ("{h}.register_hook(lambda grad: grad + {v})",)),
    "plain": Kind("K.Plain(K.filled({v}))", ("{h}.x * {h}.n", "{h}.scaled(K.ones)", "{h}.double"),
                  (*_X, "{h}.n = {v}", "{h}.factor = {v}", "K.Plain.factor = {v}"), _IN),
    "slots": Kind("K.Slots(K.filled({v}))", ("{h}.x * {h}.n",), (*_X, "{h}.n = {v}"), _IN[:2]),
    "batch": Kind("K.Batch(K.filled({v}))", ("{h}.scaled()", "{h}.x + {h}.scale"),
                  (*_X, "{h}.scale = {v}", "{h}.rest = [{v}]"), _IN[:2]),
    "frozen": Kind("K.Frozen(K.filled({v}))", ("{h}.x * {h}.n",), _X[1:3], _IN[:1]),
    "dict": Kind("dict(a=K.filled({v}), n={v})", ("{h}['a'] * {h}['n']", "{h}['a'] + len({h})"),
                 (*_ITEM, "{h}['n'] = {v}"), _ITEM_IN),
    "ordered": Kind("K.OrderedDict(a=K.filled({v}), b=K.filled(1))",
                    ("torch.stack(list({h}.values())[:2])[0]", "{h}['a'] - {h}['b']"),
                    (*_ITEM, "{h}.move_to_end('a')"), _ITEM_IN[:2]),
    "output": Kind("K.Output(a=K.filled({v}))", ("{h}['a'] * {h}.a",), _ITEM[:2], _ITEM_IN[:1]),
    "default": Kind("K.defaultdict(lambda: 2.0, a=K.filled({v}))", ("{h}['a'] * {h}['c']",),
                    _ITEM[:3], _ITEM_IN[:1]),
    "registry": Kind("K.Registry(a=K.filled({v}))", ("{h}['a'] + {h}.get('b')",),
                     ("{h}['b'] = {v}", *_ITEM[:2]), _ITEM_IN[:2]),
    "point": Kind("K.Point(K.filled({v}), {v})", ("{h}.x * {h}.y",),
                  ("{h}.x.fill_({v})",), _IN[:1]),
    "pair": Kind("K.Pair(K.filled({v}), K.filled(1))", ("{h}.total()",), ("{h}.x.fill_({v})",)),
    "best": Kind("K.filled({v}).reshape(1, 3).max(0)", ("{h}.values + {h}.indices",),
                 ("{h}.values.fill_({v})",)),
    "list": Kind("[K.filled({v}), {v}]", ("{h}[0] * {h}[1]", "{h}[0] + len({h})"),
                 ("{h}[0] = K.filled({v})", "{h}[1] = {v}", "{h}.append({v})", "{h}[0].fill_({v})"),
                 ("{h}[0].add_(1)", "{h}[0] = {h}[0] + 1", "{h}.append(1)")),
    "row": Kind("K.row({v})", ("{h}[0] * {h}.scale",), ("{h}[0] = K.filled({v})",
                "{h}.scale = {v}")),
    "deque": Kind("K.deque([K.filled({v}), K.filled(1)], 2)", ("{h}[0] - {h}[1]",),
                  ("{h}.append(K.filled({v}))", "{h}.rotate()"), ("{h}[0].add_(1)",)),
    "nested": Kind("K.nested({v})", ("{h}['a'][0].rest[0].x * {h}['a'][0].rest[1].n",
                                     "{h}['a'][0].scaled()"),
                   ("{h}['a'][0].x = K.filled({v})", "{h}['a'][0].rest[1].n = {v}",
                    "{h}['a'].append({v})"), ("{h}['a'][0].x.add_(1)",)),
    "set": Kind("{{{v}, 2}}", ("K.ones * (3 if 4 in {h} else 5)",),
                ("{h}.add({v})", "{h}.discard({v})", "{h}.symmetric_difference_update({{{v}}})")),
    "space": Kind("K.types.SimpleNamespace(x=K.filled({v}), n={v})", ("{h}.x * {h}.n",),
                  (*_X, "{h}.n = {v}"), _IN[:2]),
    "proxy": Kind("K.types.MappingProxyType(dict(a=K.filled({v})))", ("{h}['a'] * 2",),
                  ("{h}['a'].fill_({v})",)),
    "closure": Kind("K.closure({v})", ("{h}(K.ones)",),
                    ("{h}.__closure__[0].cell_contents = K.filled({v})",)),
    "lambda": Kind("lambda t: t * {v}", ("{h}(K.ones)",)),
    "known": Kind("K.default({v})", ("{h}(K.ones)",), ("{h}.__defaults__ = (K.filled({v}),)",)),
    "counting": Kind("K.counting({v})", ("{h}(K.ones)",)),
    "partial": Kind("K.functools.partial(torch.mul, K.filled({v}))", ("{h}(K.ones)",)),
    "method": Kind("K.Plain(K.filled({v})).scaled", ("{h}(K.ones)",),
                   ("{h}.__self__.x = K.filled({v})", "{h}.__self__.n = {v}")),
    "module": Kind("K.Scale({v})", ("{h}(K.ones).detach()", "{h}.w.detach() + {h}.b"),
                   ("{h}.w.data.fill_({v})", "{h}.w = K.nn.Parameter(K.filled({v}))",
                    "{h}.b.fill_({v})", "{h}.b = K.filled({v})", "{h}.n = {v}", "{h}.eval()",
                    "{h}.train()", "{h}.register_forward_hook(lambda m, i, o: o + {v})",
                    "{h}.w.requires_grad_(False)",
                    "{h}.load_state_dict(K.Scale({v}).state_dict())"),
                   ("{h}.b.add_(1)", "{h}.b = {h}.b + 1", "{h}.n += 1")),
    "layers": Kind("K.layered({v})", ("{h}(K.ones).detach()",),
                   ("{h}[0].w.data.fill_({v})", "{h}[0] = K.Scale({v})", "{h}.eval()",
                    "{h}.append(K.nn.ReLU())")),
    "forward": Kind("K.Scale({v}).forward", ("{h}(K.ones).detach()",),
                    ("{h}.__self__.w.data.fill_({v})",)),
    "number": Kind("{v}", ("K.ones * {h}", "K.ones * (2 if {h} > 3 else {h})")),
    "fraction": Kind("{v} / 4", ("K.ones * {h}", "K.ones + {h}")),
    "text": Kind("'mul' if {v} > 3 else 'add'", ("getattr(K.ones, {h})(2)",)),
    "array": Kind("K.np.full(3, {v}, 'float32')", ("torch.tensor({h}) * 2",
                  "K.ones * float({h}[0])"),
                  ("{h}[:] = {v}",)),
    "shared": Kind("torch.from_numpy(K.np.full(3, {v}, 'float32'))", ("{h} * 2",),
                   ("{h}.numpy()[:] = {v}", "{h}.fill_({v})")),
}  # fmt: skip

ones = lt.ones(3).realize()
EXPORTS = (functools, types, deque, defaultdict, np)

"""What programs do with ``torch.library``, as lines of text: lazyt's are compared with PyTorch's.

``python tests/kernels/library_program.py`` writes PyTorch's, where that is installed.
"""

# ruff: noqa: UP006, UP007, UP045, B023 - programs write annotations so, and loops call at once
from __future__ import annotations

import contextlib
import io
import re
import typing
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_suffix(".txt")


class _Log:
    """Lines, one for each thing that is tried."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.lines: list[str] = []

    def show(self, label: str, function: Callable[[], Any]) -> None:
        """What a function gives, or the beginning of its error."""
        try:
            found = self._text(function())
        except (RuntimeError, ValueError, AttributeError, TypeError) as error:
            text = str(error).split("\n")[0].replace("lazyt.", "torch.")
            text = re.sub(r"\(with implementation .*?\): ", "", text)
            found = f"!! {text[:60]}"
        self.lines.append(f"{label}: {found}")

    def _text(self, value: Any) -> str:
        if isinstance(value, self.torch.Tensor):
            kind = str(value.dtype).rpartition(".")[2]
            return f"{value.tolist()} {kind} {value.requires_grad}"
        if isinstance(value, (list, tuple)):
            return f"{type(value).__name__} of " + "; ".join(map(self._text, value))
        if callable(value) and not isinstance(value, type):
            return "a function"
        return str(value)


def _schemas(torch: Any, log: _Log) -> None:
    tensor: Any = torch.Tensor
    infer = torch.library.infer_schema
    many, some = typing.Sequence[tensor], typing.Optional[tensor]

    def function(given: dict[str, Any], **defaults: Any) -> Callable[..., Any]:
        names = [name for name in given if name != "return"]
        listed = ", ".join(
            f"{name}=defaults[{name!r}]" if name in defaults else name for name in names
        )
        made = eval(f"lambda {listed}: None", {"defaults": defaults})
        made.__annotations__ = given
        return typing.cast("Callable[..., Any]", made)

    for label, given, defaults in (
        ("plain", {"x": tensor, "y": float, "n": int, "return": tensor}, {"n": 3}),
        ("words", {"x": tensor, "w": str, "b": bool, "return": tensor}, {"w": "a", "b": True}),
        ("several", {"xs": many, "z": some, "return": typing.Tuple[tensor, tensor]}, {"z": None}),
        ("list", {"x": tensor, "return": typing.List[tensor]}, {}),
        ("nothing", {"x": tensor, "return": None}, {}),
        ("numbers", {"x": tensor, "s": typing.Union[int, float, bool], "return": int}, {"s": 1.5}),
        ("sizes", {"x": tensor, "s": typing.List[int], "return": tensor}, {}),
        ("dtype", {"x": tensor, "d": torch.dtype, "return": tensor}, {"d": torch.float32}),
        ("optional", {"x": tensor, "n": typing.Optional[int], "return": bool}, {"n": None}),
        ("small", {"x": tensor, "e": float, "return": tensor}, {"e": 1e-5}),
        ("no return", {"x": tensor}, {}),
        ("dict", {"x": dict, "return": tensor}, {}),
        ("bad return", {"x": tensor, "return": dict}, {}),
        ("bad default", {"x": tensor, "s": typing.List[int], "return": tensor}, {"s": (1, 2)}),
    ):
        log.show(f"schema {label}", lambda: infer(function(given, **defaults), mutates_args=()))
    two = function({"x": tensor, "ys": many, "z": some, "q": float, "return": None})
    for written in ((), {"x"}, {"x", "ys", "z"}, "unknown", {"q"}, {"nope"}):
        log.show(
            f"schema writes {''.join(sorted(written))}", lambda: infer(two, mutates_args=written)
        )
    log.show("schema name", lambda: infer(two, mutates_args=(), op_name="two"))


def _operators(torch: Any, log: _Log) -> None:
    show, custom_op = log.show, torch.library.custom_op

    def scale(x, k=2.0):  # type: ignore[no-untyped-def]
        return x * x * k

    scale.__annotations__ = {"x": torch.Tensor, "k": float, "return": torch.Tensor}
    op = custom_op("mine::scale", mutates_args=())(scale)
    x = torch.tensor([0.5, 3.0], requires_grad=True)
    name = torch.ops.mine
    show("call", lambda: op(x))
    show("call by name", lambda: name.scale(x, 3))
    show("call overload", lambda: name.scale.default(x, k=4.0))
    show("call keyword", lambda: name.scale(x=x))
    show("without arguments", lambda: name.scale())
    show("no tensor", lambda: name.scale(1))
    show("too many", lambda: name.scale(x, 1.0, 2.0))
    show("no number", lambda: name.scale(x, "a"))
    show("unknown name", lambda: name.scale(x, z=1))
    show("repr", lambda: [repr(op), repr(name.scale), repr(name.scale.default)])
    show("schema", lambda: [str(name.scale.default._schema), name.scale.overloads()])
    show("absent", lambda: name.absent)
    show("no gradient", lambda: op(x).sum().backward())

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        value, ctx.k = inputs
        ctx.save_for_backward(value)

    def backward(ctx: Any, cotangent: Any) -> Any:
        (value,) = ctx.saved_tensors
        return cotangent * 2 * value * ctx.k, None

    op.register_autograd(backward, setup_context=setup)
    show("gradient", lambda: torch.autograd.grad(op(x).sum(), x)[0])
    show("grad_fn", lambda: type(op(x).grad_fn).__name__)

    def second() -> Any:
        (slope,) = torch.autograd.grad(op(x).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0]

    show("second order", second)
    with torch.no_grad():
        show("under no_grad", lambda: op(x))
    show("fake", lambda: op.register_fake(lambda x, k=2.0: torch.empty_like(x)))
    op.register_vmap(lambda info, in_dims, x, k=2.0: (op(x, k), in_dims[0]))
    show("vmap", lambda: torch.vmap(op)(torch.ones(3, 2)))
    show("no name", lambda: torch.library.define("scale", "(Tensor x) -> Tensor"))
    show("absent fake", lambda: torch.library.register_fake("absent::x", lambda: 0))
    show("absent gradient", lambda: torch.library.register_autograd("mine::x", lambda: 0))


def _results(torch: Any, log: _Log) -> None:
    show: Any = log.show
    tensor: Any = torch.Tensor
    x = torch.tensor([0.5, 3.0], requires_grad=True)

    def define(name: str, function: Any, result: Any, written: Any = (), **given: Any) -> Any:
        function.__annotations__ = {**(given or {"x": tensor}), "return": result}
        return torch.library.custom_op(f"mine::{name}", mutates_args=written)(function)

    def add(x, y):  # type: ignore[no-untyped-def]
        y.add_(x)

    written = define("add", add, None, {"y"}, x=tensor, y=tensor)

    def write() -> Any:
        target = torch.zeros(2)
        version = target._version
        result = written(torch.ones(2), target)
        return [target, result, target._version > version]

    show("written", write)
    show("written gradient", lambda: written.register_autograd(lambda ctx, g: g))
    same = define("same", lambda x: x, tensor)
    show("an argument comes back", lambda: same(torch.ones(2)))
    part = define("part", lambda x: x[0], tensor)
    show("a view comes back", lambda: part(torch.ones(2)))
    two = define("two", lambda x: (x * 2, x * 3), typing.Tuple[tensor, tensor])
    show("two results", lambda: two(torch.ones(2)))
    two.register_autograd(lambda ctx, a, b: a * 2 + b * 3)
    show("gradient of one", lambda: torch.autograd.grad(two(x)[0].sum(), x)[0])
    show("gradient of both", lambda: torch.autograd.grad(sum(t.sum() for t in two(x)), x)[0])
    show("vmap of two", lambda: torch.vmap(two)(torch.ones(3, 2)))
    listed = define(
        "listed", lambda xs, n: [t * n for t in xs], typing.List[tensor],
        xs=typing.List[tensor], n=int,
    )  # fmt: skip
    show("lists", lambda: listed([torch.ones(1), torch.zeros(1)], 2))
    listed.register_autograd(lambda ctx, gs: ([g * 2 for g in gs], None))
    show("gradient of lists", lambda: torch.autograd.grad(listed([x, x], 2)[1].sum(), x)[0])
    extra = define("extra", lambda x, k: x * k, tensor, x=tensor, k=float)
    extra.register_autograd(lambda ctx, g: (g, g))
    show("gradient of a number", lambda: extra(x, 2.0).sum().backward())
    there = define("there", lambda x: x * 2, tensor)
    there.register_kernel("cpu")(lambda x: x * 5)
    show("kernel of the CPU", lambda: there(torch.ones(2)))


def _libraries(torch: Any, log: _Log) -> None:
    show, library, x = log.show, torch.library, torch.tensor([1.0, 2.0], requires_grad=True)
    lib = library.Library("shelf", "DEF")
    name = torch.ops.shelf
    show("define", lambda: lib.define("mul(Tensor x, int n=3) -> Tensor"))
    show("impl", lambda: lib.impl("mul", lambda x, n=3: x * n, "CPU"))
    show("defined", lambda: [name.mul(torch.ones(2)), name.mul(torch.ones(2), n=4)])
    show("gradient through", lambda: torch.autograd.grad(name.mul(x).sum(), x)[0])
    show("defined twice", lambda: lib.define("mul(Tensor x) -> Tensor"))
    show("no schema", lambda: lib.define("garbage"))
    show("second DEF", lambda: library.Library("shelf", "DEF"))
    show("wrong kind", lambda: library.Library("shelf", "WRONG"))
    text = "all(Tensor(a!) x, Tensor? y=None, int[] z=[], int[2] w=1, *, ScalarType? d=None, "
    text += "Scalar s=2, str m='x', float f=0.5, bool b=True) -> (Tensor(a!), Tensor[] out)"
    show("long schema", lambda: [lib.define(text), str(name.all.default._schema)])
    lib.define("pick.Scalar(Tensor x, float y) -> Tensor")
    lib.define("pick.Tensor(Tensor x, Tensor y) -> Tensor")
    lib.impl("pick.Scalar", lambda x, y: x + y, "CPU")
    lib.impl("pick.Tensor", lambda x, y: x - y, "CPU")
    ones = torch.ones(2)
    show("overloads", lambda: [name.pick(ones, 2.0), name.pick(ones, ones), name.pick.overloads()])
    show("one overload", lambda: name.pick.Scalar(ones, 5.0))
    library.define("shelf::four", "(Tensor x) -> Tensor")
    library.impl("shelf::four", "cpu")(lambda x: x * 4)
    library.register_autograd("shelf::four", lambda ctx, g: g * 40)
    show("four", lambda: [name.four(ones), torch.autograd.grad(name.four(x).sum(), x)[0]])
    library.define("shelf::five", "(Tensor x) -> Tensor")
    library.impl("shelf::five", "default", lambda x: x * 5)
    show("five", lambda: name.five(ones))


def lines(torch: Any) -> list[str]:
    """What a program gets with lazyt, or PyTorch."""
    log = _Log(torch)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        for part in (_schemas, _operators, _results, _libraries):
            part(torch, log)
    return log.lines


if __name__ == "__main__":
    import torch

    RECORDED.write_text("\n".join(lines(torch)) + "\n", encoding="utf-8")

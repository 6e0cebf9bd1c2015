"""What the programs in ``cases`` are written with: inputs, variants, and values as plain data.

A value becomes JSON: numbers, texts, None and truth values as they are, and lists that begin with a
letter for all else: ``["f", text]`` a float, ``["a", dtype, shape, kind, base64]`` a tensor,
``["e", classes, message]`` an exception, ``["l", values]`` a list, ``["d", pairs]`` a dict.
"""

from __future__ import annotations

import base64
import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

#: label, value, relative and absolute tolerance (None for those of the dtype)
Item = tuple[str, Any, float | None, float | None]


def is_lazyt(torch: Any) -> bool:
    """Whether a module with PyTorch's API is lazyt."""
    return bool(torch.__name__.startswith("lazyt"))


def rnd(
    seed: int,
    *shape: int,
    dtype: str = "float32",
    low: int | None = None,
    high: int | None = None,
) -> Any:
    """A NumPy array of normal numbers, of truth values, or of integers from the whole range."""
    generator = np.random.default_rng(seed)
    if dtype.startswith("float"):
        return generator.standard_normal(shape).astype(dtype)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    first = info.min if low is None else low
    last = info.max if high is None else high
    return generator.integers(first, last, shape, endpoint=True).astype(dtype)


def T(torch: Any, array: Any, dtype: str | None = None, grad: bool = False) -> Any:
    """A tensor of an array's values, converted to the dtype of that name."""
    tensor = torch.tensor(np.asarray(array))
    if dtype is not None:
        tensor = tensor.to(getattr(torch, dtype))
    return tensor.requires_grad_(True) if grad else tensor


def jit(torch: Any, function: Any, **options: Any) -> Any:
    """A function compiled by lazyt; with PyTorch the function itself, which is the reference."""
    return torch.compile(function, **options) if is_lazyt(torch) else function


def encode(value: Any) -> Any:
    """A value of either library as JSON. Looks at tensors, and raises what looking raises."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value.replace("lazyt.", "torch.")
    if isinstance(value, float):
        return ["f", repr(value)]
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value), str(value.dtype))
    if isinstance(value, BaseException):
        return ["e", [c.__name__ for c in type(value).__mro__ if c is not object], str(value)]
    if isinstance(value, dict):
        return ["d", [[str(key), encode(item)] for key, item in value.items()]]
    if hasattr(value, "detach") and hasattr(value, "stride"):
        dtype = str(value.dtype).split(".")[-1]
        tensor = value.detach()
        if dtype in ("bfloat16", "float16"):
            tensor = tensor.float()
        return _array(np.array(tensor.cpu().numpy(), copy=True), dtype)
    if isinstance(value, list | tuple):
        return ["l", [encode(item) for item in value]]
    return str(value).replace("lazyt.", "torch.")


def _array(array: Any, dtype: str) -> list[Any]:
    text = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return ["a", dtype, list(array.shape), str(array.dtype), text]


def decode_array(value: Sequence[Any]) -> Any:
    """The NumPy array of an encoded tensor; 16-bit floats come as float32."""
    _, _, shape, kind, text = value
    return np.frombuffer(base64.b64decode(text), dtype=kind).reshape(shape)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings: programs of a case do many things that either library warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Log:
    """The values that the programs of a case showed, each under a label of its own."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.items: list[Item] = []

    def add(
        self, label: str, value: Any, rtol: float | None = None, atol: float | None = None
    ) -> None:
        """Writes down a value, or what looking at it raises."""
        self.run(label, lambda: value, rtol, atol)

    def run(
        self,
        label: str,
        function: Callable[[], Any],
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        """Writes down what a function returns or raises."""
        with quiet():
            try:
                value = encode(function())
            except Exception as error:
                value = encode(error)
        self.items.append((label, value, rtol, atol))

    def jit(
        self,
        label: str,
        function: Callable[..., Any],
        make: Callable[[int], list[Any]],
        calls: int = 5,
        rtol: float | None = None,
        atol: float | None = None,
        state: bool = True,
    ) -> None:
        """``function(*make(i))`` plainly, without gradients, and compiled, several calls each.

        With ``state`` the arguments are looked at afterwards too.
        """

        def one(called: Callable[..., Any], number: int) -> Any:
            arguments = make(number)
            out = called(*arguments)
            return [out, [a for a in arguments if hasattr(a, "stride")] if state else None]

        def without_gradients() -> Any:
            with self.torch.no_grad():
                return one(function, 0)

        self.run(label + "/plain", lambda: one(function, 0), rtol, atol)
        self.run(label + "/no_grad", without_gradients, rtol, atol)
        compiled = jit(self.torch, function)
        for number in range(calls):
            self.run(f"{label}/jit{number}", partial(one, compiled, number), rtol, atol)

    def grads(
        self,
        label: str,
        function: Callable[..., Any],
        make: Callable[[int], list[Any]],
        calls: int = 3,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        """Results and gradients, plainly and compiled; the gradients compiled as well."""
        torch = self.torch

        def one(called: Callable[..., Any], number: int) -> Any:
            arguments = make(number)
            outs = _differentiable(called(*arguments))
            leaves = _leaves(arguments)
            return [outs, list(torch.autograd.grad(_loss(torch, outs), leaves, allow_unused=True))]

        def whole(*arguments: Any) -> Any:
            loss = _loss(torch, _differentiable(function(*arguments)))
            return torch.autograd.grad(loss, _leaves(arguments), allow_unused=True)

        self.run(label + "/eager", lambda: one(function, 0), rtol, atol)
        compiled = jit(torch, function)
        for number in range(calls):
            self.run(f"{label}/gjit{number}", partial(one, compiled, number), rtol, atol)
        compiled_whole = jit(torch, whole)

        def gradients(number: int) -> Any:
            return list(compiled_whole(*make(number)))

        for number in range(calls + 1):
            self.run(f"{label}/whole{number}", partial(gradients, number), rtol, atol)


def _leaves(arguments: Sequence[Any]) -> list[Any]:
    return [a for a in arguments if hasattr(a, "stride") and a.requires_grad]


def _differentiable(outs: Any) -> list[Any]:
    listed = outs if isinstance(outs, tuple | list) else [outs]
    return [o for o in listed if o.dtype.is_floating_point and o.requires_grad]


def _loss(torch: Any, outs: list[Any]) -> Any:
    """The results, weighted, as one number."""
    loss: Any = 0
    for out in outs:
        count = max(out.numel(), 1)
        weights = torch.arange(count, dtype=out.dtype).reshape(out.shape) / count + 0.5
        loss = loss + (out * weights).sum()
    return loss

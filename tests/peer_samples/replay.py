"""Calls lazyt as a recorded sample says, and compares what it gives with what PyTorch gave."""

from __future__ import annotations

import json
import lzma
import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lazyt
from lazyt.nn import functional as _loaded  # noqa: F401
from tests.peer_samples.text import NAMED, TENSOR, TUPLE, decoded, dense

Row = dict[str, Any]

_TOLERANCES = {
    "float64": (1e-7, 1e-9), "float32": (2e-4, 2e-5), "float16": (2e-2, 2e-2),
    "bfloat16": (1e-1, 1e-1),
}  # fmt: skip

#: Operators that the database calls otherwise than their name says.
_FORMS: dict[str, Callable[..., Any]] = {
    "nn.functional.embedding": lambda w, i, **k: lazyt.nn.functional.embedding(i, w, **k),
    "nn.functional.embedding_bag": lambda w, i, **k: lazyt.nn.functional.embedding_bag(i, w, **k),
    "where": lambda x, c, y: lazyt.where(c, x, y),
    "einsum": lambda x, equation: lazyt.einsum(equation, *x),
    "zero_": lambda x: x.clone().zero_(),
    "resize_": lambda x, shape: x.clone().resize_(shape),
    "resize_as_": lambda x, other: lazyt.resize_as_(x.clone(), other),
    "linalg.pinv:singular": lambda a, b: lazyt.linalg.pinv(a @ b.mT),
    "linalg.lstsq:grad_oriented": lambda a, b, driver: lazyt.linalg.lstsq(a, b, driver=driver)[:2],
    "normal:in_place": lambda x, *a: x.normal_(*a),
    "svd_lowrank": lambda a, b, **k: lazyt.svd_lowrank(a @ b.mT, **k),
    "pca_lowrank": lambda a, b, **k: lazyt.pca_lowrank(a @ b.mT, **k),
    "__rdiv__": lambda a, b: b / a,
}


def load() -> dict[str, list[Row]]:
    """Rows by operator."""
    packed = Path(__file__).with_name("samples.json.xz").read_bytes()
    found: dict[str, list[Row]] = json.loads(lzma.decompress(packed))
    return found


def function_of(label: str) -> Callable[..., Any] | None:
    """lazyt's function for an operator, None where there is none."""
    name = label.partition(":")[0]
    if label in _FORMS or name in _FORMS:
        return _FORMS[label if label in _FORMS else name]
    if name in ("T", "H", "mT", "mH"):
        return operator.attrgetter(name)
    if name.endswith("polygamma"):
        return lambda x, n, **k: lazyt.polygamma(n, x, **k)
    try:
        found = operator.attrgetter(name)(lazyt)
    except AttributeError:
        found = None
    if found is None or isinstance(found, lazyt.dtype):
        for method in (name, f"{name}_"):
            if hasattr(lazyt.Tensor, method):
                return _caller(method)
        return None
    function: Callable[..., Any] = found
    return function


def _caller(method: str) -> Callable[..., Any]:
    return lambda x, *args, **named: getattr(x, method)(*args, **named)


def tensors_in(value: Any) -> Iterator[lazyt.Tensor]:
    """All tensors in a nested value."""
    if isinstance(value, lazyt.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def perform(function: Callable[..., Any], row: Row) -> tuple[Any, list[Any] | None]:
    """The result of a row, and the gradients that were recorded of it; nothing is computed yet."""
    lazyt.manual_seed(0)
    call = [decoded(part, lazyt) for part in row["call"]]
    result = function(call[0], *call[1], **call[2])
    if "gradients" not in row:
        return result, None
    roots = [t for t in tensors_in(result) if t.requires_grad]
    leaves = [t for t in tensors_in(call) if t.requires_grad]
    seeds = [lazyt.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in roots]
    slopes = lazyt.autograd.grad(roots, leaves, seeds, allow_unused=True, retain_graph=True)
    return result, list(slopes)


def difference(result: Any, slopes: list[Any] | None, row: Row) -> str:
    """What is not as it was recorded, or nothing."""
    found = differing(result, row["result"], "random" in row)
    if found or slopes is None:
        return found
    for number, (slope, wanted) in enumerate(zip(slopes, row["gradients"], strict=True)):
        if slope is None or wanted is None:
            known = wanted if slope is None else {TENSOR: [0, 0, 0, 0, slope.tolist()]}
            if known is not None and any(map(float, _flat(known[TENSOR][4]))):
                return f"gradient {number}: {slope}, not {wanted}"
        else:
            text = _numbers(slope, wanted[TENSOR])
            if text:
                return f"gradient {number}: {text}"
    return ""


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def differing(got: Any, wanted: Any, random: bool) -> str:
    """How a nested result differs; of random ones only kinds and sizes are compared."""
    if isinstance(wanted, dict) and (TUPLE in wanted or NAMED in wanted):
        wanted = wanted.get(TUPLE, wanted.get(NAMED))
    if isinstance(wanted, (list, dict)) and not (isinstance(wanted, dict) and TENSOR in wanted):
        if isinstance(wanted, dict):
            plain = decoded(wanted, lazyt)
            return "" if got == plain or (got != got and plain != plain) else f"{got}, not {plain}"
        if not isinstance(got, (tuple, list)) or len(got) != len(wanted):
            return f"{type(got).__name__}, not {len(wanted)} results"
        return next(filter(None, (differing(g, w, random) for g, w in zip(got, wanted))), "")
    if not isinstance(wanted, dict):
        same = type(got) is type(wanted) and (got == wanted or math.isclose(got, wanted))
        return "" if same else f"{got!r}, not {wanted!r}"
    if not isinstance(got, lazyt.Tensor):
        return f"{type(got).__name__}, not a tensor"
    dtype, shape, strides, wished, _ = wanted[TENSOR]
    facts = (str(got.dtype).rpartition(".")[2], [*got.shape], int(got.requires_grad))
    if facts != (dtype, shape, wished):
        return f"{facts}, not {(dtype, shape, wished)}"
    steps = strides or [*dense(tuple(shape))]
    if got.numel() > 1 and [*got.stride()] != steps:
        return f"strides {got.stride()}, not {steps}"
    return "" if random else _numbers(got, wanted[TENSOR])


def _numbers(got: lazyt.Tensor, part: list[Any]) -> str:
    if [*got.shape] != part[1]:
        return f"shape {got.shape}, not {part[1]}"
    mine = [float(v) for v in got.detach().flatten().tolist()]
    theirs = [float(v) for v in part[4]]
    relative, absolute = _TOLERANCES.get(part[0], (0.0, 0.0))
    absolute *= max([1.0, *(abs(v) for v in theirs if math.isfinite(v))])
    for a, b in zip(mine, theirs):
        if not (a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=relative,
                                                              abs_tol=absolute)):  # fmt: skip
            return f"{a}, not {b} in {mine[:6]}, not {theirs[:6]}"
    return ""

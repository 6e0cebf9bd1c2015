"""Derivatives of PyTorch's operator samples: as PyTorch gave them, and ``vmap`` as a loop.

First and second order backwards, forward mode, and every operator over two examples at once.
"""

from __future__ import annotations

import json
import lzma
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lazyt
from lazyt.autograd import forward_ad
from lazyt.errors import LazytError
from tests.peer_samples.exceptions import EXCEPTIONS
from tests.peer_samples.replay import Row, function_of, tensors_in
from tests.peer_samples.text import TENSOR, decoded

#: Where ``vmap`` refuses: the number or shape of results depends on the values of an example.
VALUES = (
    "__getitem__", "as_strided:partial_views", "linalg.lstsq", "linalg.lstsq:grad_oriented",
    "masked_select", "narrow", "tensor_split",
)  # fmt: skip
_CLOSE = (1e-6, 1e-8)


def load() -> dict[str, Row]:
    """A row by operator."""
    packed = Path(__file__).with_name("derivatives.json.xz").read_bytes()
    found: dict[str, Row] = json.loads(lzma.decompress(packed))
    return {label: row for label, row in found.items() if function_of(label) is not None}


def ramp(tensor: lazyt.Tensor, first: float, last: float) -> lazyt.Tensor:
    """Evenly spaced numbers of a tensor's shape and dtype."""
    count = tensor.numel()
    return lazyt.linspace(first, last, count, dtype=tensor.dtype).reshape(tensor.shape)


def changed(value: Any, change: Callable[[lazyt.Tensor], Any]) -> Any:
    """A nested value with all tensors changed."""
    if isinstance(value, lazyt.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(changed(item, change) for item in value)
    if isinstance(value, dict):
        return {key: changed(item, change) for key, item in value.items()}
    return value


def called(label: str, row: Row) -> tuple[Any, list[Any]]:
    """A row's function and its call."""
    lazyt.manual_seed(0)
    call = [decoded(part, lazyt) for part in row["call"]]
    return function_of(label), changed(call, _own)


def _own(tensor: lazyt.Tensor) -> lazyt.Tensor:
    """A tensor that is no part of another."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def derivatives(label: str, row: Row) -> Iterator[tuple[str, Sequence[Any]]]:
    """What was recorded, as lazyt has it."""
    function, call = called(label, row)
    result = function(call[0], *call[1], **call[2])
    roots = [t for t in tensors_in(result) if t.requires_grad]
    leaves = [t for t in tensors_in(call) if t.requires_grad]
    weights = [ramp(t, 0.5, 1.5).requires_grad_() for t in roots]
    first = lazyt.autograd.grad(roots, leaves, weights, create_graph=True, allow_unused=True)
    yield "first", first
    if "second" in row:
        pairs = zip(first, row["first"])
        again = [g for g, w in pairs if g is not None and w is not None and g.requires_grad]
        both = [*leaves, *weights]
        if again:
            total = lazyt.stack([(g * ramp(g, 0.7, 1.1)).sum().double() for g in again]).sum()
            yield "second", lazyt.autograd.grad(total, both, allow_unused=True)
        else:
            yield "second", [None for _ in both]
    if "moved" in row:
        with forward_ad.dual_level():
            input, args, named = changed(call, _dual)
            result = function(input, *args, **named)
            yield "moved", [forward_ad.unpack_dual(t).tangent for t in tensors_in(result)]


def _dual(tensor: lazyt.Tensor) -> lazyt.Tensor:
    if not tensor.requires_grad:
        return tensor
    return forward_ad.make_dual(tensor.detach(), ramp(tensor, -0.5, 0.9))


def flat(values: Any) -> list[float]:
    """The numbers of a tensor, or of a recorded one."""
    if isinstance(values, lazyt.Tensor):
        return [float(v) for v in values.detach().reshape(-1).tolist()]
    return [] if values is None else [float(v) for v in values[TENSOR][4]]


def close(got: list[float], wanted: list[float]) -> bool:
    """Whether numbers agree, with no number standing for zeros; NaN is NaN."""
    if not got or not wanted:
        return not any(got) and not any(wanted)
    largest = max([1.0, *(abs(v) for v in wanted if math.isfinite(v))])
    relative, absolute = _CLOSE[0], _CLOSE[1] * largest
    return len(got) == len(wanted) and all(
        a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
        for a, b in zip(got, wanted)
    )


def differences(label: str, row: Row) -> dict[str, str]:
    """Which derivatives are not as they were recorded."""
    wrong: dict[str, str] = {}
    try:
        for kind, found in derivatives(label, row):
            for place, (got, wanted) in enumerate(zip(found, row[kind], strict=True)):
                if not close(flat(got), flat(wanted)):
                    text = f"{place}: {flat(got)[:6]}, not {flat(wanted)[:6]}"
                    wrong.setdefault(kind, text)
    except Exception as error:
        wrong["error"] = f"{type(error).__name__}: {error}"
    return wrong


def test_derivatives_are_pytorchs() -> None:
    wrong: dict[str, dict[str, str]] = {}
    rows = load()
    assert len(rows) > 450
    assert sum("second" in row for row in rows.values()) > 330
    assert sum("moved" in row for row in rows.values()) > 400
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        for label, row in rows.items():
            found = differences(label, row)
            if found:
                wrong[label] = found
    texts = []
    used = set()
    for label, found in wrong.items():
        for number, (pattern, kinds, _) in enumerate(EXCEPTIONS):
            if re.fullmatch(pattern, label):
                used |= {number} if found.keys() & set(kinds.split()) else set()
                found = {k: v for k, v in found.items() if k not in kinds.split()}
        texts += [f"{label}, {kind}: {text}" for kind, text in found.items()]
    assert not texts, "\n".join(texts)
    unused = [pattern for n, (pattern, *_) in enumerate(EXCEPTIONS) if n not in used]
    assert not unused, f"exceptions that are none: {unused}"


def looped(label: str, row: Row) -> str:
    """How ``vmap`` over two examples differs from a loop, or nothing."""
    function, call = called(label, row)
    tensors = [t.detach() for t in tensors_in(call)]
    if not tensors:
        return ""
    pairs = [lazyt.stack([t, t * 0.9 if t.is_floating_point() else t]) for t in tensors]

    def one(*examples: lazyt.Tensor) -> tuple[lazyt.Tensor, ...]:
        given = iter(examples)
        input, args, named = changed(call, lambda _: next(given))
        return tuple(tensors_in(function(input, *args, **named)))

    rows = [one(*(pair[number].clone() for pair in pairs)) for number in (0, 1)]
    found = lazyt.vmap(one, randomness="same")(*pairs)
    for got, *wanted in zip(found, *rows, strict=True):
        together = lazyt.stack(list(wanted))
        if got.shape != together.shape or got.dtype is not together.dtype:
            return f"{got.dtype}{list(got.shape)}, not {together.dtype}{list(together.shape)}"
        if not close(flat(got), flat(together)):
            return f"{flat(got)[:6]}, not {flat(together)[:6]}"
    return ""


def test_vmap_is_a_loop() -> None:
    wrong, refused = {}, set()
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        for label, row in load().items():
            try:
                text = looped(label, row)
            except (LazytError, RuntimeError) as error:
                refused.add(label)
                text = "" if label in VALUES else f"{type(error).__name__}: {error}"
            if text:
                wrong[label] = text
    assert not wrong, "\n".join(f"{label}: {text}" for label, text in wrong.items())
    assert refused == set(VALUES), sorted(refused ^ set(VALUES))

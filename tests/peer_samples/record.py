"""Records what PyTorch's own operator samples give, in samples.json.xz beside this file.

Run it from the project's root with a Python that has PyTorch:
``PYTHONPATH=. python tests/peer_samples/record.py``. Tests read only what it wrote.

Every operator of PyTorch's test database gives a few of its small samples: as they are with
gradients, with all tensors in another order of memory, and in another type than floating point.
"""

from __future__ import annotations

import importlib
import json
import lzma
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.peer_samples.text import encoded

TARGET = Path(__file__).with_name("samples.json.xz")
#: Elements of all tensors of a sample; and of operators that have no such samples.
_LARGEST, _LARGER = 130, 500
#: How many samples an operator gives of which type, and whether in another order of memory.
_PLAN = (("float64", 3, False), ("float32", 2, True), ("", 1, False))
_OTHERS = ("int64", "bool", "float16", "bfloat16", "uint8", "float32")
#: Which of equal elements is chosen is not promised, so samples of these are real numbers only.
_CHOOSING = ("sort", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian", "msort", "max",
             "min", "argmax", "argmin", "aminmax", "cummax", "cummin", "histc")  # fmt: skip


def tensors_in(value: Any, torch: Any) -> Iterator[Any]:
    """All tensors in a nested value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, torch)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, torch)


def changed(value: Any, change: Callable[[Any], Any], torch: Any) -> Any:
    """A nested value with all tensors changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(changed(v, change, torch) for v in value)
    if isinstance(value, dict):
        return {k: changed(v, change, torch) for k, v in value.items()}
    return value


def turned(tensor: Any, torch: Any) -> Any:
    """The same values in another order of memory: channels last, or the last two axes swapped."""
    if tensor.ndim < 2 or tensor.layout is not torch.strided:
        return tensor
    if tensor.ndim == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    if tensor.ndim == 5:
        return tensor.contiguous(memory_format=torch.channels_last_3d)
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def small_samples(op: Any, dtype: Any, grad: bool, torch: Any) -> list[tuple[Any, ...]]:
    """Input, arguments and keywords of all samples that are small."""
    try:
        found = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
    except Exception:
        return []  # a few of the database's functions do not make samples for every type
    parts = [(s.input, tuple(s.args), dict(s.kwargs)) for s in found]
    kept: list[tuple[Any, ...]] = []
    for limit in (_LARGEST, _LARGER):
        for part in parts:
            sizes = [t.numel() for t in tensors_in(part, torch)]
            if sum(sizes) <= limit and (not sizes or any(sizes)):
                kept.append(part)
        if kept:
            break
    return kept


def spread(items: list[Any], count: int) -> list[Any]:
    """So many of the items, from all over the list."""
    return items[:: max(1, len(items) // count)][:count] if items else []


def outcome(op: Any, sample: tuple[Any, ...], torch: Any) -> dict[str, Any] | None:
    """What a sample gives, or None where that is an error or too much to keep."""
    input, args, named = sample
    row: dict[str, Any] = {"call": [encoded(v, torch) for v in sample]}
    if named.get("sparse"):  # lazyt has no sparse gradients
        return None
    results = []
    for seed in (1, 0):
        torch.manual_seed(seed)
        result = op.op(input, *args, **named)
        results.append(encoded(result, torch))
    if sum(t.numel() for t in tensors_in(result, torch)) > _LARGER:
        return None
    row["result"] = results[0]
    if json.dumps(results[0]) != json.dumps(results[1]) or "empty" in op.name:
        row["random"] = 1
        return row
    roots = [t for t in tensors_in(result, torch) if t.requires_grad]
    leaves = [t for t in tensors_in(sample, torch) if t.requires_grad]
    if roots and leaves:
        seeds = [torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in roots]
        slopes = torch.autograd.grad(roots, leaves, seeds, allow_unused=True)
        row["gradients"] = [None if s is None else encoded(s.clone(), torch) for s in slopes]
    return row


def rows_of(op: Any, torch: Any) -> Iterator[dict[str, Any]]:
    """The rows of one operator."""
    for name, count, turn in _PLAN:
        grad = name == "float64" and op.supports_autograd
        kinds = (name,) if name else _OTHERS
        if not name and op.name in _CHOOSING:
            kinds = ("float32",)
        for kind in random.Random(op.name).sample(kinds, len(kinds)):
            dtype = getattr(torch, kind)
            if not op.supports_dtype(dtype, "cpu"):
                continue
            samples = small_samples(op, dtype, grad, torch)
            if turn:
                samples = [changed(s, lambda t: turned(t, torch), torch) for s in samples]
            for sample in spread(samples, count):
                try:
                    row = outcome(op, sample, torch)
                except (RuntimeError, ValueError, TypeError, IndexError, AssertionError):
                    continue  # samples of errors, and results that there is no form for
                if row is not None:
                    yield row
            if samples:
                break


def main() -> None:
    """Writes a line per operator."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    database: Any = importlib.import_module("torch.testing._internal.common_methods_invocations")
    # It sets a seed before functions that draw; only two seeds show which ones do.
    database.wrapper_set_seed = lambda function, *args, **named: function(*args, **named)
    lines = []
    for op in database.op_db:
        torch.manual_seed(0)
        random.seed(0)
        rows = list(rows_of(op, torch))
        if rows:
            label = f"{op.name}:{op.variant_test_name}" if op.variant_test_name else op.name
            lines.append(f"{json.dumps(label)}: {json.dumps(rows, separators=(',', ':'))}")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    TARGET.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    main()

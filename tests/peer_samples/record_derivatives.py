"""Records derivatives of PyTorch's own operator samples, in derivatives.json.xz beside this file.

Run it from the project's root with a Python that has PyTorch:
``PYTHONPATH=. python tests/peer_samples/record_derivatives.py``. Tests read only what it wrote.

One small sample of every operator that has gradients gives: the gradients for fixed weights, the
gradients of these in turn, and how the results move along fixed directions (forward mode).
"""

from __future__ import annotations

import importlib
import json
import lzma
import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.peer_samples.record import changed, small_samples, tensors_in
from tests.peer_samples.text import encoded

TARGET = Path(__file__).with_name("derivatives.json.xz")
#: Elements of all tensors of a sample, where there is one so small, and characters of its row.
_LARGEST, _LONGEST = 24, 9000


def ramp(tensor: Any, first: float, last: float, torch: Any) -> Any:
    """Evenly spaced numbers of a tensor's shape and dtype."""
    count = tensor.numel()
    return torch.linspace(first, last, count, dtype=tensor.dtype).reshape(tensor.shape)


def kept(values: Sequence[Any], torch: Any) -> list[Any]:
    """Derivatives as plain data, None where there are none."""
    return [
        None if v is None else encoded(v.detach().clone() if v.numel() else v.detach(), torch)
        for v in values
    ]


def backwards(result: Any, sample: Any, torch: Any) -> dict[str, Any]:
    """Gradients of first and second order."""
    roots = [t for t in tensors_in(result, torch) if t.requires_grad]
    leaves = [t for t in tensors_in(sample, torch) if t.requires_grad]
    weights = [ramp(t, 0.5, 1.5, torch).requires_grad_() for t in roots]
    first = torch.autograd.grad(roots, leaves, weights, create_graph=True, allow_unused=True)
    found: dict[str, Any] = {"first": kept(first, torch)}
    again = [g for g in first if g is not None and g.requires_grad]
    if not again:
        return found
    total = sum((g * ramp(g, 0.7, 1.1, torch)).sum() for g in again)
    try:
        second = torch.autograd.grad(total, [*leaves, *weights], allow_unused=True)
        found["second"] = kept(second, torch)
    except (RuntimeError, NotImplementedError) as error:
        found["no second"] = str(error).splitlines()[0]
    return found


def forwards(op: Any, sample: Any, torch: Any) -> list[Any] | None:
    """How the results move; None where PyTorch does not know."""
    forward = importlib.import_module("torch.autograd.forward_ad")

    def dual(tensor: Any) -> Any:
        if not tensor.requires_grad:
            return tensor
        return forward.make_dual(tensor.detach(), ramp(tensor, -0.5, 0.9, torch))

    with forward.dual_level():
        try:
            input, args, named = changed(list(sample), dual, torch)
            result = op.op(input, *args, **named)
            moved = [forward.unpack_dual(t).tangent for t in tensors_in(result, torch)]
            return kept([None if m is None else m + 0 for m in moved], torch)
        except (RuntimeError, NotImplementedError):
            return None


def row_of(op: Any, sample: Any, torch: Any) -> dict[str, Any] | None:
    """One sample's derivatives; None for results that are random, or have none."""
    input, args, named = sample
    if named.get("sparse") or named.get("sparse_grad"):
        return None
    texts = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        result = op.op(input, *args, **named)
        texts.append(json.dumps(encoded(result, torch)))
    roots = [t for t in tensors_in(result, torch) if t.requires_grad]
    if texts[0] != texts[1] or not roots:
        return None
    row: dict[str, Any] = {"call": [encoded(v, torch) for v in sample]}
    row |= backwards(result, sample, torch)
    moved = forwards(op, sample, torch) if op.supports_forward_ad else None
    return row if moved is None else {**row, "moved": moved}


def short_row(op: Any, sample: Any, torch: Any, cut: bool = False) -> str:
    """``row_of`` as text, of the tensors' corners if so; nothing for errors and long rows."""
    try:
        row = row_of(op, changed(list(sample), corner, torch) if cut else sample, torch)
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError):
        return ""
    text = "" if row is None else json.dumps(row, separators=(",", ":"))
    return text if len(text) <= _LONGEST else ""


def corner(tensor: Any) -> Any:
    """The first few elements of every axis."""
    part = tensor.detach()[tuple(slice(0, 4) for _ in range(tensor.ndim))]
    return part.clone().requires_grad_(tensor.requires_grad)


def main() -> None:
    """Writes a line per operator."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    database: Any = importlib.import_module("torch.testing._internal.common_methods_invocations")
    database.wrapper_set_seed = lambda function, *args, **named: function(*args, **named)
    lines = []
    for op in database.op_db:
        torch.manual_seed(0)
        random.seed(0)
        if not (op.supports_autograd and op.supports_dtype(torch.float64, "cpu")):
            continue
        samples = small_samples(op, torch.float64, True, torch)
        small = [s for s in samples if sum(t.numel() for t in tensors_in(s, torch)) <= _LARGEST]
        chosen = sorted(
            small or samples, key=lambda s: sum(t.numel() for t in tensors_in(s, torch))
        )
        whole = (*reversed(chosen[-6:]), *chosen[:3])
        row = next(filter(None, (short_row(op, s, torch) for s in whole)), None)
        if row is None:
            row = next(filter(None, (short_row(op, s, torch, True) for s in whole)), None)
        if row is not None:
            label = f"{op.name}:{op.variant_test_name}" if op.variant_test_name else op.name
            lines.append(f"{json.dumps(label)}: {row}")
    TARGET.write_bytes(lzma.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), preset=9))


if __name__ == "__main__":
    main()

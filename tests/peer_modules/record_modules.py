"""Records what PyTorch's own module samples give, in samples.json.xz beside this file.

Run it from the project's root with a Python that has PyTorch:
``PYTHONPATH=. python tests/peer_modules/record_modules.py``. Tests read only what it wrote.

Every module of PyTorch's test database gives a few of its small samples, in training and in
evaluation mode: its text and state, and results, first and second gradients, and what its own
samples of mistakes raise.
"""

from __future__ import annotations

import importlib
import json
import lzma
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.peer_samples.record import spread, tensors_in
from tests.peer_samples.text import encoded

TARGET = Path(__file__).with_name("samples.json.xz")
#: Characters of a row at most, and rows of a module, of a mode and type, at most.
_LARGEST, _MOST = 9000, 2
#: Samples that are tried, of which the small ones are kept.
_TRIED = 8
#: Values of parameters, so that zeros do not hide anything.
_LOWEST, _SPAN = -0.4, 1.0


def filled(module: Any, torch: Any) -> None:
    """Give all parameters values between -0.4 and 0.6 that anybody can compute."""
    start = 0
    for parameter in module.parameters():
        places = torch.arange(start, start + parameter.numel(), dtype=torch.float64)
        values = (places * 0.618).frac() * _SPAN + _LOWEST
        parameter.data.copy_(values.reshape(parameter.shape))
        start += parameter.numel()


def seeds(roots: list[Any], torch: Any) -> list[Any]:
    """What gradients start from."""
    return [torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).reshape(t.shape) for t in roots]


def slopes(roots: list[Any], leaves: list[Any], torch: Any, **how: Any) -> list[Any]:
    """Gradients of the roots that have any."""
    found = torch.autograd.grad(roots, leaves, seeds(roots, torch), allow_unused=True, **how)
    return list(found)


def state_of(module: Any, torch: Any) -> dict[str, Any]:
    """The state as plain data."""
    return {name: encoded(value.detach(), torch) for name, value in module.state_dict().items()}


def parts_of(sample: Any, torch: Any) -> list[Any]:
    """Arguments of the constructor and of forward as plain data."""
    made, given = sample.constructor_input, sample.forward_input
    parts: list[Any] = [made.args, made.kwargs]
    parts += [given.args, given.kwargs] if given else [(), {}]
    return [encoded(part, torch) for part in parts]


def outcome(entry: Any, sample: Any, training: bool, dtype: Any, torch: Any) -> Any:
    """What a sample gives, or None where that is random."""
    args, named = sample.forward_input.args, sample.forward_input.kwargs
    row: dict[str, Any] = {"call": parts_of(sample, torch), "training": training}
    row["dtype"] = str(dtype).rpartition(".")[2]
    made = sample.constructor_input
    module = entry.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
    row["before"] = repr(module)
    module(*args, **named)
    filled(module, torch)
    kept = {name: value.clone() for name, value in module.state_dict().items()}
    row["state"], row["text"] = state_of(module, torch), repr(module)
    texts = []
    for seed in (1, 0):
        torch.manual_seed(seed)
        module.load_state_dict(kept)
        result = module(*args, **named)
        texts.append(json.dumps(encoded(result, torch)))
    if texts[0] != texts[1]:
        return None
    row["result"], row["after"] = encoded(result, torch), state_of(module, torch)
    leaves = [t for t in tensors_in((args, named), torch) if t.requires_grad]
    leaves += list(module.parameters())
    roots = [t for t in tensors_in(result, torch) if t.requires_grad]
    if roots and leaves and dtype == torch.float64:
        found = slopes(roots, leaves, torch, create_graph=True)
        row["gradients"] = [None if s is None else encoded(s, torch) for s in found]
        again = [s for s in found if s is not None and s.requires_grad]
        if again and entry.supports_gradgrad:
            found = slopes(again, leaves, torch)
            row["second"] = [None if s is None else encoded(s.clone(), torch) for s in found]
    return row


def rows_of(entry: Any, torch: Any) -> Iterator[Any]:
    """The rows of one module."""
    for dtype in (torch.float64, torch.float32):
        for training in (True, False):
            torch.manual_seed(0)
            wished = dtype == torch.float64
            how = {"device": "cpu", "dtype": dtype, "requires_grad": wished, "training": training}
            found = []
            for sample in spread(list(entry.module_inputs_func(entry, **how)), _TRIED):
                try:
                    row = outcome(entry, sample, training, dtype, torch)
                except (RuntimeError, ValueError, TypeError, AttributeError):
                    continue  # samples that there is no form for
                if row is not None and len(json.dumps(row)) <= _LARGEST:
                    found.append(row)
            yield from spread(found, _MOST if wished else 1)


def mistakes_of(entry: Any, torch: Any) -> Iterator[Any]:
    """The mistakes of one module, and what they raise."""
    if entry.module_error_inputs_func is None:
        return
    how = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": True}
    for mistake in entry.module_error_inputs_func(entry, **how):
        sample = mistake.module_error_input
        made, given = sample.constructor_input, sample.forward_input
        try:
            row = {"call": parts_of(sample, torch)}
        except ValueError:
            continue  # arguments that there is no form for
        try:
            entry.module_cls(*made.args, **made.kwargs)(*given.args, **given.kwargs)
        except Exception as error:
            yield {**row, "error": [type(error).__name__, str(error)]}


def main() -> None:
    """Writes a line per module."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    database: Any = importlib.import_module("torch.testing._internal.common_modules")
    lines = []
    for entry in database.module_db:
        rows, wrong = list(rows_of(entry, torch)), list(mistakes_of(entry, torch))
        if rows or wrong:
            text = json.dumps({"rows": rows, "mistakes": wrong}, separators=(",", ":"))
            lines.append(f"{json.dumps(entry.name)}: {text}")
    TARGET.write_bytes(lzma.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), preset=9))


if __name__ == "__main__":
    main()

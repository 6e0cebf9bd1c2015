"""Programs of operators and their gradients give what they gave on PyTorch.

They are the calls of PyTorch's functions that tinygrad's tests of operators make, see
``record_operator_programs.py``. All run in the interpreter.
"""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.config import config
from tests.operator_programs.record_operator_programs import FILE, sample

PROGRAMS: dict[str, list[Any]] = defaultdict(list)
for _name, *_program in json.loads(lzma.decompress(FILE.read_bytes())):
    PROGRAMS[_name].append(_program)


def function(name: str) -> Any:
    """What PyTorch's name for a function names here."""
    path = name.replace("torch._C._nn.", "torch.nn.functional.").replace("torch._C.", "torch.")
    path = path.removeprefix("torch.")
    if path.endswith(".__get__"):
        attribute = path.split(".")[-2]
        return lambda tensor: getattr(tensor, attribute)
    found: Any = lazyt
    for part in path.split("."):
        found = getattr(found, part)
    return found


def decode(value: Any, values: list[Any]) -> Any:
    """An argument."""
    if isinstance(value, list):
        return [decode(v, values) for v in value]
    if not isinstance(value, dict):
        return value
    kind, held = next(iter(value.items()))
    if kind == "at":
        return values[held]
    if kind == "tensor":
        return lazyt.tensor(held, dtype=decode({"named": value["dtype"]}, values))
    if kind == "float":
        return float(held)
    if kind == "slice":
        return slice(*decode(held, values))
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind](decode(held, values))
    assert kind == "named"
    if held == "...":
        return ...
    return getattr(lazyt, held.removeprefix("torch.")) if "torch." in held else lazyt.device(held)


def inputs(made: dict[str, Any], grads: bool) -> list[Any]:
    """The tensors that a program begins with."""
    if "values" in made:
        types = [getattr(lazyt, name.removeprefix("torch.")) for name in made["dtypes"]]
        return [
            lazyt.tensor(v, dtype=t, requires_grad=grads and t.kind == "f")
            for v, t in zip(made["values"], types, strict=True)
        ]
    low, high, sizes = made["seeded"]
    np.random.seed(0)
    arrays = [np.random.uniform(low, high, size).astype(np.float32) for size in sizes]
    return [lazyt.tensor(array, requires_grad=grads) for array in arrays]


def compare(found: Any, wanted: Any) -> None:
    """Raises AssertionError for another type, shape or values."""
    dtype, shape, values = sample(found)
    assert [dtype, shape] == wanted[:2]
    if found.dtype.kind == "f":
        got, want = ([float(v) for v in part] for part in (values, wanted[2]))
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * max([1, *map(abs, want)]))
    else:
        assert values == wanted[2]


def run(program: Any) -> None:
    """Runs a program and compares what it gives."""
    made, grads, calls, at, wanted = program
    given = inputs(made, grads)
    values = list(given)
    for name, args, kwargs, parts in calls:
        found = function(name)(
            *(decode(v, values) for v in args), **{k: decode(v, values) for k, v in kwargs.items()}
        )
        values += [found] if parts is None else list(found)
    out = values[at]
    compare(out.detach().numpy(), wanted[0])
    if len(wanted) > 1:
        for grad, want in zip(lazyt.autograd.grad(out.sum(), given), wanted[1:], strict=True):
            assert grad is not None
            compare(grad.numpy(), want)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_give_what_they_gave_on_pytorch(name: str) -> None:
    with config.override(interpret=True), np.errstate(all="ignore"):
        for program in PROGRAMS[name]:
            run(program)

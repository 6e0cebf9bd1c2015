"""PyTorch's own module samples give here what they gave there: text, state, values, gradients."""

from __future__ import annotations

import json
import lzma
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, nn
from tests.peer_modules.record_modules import filled, slopes
from tests.peer_samples.replay import differing, tensors_in
from tests.peer_samples.text import TENSOR, decoded

#: Mistakes that raise something else, or nothing, on purpose: the beginning of PyTorch's words.
OTHERWISE = (
    "expected scalar type Float but found Half",  # of a weight that is empty
    "Trying to create tensor with negative dimension -1",
)
#: Samples whose two operands are one tensor, which plain data does not say.
_SHARED = ("nn.KLDivLoss",)
_EVERY = 8  # of the modules every so many is compiled

PACKED = Path(__file__).with_name("samples.json.xz").read_bytes()
RECORDED: dict[str, Any] = json.loads(lzma.decompress(PACKED))


def built(name: str, call: list[Any]) -> nn.Module:
    """The module of a sample."""
    args, named = (decoded(part, lazyt) for part in call[:2])
    module: nn.Module = getattr(nn, name.removeprefix("nn."))(*args, **named)
    return module


def state_differs(module: nn.Module, wanted: dict[str, Any]) -> str:
    """How a state differs from a recorded one."""
    state = module.state_dict()
    if list(state) != list(wanted):
        return f"state {list(state)}, not {list(wanted)}"
    texts = (differing(state[name].detach(), part, False) for name, part in wanted.items())
    return next((f"{name}: {text}" for name, text in zip(wanted, texts) if text), "")


def slopes_differ(found: list[Tensor | None], wanted: list[Any]) -> str:
    """How gradients differ; none and zeros are the same."""
    for number, (slope, part) in enumerate(zip(found, wanted, strict=True)):
        if slope is None or part is None:
            values = part[TENSOR][4] if slope is None and part else []
            if slope is not None:
                values = slope.flatten().tolist()
            if any(float(value) for value in values):
                return f"gradient {number}: {slope}, not {part}"
        elif text := differing(slope.detach().contiguous(), _plain(part), False):
            return f"gradient {number}: {text}"
    return ""


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """The form of a gradient, whose strides and history are its maker's own."""
    dtype, shape, _, _, values = part[TENSOR]
    return {TENSOR: [dtype, shape, None, 0, values]}


def differences(name: str, row: dict[str, Any]) -> Iterator[str]:
    """All in which a sample differs."""
    module = built(name, row["call"]).to(getattr(lazyt, row["dtype"])).train(row["training"])
    args, named = (decoded(part, lazyt) for part in row["call"][2:])
    if repr(module) != row["before"]:
        yield f"{module!r}, not {row['before']}"
    module(*args, **named)
    filled(module, lazyt)
    module.load_state_dict({key: decoded(part, lazyt) for key, part in row["state"].items()})
    if repr(module) != row["text"]:
        yield f"{module!r}, not {row['text']}"
    yield state_differs(module, row["state"])
    result = module(*args, **named)
    yield differing(result, row["result"], False)
    yield state_differs(module, row["after"])
    if "gradients" not in row or name in _SHARED:
        return
    leaves = [t for t in tensors_in((args, named)) if t.requires_grad] + [*module.parameters()]
    roots = [t for t in tensors_in(result) if t.requires_grad]
    found = slopes(roots, leaves, lazyt, create_graph=True)
    yield slopes_differ(found, row["gradients"])
    if "second" in row:
        # Where a gradient does not depend on the leaves, PyTorch may still say that it has history.
        pairs = zip(found, row["gradients"], strict=True)
        again = [s for s, w in pairs if s is not None and w[TENSOR][3] and s.requires_grad]
        nothing: list[Tensor | None] = [None] * len(leaves)
        yield slopes_differ(slopes(again, leaves, lazyt) if again else nothing, row["second"])


def first_difference(name: str, row: dict[str, Any]) -> str:
    """The first, or nothing."""
    try:
        return next(filter(None, differences(name, row)), "")
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_samples_give_what_pytorch_gave() -> None:
    assert len(RECORDED) > 100 and sum(len(entry["rows"]) for entry in RECORDED.values()) > 500
    wrong = []
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        for name, entry in RECORDED.items():
            texts = [first_difference(name, row) for row in entry["rows"]]
            wrong += [f"{name}: {text}" for text in texts[:1] if text]
    assert not wrong, "\n".join(wrong)


@pytest.mark.fused_values
def test_kernels_give_it_too() -> None:
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, entry in list(RECORDED.items())[::_EVERY]:
            for row in entry["rows"][:1]:
                if text := first_difference(name, row):
                    wrong.append(f"{name}: {text}")
    assert not wrong, "\n".join(wrong)


def raised(name: str, row: dict[str, Any]) -> str:
    """How what a mistake raises differs from PyTorch's."""
    kind, words = row["error"]
    try:
        args, named = (decoded(part, lazyt) for part in row["call"][2:])
        built(name, row["call"])(*args, **named)
    except Exception as error:
        said = str(error).replace("lazyt", "torch")
        known = {base.__name__ for base in type(error).__mro__}
        return "" if kind in known and said == words else f"{error!r}, not {row['error']}"
    return f"nothing, not {row['error']}"


def test_mistakes_raise_what_pytorch_raises() -> None:
    wrong = []
    with lazyt.config.override(interpret=True):
        for name, entry in RECORDED.items():
            for row in entry["mistakes"]:
                text = raised(name, row)
                if text and not row["error"][1].startswith(OTHERWISE):
                    wrong.append(f"{name}: {text}")
    assert not wrong, "\n".join(wrong)

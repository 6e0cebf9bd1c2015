"""State dicts that PyTorch wrote, and what its modules gave with them.

Run with an interpreter that has PyTorch to write ``recorded/states.pt`` and ``states.json`` anew.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recorded"

#: A module, and the sizes of what it is called with.
MODULES: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "linear": ("nn.Linear(3, 4)", [(2, 3)]),
    "bilinear": ("nn.Bilinear(3, 2, 4)", [(2, 3), (2, 2)]),
    "convolution": ("nn.Conv2d(2, 4, 3, padding=1, groups=2)", [(1, 2, 4, 4)]),
    "transposed": ("nn.ConvTranspose1d(2, 3, 3, stride=2)", [(1, 2, 5)]),
    "norms": (
        "nn.Sequential(nn.BatchNorm1d(4), nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.PReLU(4))",
        [(3, 4)],
    ),
    "instance": ("nn.InstanceNorm1d(3, affine=True, track_running_stats=True)", [(2, 3, 5)]),
    "recurrent": ("nn.RNN(3, 4, 2, bidirectional=True)", [(3, 2, 3)]),
    "lstm": ("nn.LSTM(3, 4, 2, batch_first=True, proj_size=2)", [(2, 3, 3)]),
    "gru": ("nn.GRU(3, 4, bias=False)", [(3, 2, 3)]),
    "cells": ("nn.ModuleList([nn.LSTMCell(3, 4), nn.GRUCell(3, 4), nn.RNNCell(3, 4)])", [(2, 3)]),
    "attention": ("nn.MultiheadAttention(4, 2, add_bias_kv=True)", [(3, 2, 4)] * 3),
    "transformer": ("nn.Transformer(4, 2, 1, 1, 6, dropout=0.0)", [(3, 2, 4), (2, 2, 4)]),
    "spectral": ("nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))", [(2, 3)]),
    "length": ("nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))", [(2, 3)]),
}


def flat(value: Any) -> list[Any]:
    """Nested lists and tuples as one list."""
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [value]


def run(library: Any, module: Any, sizes: list[tuple[int, ...]]) -> dict[str, list[Any]]:
    """What a module gives for fixed inputs in evaluation, and the gradients in training mode."""
    inputs = []
    for size in sizes:
        count = library.tensor(size).prod().item()
        values = (library.arange(count, dtype=library.float32) * 7 % 11 / 11 - 0.4).reshape(size)
        inputs.append(values.requires_grad_(True))
    parts = list(module) if type(module).__name__ == "ModuleList" else [module]
    found = []
    for mode in (False, True):
        module.train(mode)
        found = flat([part(*inputs) for part in parts])
        if not mode:
            outputs = [out.detach().reshape(-1).tolist() for out in found]
    sum((out * out).sum() for out in found).backward()
    tensors = [*inputs, *module.parameters()]
    grads = [None if t.grad is None else t.grad.reshape(-1).tolist() for t in tensors]
    return {"outputs": rounded(outputs), "gradients": rounded(grads)}


def rounded(values: list[Any]) -> list[Any]:
    """Numbers with seven digits."""
    return [v if v is None else [float(f"{x:.7g}") for x in v] for v in values]


def build(library: str, text: str) -> Any:
    """The module that the text describes."""
    return eval(text, {"nn": importlib.import_module(f"{library}.nn")})


def record() -> None:
    """Write state dicts and results of PyTorch."""
    torch = importlib.import_module("torch")
    torch.manual_seed(5)
    states, results = {}, {}
    for name, (text, sizes) in MODULES.items():
        module = build("torch", text)
        states[name] = {k: v.clone() for k, v in module.state_dict().items()}
        results[name] = run(torch, module, sizes)
    torch.save(states, FOLDER / "states.pt")
    (FOLDER / "states.json").write_text(json.dumps(results) + "\n", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["record"]:
    record()

"""Graphs that are written as MLIR: random ones, PyTorch's database of operators, and programs."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.codegen.mlir.text import Unsupported
from lazyt.compat import torch_alias
from lazyt.compiler import mlir_arguments, mlir_text
from lazyt.ir.graph import Node
from lazyt.runtime.interpreter import interpret
from lazyt.testing.exploring import chains, functions
from lazyt.testing.random_graphs import graph_of_few_ops, random_graph
from tests.peer_samples.replay import function_of, load, perform, tensors_in

Case = tuple[str, list[Node]]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def random_cases(seeds: int) -> Iterator[Case]:
    """Random graphs of all ops, of all scalar functions, and of chains of structural ops."""
    for seed in range(seeds):
        yield f"graph_{seed}", list(random_graph(seed).roots)
        yield f"few_ops_{seed}", list(graph_of_few_ops(seed).roots)
        if seed % 4 == 0:
            yield f"functions_{seed // 4}", list(functions(seed // 4).roots)
            yield f"chains_{seed // 4}", list(chains(seed // 4).roots)


def sample_cases(every: int = 1) -> Iterator[Case]:
    """A call of every so many operators of PyTorch's database, with its gradients."""
    for label, rows in [*load().items()][::every]:
        function = function_of(label)
        small = [row for row in rows if len(str(row)) < 4000 and "gradients" in row]
        small = small or [row for row in rows if len(str(row)) < 4000]
        if function is None or not small:
            continue
        result, slopes = perform(function, small[len(small) // 2])
        found = [*tensors_in(result), *(slope for slope in slopes or [] if slope is not None)]
        if found:
            yield label.replace(":", "_"), [tensor.node for tensor in found]


def _with_gradients(name: str, module: Any, x: lazyt.Tensor, loss: lazyt.Tensor) -> Case:
    wanted = [*module.parameters(), *([x] if x.requires_grad else [])]
    slopes = lazyt.autograd.grad(loss, wanted)
    return name, [tensor.node for tensor in (loss, *slopes) if tensor is not None]


def programs() -> Iterator[Case]:
    """Networks with the gradients of all that they learn."""
    lazyt.manual_seed(0)
    x = lazyt.randn(6, 8).realize().requires_grad_()
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.LogSoftmax(1))
    target = lazyt.tensor([0, 1, 2, 3, 0, 1])
    yield _with_gradients("mlp", net, x, F.nll_loss(net(x), target))

    norm = nn.LayerNorm(8)
    yield _with_gradients("layer_norm", norm, x, (norm(x) ** 2 * x).sum())

    tokens = lazyt.randn(2, 5, 8).realize().requires_grad_()
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    mixed = attention(tokens, tokens, tokens)[0]
    yield _with_gradients("attention", attention, tokens, mixed.square().mean())

    image = lazyt.randn(2, 3, 9, 8).realize().requires_grad_()
    convolution = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip
    yield _with_gradients("convolution", convolution, image, convolution(image).square().sum())

    cell = nn.LSTMCell(8, 6)  # an nn.LSTM is a loop, which no dialect has here
    state, outputs = None, []
    for token in tokens.unbind(1):
        state = cell(token, state)
        outputs.append(state[0])
    yield _with_gradients("lstm", cell, tokens, lazyt.stack(outputs).square().sum())

    half = nn.Linear(8, 4).to(lazyt.bfloat16)
    yield "bfloat16", [F.softmax(half(x.detach().to(lazyt.bfloat16)), 1).node]

    drop = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    yield _with_gradients("dropout", drop, x, drop(x).sum())
    with pytest.MonkeyPatch.context() as patch:
        yield _character_gpt(patch)


def _character_gpt(patch: pytest.MonkeyPatch) -> Case:
    patch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location("mlir_char_gpt", EXAMPLES / "char_gpt.py")
    assert spec is not None and spec.loader is not None
    gpt = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, gpt)
    before = torch_alias.installed()
    torch_alias.install()
    try:
        spec.loader.exec_module(gpt)
    finally:
        if not before:
            torch_alias.uninstall()
    for name, size in {"WIDTH": 16, "HEADS": 2, "CONTEXT": 12, "BATCH": 3}.items():
        patch.setattr(gpt, name, size)
    net = gpt.GPT(11, 2)
    codes = lazyt.randint(0, 11, (3, 13)).realize()
    return _with_gradients("character_gpt", net, codes, net.loss(codes))


#: Operations of StableHLO, and others of the same types. Tests for equality stay: they keep
#: integers from being divided by 0, which ends the process.
_SWAPS = {
    "stablehlo.add ": "stablehlo.subtract ", "stablehlo.subtract ": "stablehlo.add ",
    "stablehlo.multiply ": "stablehlo.add ", "stablehlo.maximum ": "stablehlo.minimum ",
    "stablehlo.minimum ": "stablehlo.maximum ", "stablehlo.divide ": "stablehlo.multiply ",
    "compare LT": "compare GE", "compare GE": "compare LT", "compare GT": "compare LE",
    "compare LE": "compare GT",
}  # fmt: skip


def with_a_fault(text: str) -> str | None:
    """A text in which the last such operation is another one, None where there is none."""
    lines = text.splitlines()
    for number in reversed(range(len(lines))):
        for old, new in _SWAPS.items():
            line = lines[number]
            if old in line and "reduce" not in line and ("compare" in old or "i1>" not in line):
                return "\n".join([*lines[:number], line.replace(old, new, 1), *lines[number + 1 :]])
    return None


class Cases:
    """A folder of cases for ``mlir_runner.py``; what was refused, and why."""

    def __init__(self, folder: Path, dialect: str) -> None:
        self.folder = folder
        self.dialect = dialect
        self.written = 0
        self.refused: dict[str, str] = {}

    def write(self, name: str, roots: list[Node]) -> None:
        """Text, inputs and right results of a graph."""
        try:
            text = mlir_text(roots, dialect=self.dialect)
        except Unsupported as error:
            self.refused[name] = str(error)
            return
        leaves = mlir_arguments(roots)
        arrays = {f"i{n}": x.data.as_numpy(x.dtype, x.shape) for n, x in enumerate(leaves)}
        arrays |= {f"o{n}": value for n, value in enumerate(interpret(roots))}
        save: Any = np.savez
        save(self.folder / f"{name}.npz", **arrays)
        (self.folder / f"{name}.mlir").write_text(text, encoding="utf-8")
        types = {"in": [x.dtype.name for x in leaves], "out": [r.dtype.name for r in roots]}
        (self.folder / f"{name}.json").write_text(json.dumps(types), encoding="utf-8")
        self.written += 1

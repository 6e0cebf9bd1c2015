"""Two of the examples train on the emulator and follow the CPU's losses to the bit."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
from lazyt.compat import torch_alias

FOLDER = Path(__file__).resolve().parents[2] / "examples"
STEPS = 4


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program of ``examples/`` as a module; its ``torch`` is lazyt."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"on_device_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    before = torch_alias.installed()
    torch_alias.install()
    try:
        spec.loader.exec_module(module)
    finally:
        if not before:
            torch_alias.uninstall()
    return module


def on_both(train: Callable[[], list[Any]]) -> list[list[float]]:
    """The losses on the CPU and on the emulator, which new tensors are made on."""
    found = []
    for place in ("cpu", "cuda:emu"):
        lt.set_default_device(place)
        try:
            lt.manual_seed(0)
            losses = train()
        finally:
            lt.set_default_device("cpu")
        assert {str(loss.device) for loss in losses} == {place}
        found.append([loss.item() for loss in losses])
    return found


def test_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    digits = example("digits", monkeypatch)

    def train() -> list[Any]:
        data, net = digits.load_data(), digits.make_network()
        losses = []
        for chosen in lt.randperm(len(data.train_labels)).split(8)[:STEPS]:
            losses.append(digits.record_step(data, chosen, net, lt.tensor(0.05)))
            lt.realize(losses[-1], *net.state())
        return losses

    here, there = on_both(train)
    assert here == there and len(set(here)) == STEPS


def test_gpt(monkeypatch: pytest.MonkeyPatch) -> None:
    gpt = example("char_gpt", monkeypatch)
    for name, size in {"WIDTH": 16, "HEADS": 2, "CONTEXT": 12, "BATCH": 3}.items():
        monkeypatch.setattr(gpt, name, size)

    def train() -> list[Any]:
        net = gpt.GPT(11, 1)
        codes = lt.randint(0, 11, (200,))
        optimizer, schedule = gpt.make_optimizer(net, 10)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = net.loss(gpt.draw_batch(codes))
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
            lt.realize(losses[-1], *net.parameters())
        return losses

    here, there = on_both(train)
    assert here == there and here[-1] != here[0]

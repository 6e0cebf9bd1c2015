"""What a first step costs, and that a second process does not pay it again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
from lazyt.ir.program import Grid
from lazyt.plan import planning
from lazyt.runtime.cuda import device, emulated, execute, nvrtc
from lazyt.runtime.cuda.driver import Image
from tests.cuda.test_training_there import example

EMU = "cuda:emu"
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs cuda-python and NVRTC")

TRAINING = """
import lazyt
from lazyt.runtime import events

lazyt.set_default_device("cuda:emu")
lazyt.manual_seed(0)
model = lazyt.nn.Sequential(lazyt.nn.Linear(5, 40), lazyt.nn.LayerNorm(40), lazyt.nn.Linear(40, 3))
optimizer = lazyt.optim.AdamW(model.parameters())
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = lazyt.nn.functional.cross_entropy(model(lazyt.randn(7, 5)), lazyt.arange(7) % 3)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(len(events.recorded("compile")), losses)
"""


class CompilingDriver(emulated.EmulatedDriver):
    """A device whose kernels are compiled for a GPU, and not run: its memory holds zeros."""

    helpers = "cuda"

    def __init__(self) -> None:
        super().__init__(EMU)
        self.made: list[nvrtc.Cubin] = []

    def identity(self) -> str:
        """One that no other run of this test has: nothing is found in the cache."""
        return f"{nvrtc.version()} {time.time_ns()}"

    def compile(self, source: str, functions: Sequence[str]) -> Image:
        """A cubin."""
        self.made.append(nvrtc.compile_cubin(source))
        return Image(self.made[-1].image, {})

    def load(self, image: bytes, functions: Mapping[str, int]) -> dict[str, Any]:
        """Nothing that could run."""
        return dict.fromkeys(functions)

    def launch(self, function: Any, grid: Grid, pointers: Sequence[int], stream: Any) -> None:
        """Nothing."""


@needs_nvrtc
@pytest.mark.nvrtc
def test_a_transformer_step_compiles_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of `char_gpt.py`'s first step, compilers and compiled, in CPU time of all threads.

    By the clock it is less: compilers work side by side.
    """
    driver = CompilingDriver()
    monkeypatch.setattr(emulated, "_NAN", 0)
    monkeypatch.setattr(device, "_devices", {EMU: device.CudaDevice(driver)})
    gpt = example("char_gpt", monkeypatch)
    lt.set_default_device(EMU)
    try:
        net = gpt.GPT(80, gpt.LAYERS)
        optimizer, _ = gpt.make_optimizer(net, 10)
        batch = gpt.draw_batch(lt.randint(0, 80, (1000,)))
        lt.realize(*net.parameters(), batch)
        driver.made.clear()
        begun = time.process_time()
        loss = net.loss(batch)
        loss.backward()
        optimizer.step()
        lt.realize(loss, *net.parameters())
        seconds = time.process_time() - begun
    finally:
        lt.set_default_device("cpu")
        planning.clear()
        execute.forget()
    registers = {name: count for cubin in driver.made for name, count in cubin.registers.items()}
    assert len(registers) > 20, "a whole step"
    assert not any(bytes_ for cubin in driver.made for bytes_ in cubin.spilled.values())
    assert seconds < 20, f"{seconds:.1f} s of CPU time for {len(registers)} functions"


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"LAZYT_CACHE_DIR": str(tmp_path)}
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", TRAINING],
            capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split(maxsplit=1))
    (first, losses), (second, again) = printed
    assert int(first) > 0 and int(second) == 0
    assert losses == again

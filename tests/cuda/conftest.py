"""Devices for the tests of this folder."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator

import pytest

from lazyt.plan import planning
from lazyt.runtime.cuda import bound, device, execute, nvrtc
from tests.cuda.mock_driver import MockDriver


@pytest.fixture(autouse=True)
def _needs_compiler() -> None:
    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("needs a C++ compiler")


@pytest.fixture
def mock(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockDriver]:
    """A machine with two GPUs, as far as the driver's library tells."""
    driver = MockDriver(2)
    before = dict(device._devices)
    device.forget()
    planning.clear()
    monkeypatch.setattr(bound, "library", lambda: driver)
    monkeypatch.setattr(nvrtc, "available", lambda: True)
    monkeypatch.setattr(nvrtc, "version", lambda: "mock")
    monkeypatch.setattr(nvrtc, "target_of", lambda major, minor: f"sm_{major}{minor}a")
    monkeypatch.setattr(nvrtc, "compile_cubin", driver.compile)
    yield driver
    gc.collect()
    planning.clear()
    execute.forget()
    device.forget()
    device._devices.update(before)

"""What NVRTC is told, what it tells, and what users read when it cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lazyt.errors import CompileError, DeviceError
from lazyt.runtime.cuda import nvrtc

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs cuda-python and NVRTC")

SPILLING = """
extern "C" __global__ void __launch_bounds__(1024) plain(float *y) { y[threadIdx.x] = 1.0f; }
extern "C" __global__ void stacked(float *y, int n) {
  float a[64];
  for (int i = 0; i < n; i++) a[i % 64] = y[i];
  y[0] = a[n % 61];
}
"""


@needs_nvrtc
@pytest.mark.nvrtc
def test_facts_of_every_function() -> None:
    cubin = nvrtc.compile_cubin(SPILLING)
    assert set(cubin.registers) == set(cubin.spilled) == set(cubin.stack) == {"plain", "stacked"}
    assert cubin.stack["stacked"] >= 256 > cubin.stack["plain"] == 0
    assert 0 < cubin.registers["plain"] <= 64
    assert nvrtc.version().count(".") == 1


@needs_nvrtc
@pytest.mark.nvrtc
def test_multiplications_and_additions_stay_apart() -> None:
    text = """extern "C" __global__ void k(float *y) { y[0] = y[1] * y[2] + y[3]; }"""
    fused = text.replace("y[1] * y[2] + y[3]", "__fmaf_rn(y[1], y[2], y[3])")
    assert nvrtc.compile_cubin(text).image != nvrtc.compile_cubin(fused).image
    assert "--fmad=false" in nvrtc.OPTIONS


@needs_nvrtc
@pytest.mark.nvrtc
def test_gpus_that_are_not_known_get_ptx() -> None:
    """The driver translates it; about registers it says nothing."""
    text = 'extern "C" __global__ void k(int *y) { y[0] = 1; }'
    for capability in ((9, 0), (99, 0)):
        made = nvrtc.compile_cubin(text, nvrtc.target_of(*capability))
        is_cubin = made.image.startswith(b"\x7fELF")
        assert is_cubin == (capability == (9, 0)) == ("k" in made.registers)
        assert is_cubin or b".visible .entry k(" in made.image


@needs_nvrtc
@pytest.mark.nvrtc
def test_errors_keep_the_source() -> None:
    with pytest.raises(CompileError, match="no_such_name") as caught:
        nvrtc.compile_cubin('extern "C" __global__ void k(int *y) { y[0] = no_such_name; }')
    path = caught.value.source_path
    assert path is not None and "no_such_name" in Path(path).read_text()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    assert not nvrtc.available()
    with pytest.raises(DeviceError, match="pip install cuda-python nvidia-cuda-nvrtc"):
        nvrtc.compile_cubin("")
    with pytest.raises(DeviceError, match="nvidia-cuda-nvrtc"):
        nvrtc.version()

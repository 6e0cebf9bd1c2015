"""Machines on which no GPU can be used: what is said, and that the CPU does not notice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
from lazyt.errors import DeviceError
from lazyt.runtime.cuda import bound, device, nvrtc
from tests.cuda.mock_driver import CUresult, MockDriver

ROOT = Path(__file__).resolve().parents[2]


def _packages_missing(patch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        patch.setitem(sys.modules, name, None)


def _driver(patch: pytest.MonkeyPatch, init: Callable[[int], Any]) -> None:
    driver = MockDriver()
    object.__setattr__(driver, "cuInit", init)
    patch.setattr(bound, "library", lambda: bound.started(driver))


def _library_missing(patch: pytest.MonkeyPatch) -> None:
    def fail(flags: int) -> Any:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    _driver(patch, fail)


def _driver_failing(patch: pytest.MonkeyPatch) -> None:
    _driver(patch, lambda flags: (CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,))


def _no_gpu(patch: pytest.MonkeyPatch) -> None:
    _driver(patch, lambda flags: (CUresult.CUDA_ERROR_NO_DEVICE,))


STATES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "packages": (_packages_missing, rf"cuda-python.*missing.*{nvrtc.INSTALL}"),
    "library": (_library_missing, r"no NVIDIA driver.*libcuda.so.1.*cuda:emu"),
    "failing": (_driver_failing, r"cannot be started \(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\)"),
    "no GPU": (_no_gpu, r"finds no GPU.*nvidia-smi"),
}


@pytest.mark.parametrize("state", STATES)
def test_what_is_said(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrange, said = STATES[state]
    bound.library.cache_clear()
    monkeypatch.setattr(device, "_devices", {})
    arrange(monkeypatch)
    assert lt.cuda.is_available() is False and lt.cuda.device_count() == 0
    assert not lt.cuda.is_initialized() and not lt.backends.cuda.is_built()
    assert lt.cuda.memory_allocated() == lt.cuda.max_memory_reserved() == 0
    lt.cuda.empty_cache()
    lt.cuda.manual_seed(1)
    lt.cuda.reset_peak_memory_stats()
    assert lt.cuda.host_memory_stats() == lt.cuda.memory_stats_as_nested_dict() == {}
    assert lt.cuda.default_generators == () and lt.cuda.get_rng_state_all() == []
    assert lt.cuda.get_gencode_flags() == "" and not lt.cuda.is_tf32_supported()
    assert not lt.cuda.is_current_stream_capturing() and lt.cuda.amp.amp_definitely_not_available()
    lt.cuda.seed_all()
    lt.cuda.ipc_collect()
    with lt.cuda.profiler.profile(), lt.cuda.nvtx.range("step {}", 1):
        assert lt.cuda.nvtx.range_push("inner") == 1 and lt.cuda.nvtx.range_pop() == 1
    assert lt.cuda.memory_stats() == {} and "no CUDA device" in lt.cuda.memory_summary()
    x = lt.ones(2)
    wanted: list[Callable[[], object]] = [
        lambda: x.to("cuda"), x.cuda, lambda: lt.zeros(2, device="cuda:0"), lt.cuda.synchronize,
        lambda: lt.nn.Linear(1, 1).to("cuda"), lt.cuda.Stream, lt.cuda.Event, lt.cuda.mem_get_info,
        lambda: lt.cuda.get_device_name(0), lambda: lt.set_default_device("cuda"),
        lt.cuda.utilization, lt.cuda.CUDAGraph().capture_begin, lambda: lt.cuda.FloatTensor([1]),
        lambda: lt.cuda.ExternalStream(1), lambda: lt.cuda.comm.broadcast(x, [0]),
    ]  # fmt: skip
    for ask in wanted:
        with pytest.raises(DeviceError, match=said):
            ask()
    assert x.pin_memory() is x and not x.is_pinned()
    with lt.cuda.stream(None):
        assert (x + 1).tolist() == [2, 2]
    monkeypatch.undo()
    bound.library.cache_clear()


def test_names_that_are_missing_say_why() -> None:
    """Every public name of PyTorch's package is there, or its absence has a reason."""
    recorded = json.loads((ROOT / "docs" / "torch_cuda.json").read_text(encoding="utf-8"))
    missing: dict[str, str] = {}
    for module, names in recorded.items():
        owner: Any = lt
        for part in module.split(".")[1:]:
            owner = getattr(owner, part)
        for name in names:
            try:
                getattr(owner, name)
            except AttributeError as error:
                missing[f"{module}.{name}"] = str(error).partition(": ")[2]
    assert all(missing.values()), [name for name, reason in missing.items() if not reason]
    assert 20 < len(missing) < 40 and "lazyt.cuda.comm" in missing["torch.cuda.nccl"]
    for ask in (lt.cuda.cudart, lt.cuda.current_blas_handle, lt.cuda.current_solver_handle):
        with pytest.raises(DeviceError, match="loaded"):
            ask()
    lt.backends.cuda.matmul.allow_tf32 = True  # noted, without effect
    with lt.backends.cuda.sdp_kernel(enable_flash=False):
        assert not lt.backends.cuda.flash_sdp_enabled()
    assert lt.backends.cuda.flash_sdp_enabled()
    lt.backends.cuda.matmul.allow_tf32 = False


def test_the_cpu_loads_nothing_of_cuda() -> None:
    """Neither import nor a program on the CPU loads the bindings or the driver's half of lazyt."""
    program = (
        "import sys, lazyt\n"
        "x = lazyt.randn(3, requires_grad=True)\n"
        "(x * 2).sum().backward(); x.grad.tolist()\n"
        "print([n for n in sys.modules if 'cuda' in n])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]", done.stdout


BLOCKED = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cuda", "nvidia"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
import lazyt

assert lazyt.cuda.is_available() is False and lazyt.cuda.device_count() == 0
model = lazyt.nn.Linear(3, 2)
try:
    model.to("cuda")
except lazyt.errors.DeviceError as error:
    print(error)
model(lazyt.ones(4, 3)).sum().backward()
print(model.weight.grad.tolist())
"""


def test_a_process_without_the_packages() -> None:
    """From the import on: what is missing is said once it is asked for, and training goes on."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    said, gradient = done.stdout.rsplit("\n", 2)[:2]
    assert nvrtc.INSTALL in said and gradient == "[[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]"

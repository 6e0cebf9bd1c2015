"""What a GPU is doing, by NVIDIA's tool ``nvidia-smi``, which comes with the driver."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from lazyt.devices import wanted_device
from lazyt.errors import DeviceError

__all__ = [
    "clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw",
    "temperature", "utilization",
]  # fmt: skip


def _asked(what: str, device: Any) -> list[str]:
    """The tool's answers about a GPU. Raises DeviceError."""
    found = wanted_device(device)
    bus, tool = found.driver.bus(), shutil.which("nvidia-smi")
    if not bus or tool is None:
        missing = f"{found.place} is no GPU" if not bus else "nvidia-smi is not installed"
        raise DeviceError(f"{missing}: only NVIDIA's tool nvidia-smi knows what a GPU is doing")
    form = "--format=csv,noheader,nounits"
    command = [tool, f"--id={bus}", f"--query-{what}", form]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceError(f"nvidia-smi failed: {(done.stdout + done.stderr).strip()}")
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _number(what: str, device: Any) -> float:
    return float(_asked(f"gpu={what}", device)[0])


def utilization(device: Any = None) -> int:
    """Percent of the time that a kernel was running. Raises DeviceError."""
    return int(_number("utilization.gpu", device))


def memory_usage(device: Any = None) -> int:
    """Percent of the time that memory was read or written. Raises DeviceError."""
    return int(_number("utilization.memory", device))


def temperature(device: Any = None) -> int:
    """Degrees Celsius. Raises DeviceError."""
    return int(_number("temperature.gpu", device))


def power_draw(device: Any = None) -> int:
    """Milliwatts. Raises DeviceError."""
    return round(_number("power.draw", device) * 1000)


def clock_rate(device: Any = None) -> int:
    """MHz of the multiprocessors. Raises DeviceError."""
    return int(_number("clocks.sm", device))


def device_memory_used(device: Any = None) -> int:
    """Bytes in use, by all processes. Raises DeviceError."""
    found = wanted_device(device)
    free, total = found.call(found.driver.memory)
    return int(total - free)


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use the GPU, with their memory. Raises DeviceError."""
    rows = _asked("compute-apps=pid,used_memory", device)
    texts = [f"process {row.replace(',', ' uses')} MiB GPU memory" for row in rows]
    return "\n".join(
        [f"GPU:{wanted_device(device).place}", *(texts or ["no processes are running"])]
    )

"""Names of ``torch.cuda`` that programs ask and set, and that mean little here."""

from __future__ import annotations

import enum
import shutil
import subprocess
from typing import Any, NoReturn

from lazyt import random
from lazyt.compat import legacy
from lazyt.compat.absent import AbsentName
from lazyt.errors import DeviceError
from lazyt.handle.cuda_devices import CudaError, device_count, wanted_device

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "CudaError",
    "DeferredCudaCallError", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
    "ShortTensor", "can_device_access_peer", "check_error", "clock_rate", "cudaStatus", "cudart",
    "current_blas_handle", "current_solver_handle", "device_memory_used", "get_gencode_flags",
    "get_sync_debug_mode", "has_half", "has_magma", "ipc_collect", "is_tf32_supported",
    "list_gpu_processes", "memory_usage", "power_draw", "set_sync_debug_mode", "temperature",
    "utilization",
]  # fmt: skip

has_half, has_magma = True, False
_mode = [0]


class DeferredCudaCallError(Exception):
    """Never raised: nothing waits for a GPU to be there."""


class cudaStatus(enum.IntEnum):
    """Codes that ``check_error`` takes."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def check_error(res: int) -> None:
    """Raises CudaError for a driver's code other than 0."""
    if res != 0:
        raise CudaError(f"the driver's code {res}", str(res))


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU reads another's memory by itself. Raises DeviceError."""
    return wanted_device(device).driver.reaches(wanted_device(peer_device).driver)


def is_tf32_supported() -> bool:
    """Whether there is a GPU that can round to TF32 in products. Products here never do."""
    return device_count() > 0


def get_gencode_flags() -> str:
    """The compiler's flags for the GPUs that there are."""
    archs = {wanted_device(number).driver.properties.arch[3:] for number in range(device_count())}
    return " ".join(f"-gencode compute=compute_{a},code=sm_{a}" for a in sorted(archs))


def get_sync_debug_mode() -> int:
    """What ``set_sync_debug_mode`` was told."""
    return _mode[0]


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Noted, but without effect: ``lazyt.why_realized()`` lists what a program waited for.

    Raises DeviceError for what is no mode.
    """
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in modes.values():
        raise DeviceError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    _mode[0] = mode


def ipc_collect() -> None:
    """Nothing to do: memory is not shared between processes."""


def cudart() -> NoReturn:
    """Raises DeviceError: the driver is used without the runtime library."""
    raise DeviceError("lazyt uses CUDA's driver; its runtime library is not loaded (cudart)")


def current_blas_handle() -> NoReturn:
    """Raises DeviceError: there is no cuBLAS."""
    raise DeviceError("lazyt compiles its products; cuBLAS is not loaded and has no handle")


def current_solver_handle() -> NoReturn:
    """Raises DeviceError: there is no cuSOLVER."""
    raise DeviceError("lazyt's factorizations are the CPU's; cuSOLVER is not loaded")


def default_generators() -> tuple[random.Generator, ...]:
    """The generator of each GPU: all draw the CPU's random numbers."""
    return (random.default_generator,) * device_count()


#: Why names of ``torch.cuda`` are not there.
REASONS = {
    "nccl": "collectives are those of lazyt.distributed, with backend='nccl'; see lazyt.cuda.comm",
    "tunable": "products are compiled, not picked from a library; lazyt.tune finds their tiles",
    "sparse": "make sparse tensors with lazyt.sparse_coo_tensor, of tensors on the GPU",
    "jiterator": "write the formula with tensors: lazyt compiles it into one kernel",
    "gds": "files are read by the host: lazyt.load",
    "GreenContext": "kernels use the whole GPU",
    "MemPool": "memory is kept per stream: run the work on a lazyt.cuda.Stream of its own",
    "use_mem_pool": "memory is kept per stream: run the work on a lazyt.cuda.Stream of its own",
    "CUDAPluggableAllocator": "memory comes from the driver's stream-ordered pool",
    "change_current_allocator": "memory comes from the driver's stream-ordered pool",
    "caching_allocator_disabled": "freed memory is kept; lazyt.cuda.empty_cache() gives it back",
    "caching_allocator_enable": "freed memory is kept; lazyt.cuda.empty_cache() gives it back",
}
for _title in (
    "Bool",
    "Byte",
    "Char",
    "Double",
    "Float",
    "Half",
    "Int",
    "Long",
    "Short",
    "BFloat16",
    "ComplexDouble",
    "ComplexFloat",
):
    REASONS[f"{_title}Storage"] = "use UntypedStorage, or tensors with device='cuda'"


def absent(owner: str, name: str) -> Any:
    """Raises AttributeError, which says why, for a name that is not there."""
    if name == "default_generators":
        return default_generators()
    raise AbsentName.of(owner, name, REASONS.get(name))


# What a GPU is doing, by NVIDIA's tool ``nvidia-smi``, which comes with the driver.


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


# The tensor types of old programs on a GPU: ``torch.cuda.FloatTensor([1, 2])``.


def _type_on_gpu(kind: legacy.tensortype) -> legacy.cudatype:
    made = legacy.cudatype(kind.__name__, (), {"__module__": "lazyt.cuda"})
    made.dtype = kind.dtype
    made.__doc__ = f"Tensors of {kind.dtype.name} on a GPU."
    return made


BoolTensor = _type_on_gpu(legacy.BoolTensor)
ByteTensor = _type_on_gpu(legacy.ByteTensor)
CharTensor = _type_on_gpu(legacy.CharTensor)
ShortTensor = _type_on_gpu(legacy.ShortTensor)
IntTensor = _type_on_gpu(legacy.IntTensor)
LongTensor = _type_on_gpu(legacy.LongTensor)
HalfTensor = _type_on_gpu(legacy.HalfTensor)
BFloat16Tensor = _type_on_gpu(legacy.BFloat16Tensor)
FloatTensor = _type_on_gpu(legacy.FloatTensor)
DoubleTensor = _type_on_gpu(legacy.DoubleTensor)

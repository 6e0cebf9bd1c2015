"""``torch.cuda``: questions about CUDA devices, streams, events and memory.

Where there is no GPU, everything that asks (``is_available``, ``memory_allocated`` ...) tells that
there is nothing, and everything that needs one raises DeviceError, a RuntimeError that says what is
missing. The emulator answers where a device can be named: ``memory_allocated("cuda:emu")``.
"""

from __future__ import annotations

from typing import Any

from lazyt.cuda import amp as amp
from lazyt.cuda import comm as comm
from lazyt.cuda import memory as memory
from lazyt.cuda import nvtx as nvtx
from lazyt.cuda import profiler as profiler
from lazyt.cuda import random as random
from lazyt.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from lazyt.cuda.memory import (
    OutOfMemoryError,
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from lazyt.cuda.others import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    CudaError,
    DeferredCudaCallError,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    absent,
    can_device_access_peer,
    check_error,
    clock_rate,
    cudart,
    cudaStatus,
    current_blas_handle,
    current_solver_handle,
    device_memory_used,
    get_gencode_flags,
    get_sync_debug_mode,
    has_half,
    has_magma,
    ipc_collect,
    is_tf32_supported,
    list_gpu_processes,
    memory_usage,
    power_draw,
    set_sync_debug_mode,
    temperature,
    utilization,
)
from lazyt.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from lazyt.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from lazyt.handle.cuda_devices import (
    Properties,
    choose,
    current,
    device_count,
    launch_pending,
    number_of,
    wanted_device,
)

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CUDAGraph", "CharTensor", "CudaError",
    "DeferredCudaCallError", "DoubleTensor", "Event", "ExternalStream", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "OutOfMemoryError", "ShortTensor", "Stream",
    "StreamContext", "amp", "caching_allocator_alloc", "caching_allocator_delete",
    "can_device_access_peer", "check_error", "clock_rate", "comm", "cudaStatus", "cudart",
    "current_blas_handle", "current_device", "current_solver_handle", "current_stream",
    "default_stream", "device", "device_count", "device_memory_used", "device_of", "empty_cache",
    "get_allocator_backend", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_gencode_flags", "get_per_process_memory_fraction",
    "get_rng_state", "get_rng_state_all", "get_stream_from_external", "get_sync_debug_mode",
    "graph", "graph_pool_handle", "has_half", "has_magma", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "init", "initial_seed", "ipc_collect", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "is_tf32_supported",
    "list_gpu_processes", "make_graphed_callables", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory",
    "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "memory_usage", "nvtx", "power_draw",
    "profiler", "random", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device",
    "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream",
    "set_sync_debug_mode", "stream", "synchronize", "temperature", "utilization",
]  # fmt: skip


def is_available() -> bool:
    """Whether tensors can be put on a GPU."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether a GPU is in use."""
    from lazyt.handle.cuda_devices import used_device

    return used_device(None) is not None


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU that calculates in bfloat16: all that can be used do."""
    return is_available()


def init() -> None:
    """Start using a GPU. Raises DeviceError."""
    wanted_device()


def synchronize(device: Any = None) -> None:
    """Begin all work that is pending on a device, and wait until it is done.

    Raises DeviceError for a device that cannot be used, and the errors of the work itself.
    """
    found = wanted_device(device)
    launch_pending(found)
    found.synchronize()


def current_device() -> int:
    """Number of the GPU that ``cuda`` means. Raises DeviceError where there is none."""
    return number_of(wanted_device())


def set_device(device: Any) -> None:
    """Let ``cuda`` mean this GPU in this thread; -1 changes nothing. Raises DeviceError."""
    if device == -1:
        return
    choose(number_of(wanted_device(device)))


def get_device_name(device: Any = None) -> str:
    """What the GPU is called. Raises DeviceError."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """What the GPU can do, such as (9, 0). Raises DeviceError."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_device_properties(device: Any = None) -> Properties:
    """Facts about the GPU. Raises DeviceError."""
    return wanted_device(device).driver.properties


def get_arch_list() -> list[str]:
    """Architectures that kernels are compiled for: those of the GPUs that there are."""
    return sorted({get_device_properties(n).arch for n in range(device_count())})


def __getattr__(name: str) -> Any:
    return absent("lazyt.cuda", name)


class device:
    """Makes a GPU the current one inside of a ``with`` block; None and -1 change nothing.

    Raises DeviceError on entering.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._before = 0

    def __enter__(self) -> None:
        self._before = current()
        if self._device is not None and self._device != -1:
            set_device(self._device)

    def __exit__(self, *_: object) -> None:
        choose(self._before)


class device_of(device):
    """``device`` of the GPU that a tensor is on; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Any) -> None:
        place = obj.device
        super().__init__(place if place.type == "cuda" else None)

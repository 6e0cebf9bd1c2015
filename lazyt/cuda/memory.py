"""Questions about the memory of CUDA devices: where there is no GPU, none is in use."""

from __future__ import annotations

import pickle
from typing import Any

from lazyt.cuda.others import absent, list_gpu_processes
from lazyt.cuda.streams import Stream
from lazyt.errors import ArgumentError
from lazyt.errors import OutOfMemoryError as OutOfMemoryError
from lazyt.handle.cuda_devices import DevicePool, number_of, used_device, wanted_device
from lazyt.handle.device import device_of

__all__ = [
    "OutOfMemoryError", "caching_allocator_alloc", "caching_allocator_delete", "empty_cache",
    "get_allocator_backend", "get_per_process_memory_fraction", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "list_gpu_processes", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_host_memory_stats", "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return absent("lazyt.cuda.memory", name)


def _pool(device: Any) -> DevicePool | None:
    found = used_device(device)
    return None if found is None else found.pool


def empty_cache() -> None:
    """Give memory that no tensor uses back to the device, and what the driver keeps, too."""
    from lazyt.handle.cuda_devices import devices_in_use

    for device in devices_in_use():
        if not device.lost:
            device.pool.trim()


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold."""
    pool = _pool(device)
    return 0 if pool is None else pool.allocated.now


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held."""
    pool = _pool(device)
    return 0 if pool is None else pool.allocated.peak


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the GPU."""
    pool = _pool(device)
    return 0 if pool is None else pool.reserved.now


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes taken from the GPU."""
    pool = _pool(device)
    return 0 if pool is None else pool.reserved.peak


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start measuring the highest numbers anew."""
    pool = _pool(device)
    for counts in () if pool is None else pool.counts.values():
        counts.peak = counts.now


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Start counting what came and went anew."""
    pool = _pool(device)
    if pool is not None:
        for counts in pool.counts.values():
            counts.made = counts.freed = 0
        pool.retries = pool.failures = 0


def memory_stats(device: Any = None) -> dict[str, int]:
    """All counters by name: none without a GPU."""
    pool = _pool(device)
    if pool is None:
        return {}
    found: dict[str, int] = {"num_alloc_retries": pool.retries, "num_ooms": pool.failures}
    for name, counts in pool.counts.items():
        found |= counts.as_dict(name)
    return dict(sorted(found.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """``memory_stats`` with a dict for each part of the names."""
    return _nested(memory_stats(device))


def _nested(flat: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, count in flat.items():
        *outer, last = name.split(".")
        inner = found
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = count
    return found


def host_memory_stats() -> dict[str, int]:
    """Counters of pinned memory, of all devices: none without a GPU."""
    from lazyt.handle.cuda_devices import devices_in_use

    found: dict[str, int] = {}
    for device in devices_in_use():
        for name, count in device.pool.pinned.as_dict("allocated_bytes").items():
            name = name.replace(".all", "")
            found[name] = found.get(name, 0) + count
    return found


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """``host_memory_stats`` with a dict for each part of the names."""
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """Start measuring the highest numbers of pinned memory anew."""
    from lazyt.handle.cuda_devices import devices_in_use

    for device in devices_in_use():
        device.pool.pinned.peak = device.pool.pinned.now


def reset_accumulated_host_memory_stats() -> None:
    """Start counting what came and went of pinned memory anew."""
    from lazyt.handle.cuda_devices import devices_in_use

    for device in devices_in_use():
        device.pool.pinned.made = device.pool.pinned.freed = 0


def get_allocator_backend() -> str:
    """Where memory comes from, by PyTorch's name for the driver's stream-ordered pool."""
    return "cudaMallocAsync"


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The share of the GPU's memory that this process may take. Raises DeviceError."""
    found = wanted_device(device)
    limit, total = found.pool.limit, found.driver.properties.total_memory
    return limit / total if limit and total else 1.0


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the GPU. Raises DeviceError."""
    found = wanted_device(device)
    free, total = found.call(found.driver.memory)
    return free, total


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process take no more than a share of the GPU's memory.

    Raises ArgumentError outside of 0 to 1 and DeviceError without a GPU.
    """
    found = wanted_device(device)
    if not 0 <= fraction <= 1:
        raise ArgumentError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    found.pool.limit = int(found.driver.properties.total_memory * fraction)


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """The address of memory that ``caching_allocator_delete`` has to give back.

    Args:
        size: bytes.
        device: the GPU, the current one by default.
        stream: the Stream whose work uses it, the current one by default.

    Raises OutOfMemoryError, ArgumentError for a stream of another GPU, and DeviceError without one.
    """
    found = wanted_device(device)
    queue = found.stream
    if stream is not None:
        if not isinstance(stream, Stream) or stream.device != device_of(found.place):
            raise ArgumentError(f"expected a stream of {found.place}, but got: {stream}")
        queue = stream._queue
    address = found.pool.take(size, queue)
    _allocated[address] = found.pool, queue
    return address


#: What ``caching_allocator_alloc`` gave: of which pool, and for which stream.
_allocated: dict[int, tuple[DevicePool, Any]] = {}


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give memory of ``caching_allocator_alloc`` back: the stream that requested it may have
    work that uses it. Raises ArgumentError for other addresses."""
    if mem_ptr not in _allocated:
        raise ArgumentError(f"{mem_ptr!r} is no memory of caching_allocator_alloc")
    pool, queue = _allocated.pop(mem_ptr)
    pool.give(mem_ptr, queue)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counters as a table."""
    pool = _pool(device)
    place = "no CUDA device is in use" if pool is None else pool.device.place
    line = "=" * 76
    title = f"| {'CUDA memory summary, ' + place:<72} |"
    head = f"| {'Metric':<18} | {'Cur Usage':>11} | {'Peak Usage':>11} | {'Tot Alloc':>10} | "
    head += f"{'Tot Freed':>10} |"
    rows = [line, title, line, head, "-" * 76]
    names = {"allocated_bytes": "Allocated memory", "reserved_bytes": "GPU reserved memory"}
    names |= {"allocation": "Allocations", "segment": "GPU reserved segments"}
    for name, text in names.items():
        if pool is None:
            now = peak = made = freed = 0
        else:
            counts = pool.counts[name]
            now, peak, made, freed = counts.now, counts.peak, counts.made, counts.freed
        cells = [_amount(n, name.endswith("bytes")) for n in (now, peak, made, freed)]
        rows.append(
            f"| {text[:18]:<18} | {cells[0]:>11} | {cells[1]:>11} | {cells[2]:>10} | "
            f"{cells[3]:>10} |"
        )
    if pool is not None and not abbreviated:
        rows += ["-" * 76, f"| retries {pool.retries}, out of memory {pool.failures}"]
    return "\n".join([*rows, line])


def _amount(number: int, is_bytes: bool) -> str:
    if not is_bytes:
        return str(number)
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 10 << shift:
            return f"{number >> shift} {unit}"
    return f"{number} B"


def _record_memory_history(enabled: Any = "all", *_: Any, **__: Any) -> None:
    """Note every allocation from now on; None ends it. Without a GPU there is nothing to note."""
    found = used_device(None)
    if found is None and enabled is not None:
        from lazyt.handle.cuda_devices import device_count

        found = wanted_device() if device_count() > 0 else None
    if found is not None:
        found.pool.history = None if enabled is None else []


def memory_snapshot() -> list[dict[str, Any]]:
    """The blocks of all devices that are in use."""
    segments: list[dict[str, Any]] = _snapshot()["segments"]
    return segments


def _snapshot(device: Any = None) -> dict[str, list[Any]]:
    """All blocks, and what was noted since ``_record_memory_history``, by PyTorch's names."""
    from lazyt.handle.cuda_devices import devices_in_use

    segments: list[dict[str, Any]] = []
    traces: list[Any] = []
    for found in devices_in_use():
        number, pool = number_of(found), found.pool
        for address, size, asked, queue in pool.listed():
            state = "active_allocated" if asked is not None else "inactive"
            held = 0 if asked is None else size
            block = {"address": address, "size": size, "requested_size": asked or 0,
                     "state": state, "frames": []}  # fmt: skip
            segments.append({
                "device": number, "address": address, "total_size": size, "allocated_size": held,
                "active_size": held, "requested_size": asked or 0, "stream": queue,
                "segment_type": "large" if size >= 1 << 20 else "small", "blocks": [block],
                "frames": [],
            })  # fmt: skip
        traces.append(list(pool.history or ()))
    return {"segments": segments, "device_traces": traces}


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write ``_snapshot()`` to a file, as PyTorch's viewer reads it."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)

"""A driver library without a GPU: the calls of ``cuda.bindings.driver`` that lazyt makes.

Kernels run on the emulator. Work waits in its stream until somebody waits for it, so that a missing
wait shows as a wrong value, and memory holds NaN before and after its use. Faults can be ordered.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import re
from collections import deque
from typing import Any

import numpy as np

from lazyt.runtime.cuda import emulated
from lazyt.runtime.cuda.nvrtc import Cubin
from tests.cuda.mock_objects import (
    Access,
    Event,
    Executable,
    Function,
    Module,
    Node,
    Settings,
    Stream,
    Work,
)

Reply = tuple[Any, ...]


class CUresult(enum.IntEnum):
    """The codes that matter here."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_INITIALIZED = 3
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803


OK = CUresult.CUDA_SUCCESS


_ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "WARP_SIZE": 32, "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MULTIPROCESSOR_COUNT": 16,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 << 10,
}  # fmt: skip


class _Names:
    """Stands for an enumeration: every name is a value of its own."""

    def __getattr__(self, name: str) -> str:
        return name


class MockDriver:
    """The library, for one machine with ``count`` GPUs of ``capacity`` bytes in all.

    Attributes:
        calls: names of all calls, in order.
        blocks: memory that is allocated.
        refusals: what a call is to return the next times, by its name.
        broken: the error that all work fails with, once a fault happened.
        fault_in: a part of the names of kernels that are to fail while they run.
        compiled: how many programs were compiled.
        readers: pools, and GPUs that may read their memory.
        local_bytes: what every function is said to need for a thread.
        current: the context that is current.
    """

    CUmemPool_attribute = CUdevice_attribute = CUfunction_attribute = _Names()
    CUmemLocationType = CUmemAccess_flags = _Names()
    CUDA_KERNEL_NODE_PARAMS = Settings
    CUmemAccessDesc = Access
    cuuint64_t = int

    def __init__(self, count: int = 1, capacity: int = 1 << 28) -> None:
        self.count, self.capacity = count, capacity
        self.calls: list[str] = []
        self.blocks: dict[int, np.ndarray] = {}
        self.freed: dict[int, int] = {}
        self.refusals: dict[str, deque[CUresult]] = {}
        self.broken: CUresult | None = None
        self.compiled = 0
        self.fault_in = ""
        self.local_bytes = 0
        self.current: Any = None
        self.streams: list[Stream] = []
        self.readers: list[tuple[str, int]] = []
        self._clock = itertools.count()

    def refuse(self, name: str, code: CUresult, times: int = 1) -> None:
        """The next calls of a function are to fail."""
        self.refusals.setdefault(name, deque()).extend([code] * times)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("cu") or not callable(found) or name == "cuuint64_t":
            return found

        def call(*arguments: Any) -> Reply:
            self.calls.append(name)
            waiting = self.refusals.get(name)
            if waiting:
                return waiting.popleft(), None
            fails = name not in ("cuGetErrorString", "cuInit")
            if self.broken is not None and fails:
                return self.broken, None
            reply: Reply = found(*arguments)
            return (self.broken, *reply[1:]) if self.broken is not None and fails else reply

        return call

    # ------------------------------------------------------------------ devices

    def cuInit(self, flags: int) -> Reply:
        return (OK,)

    def cuDeviceGetCount(self) -> Reply:
        return OK, self.count

    def cuDeviceGet(self, number: int) -> Reply:
        return OK, number

    def cuDevicePrimaryCtxRetain(self, device: int) -> Reply:
        return OK, ("context", device)

    def cuCtxSetCurrent(self, context: Any) -> Reply:
        self.current = context
        return (OK,)

    def cuCtxSynchronize(self) -> Reply:
        for stream in self.streams:
            stream.drain()
        return (OK,)

    def cuDeviceGetName(self, length: int, device: int) -> Reply:
        return OK, b"Mock GPU\0"

    def cuDeviceTotalMem(self, device: int) -> Reply:
        return OK, self.capacity

    def cuDeviceGetAttribute(self, name: str, device: int) -> Reply:
        kind = name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        return OK, _ATTRIBUTES.get(kind, 0)

    def cuGetErrorString(self, code: CUresult) -> Reply:
        return OK, code.name.removeprefix("CUDA_ERROR_").replace("_", " ").lower().encode()

    # ------------------------------------------------------------------ programs

    def compile(self, source: str, arch: str = "") -> Cubin:
        """In the place of NVRTC: the image is the source."""
        self.compiled += 1
        names = re.findall(r"__launch_bounds__\([\d, ]+\) (\w+)\(", source)
        return Cubin(source.encode(), dict.fromkeys(names, 40), {}, {}, "")

    def cuModuleLoadData(self, image: bytes) -> Reply:
        return OK, Module(image)

    def cuModuleGetFunction(self, module: Module, name: bytes) -> Reply:
        text = name.decode()
        return OK, Function(module.library, text, module.arity[text])

    def cuFuncSetAttribute(self, function: Function, name: str, value: int) -> Reply:
        assert name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        function.most_shared = value
        return (OK,)

    def cuFuncGetAttribute(self, name: str, function: Function) -> Reply:
        assert name == "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES"
        return OK, self.local_bytes

    def cuLaunchKernel(self, function: Function, *rest: Any) -> Reply:
        settings = Settings()
        blocks, _, _, threads, _, _, shared, stream, parameters, _ = rest
        settings.func, settings.kernelParams, settings.sharedMemBytes = function, parameters, shared
        settings.gridDimX, settings.blockDimX = blocks, threads
        stream.add(self._launched(settings))
        return (OK,)

    def _launched(self, settings: Settings) -> Work:
        """What a launch is to do; its parameters are read now."""
        function = settings.func
        blocks, threads, shared = settings.gridDimX, settings.blockDimX, settings.sharedMemBytes
        assert shared <= function.most_shared, f"{function.name} has too much shared memory"
        places = (ctypes.c_void_p * function.arity).from_address(settings.kernelParams)
        pointers = [ctypes.c_void_p.from_address(p or 0).value or 0 for p in places]

        def work() -> None:
            if self.broken is not None:
                return
            if self.fault_in and self.fault_in in function.name:
                self.broken = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
                return
            for pointer in pointers:
                assert self._holds(pointer), f"{function.name} gets memory that nobody has"
            fault = emulated.run(function.run, blocks, threads, shared, pointers, True, 3)
            assert fault is None, fault

        return work

    # ------------------------------------------------------------------ memory

    def _holds(self, pointer: int) -> bool:
        return any(start <= pointer <= start + b.nbytes for start, b in self.blocks.items())

    def cuDeviceGetDefaultMemPool(self, device: int) -> Reply:
        return OK, f"pool {device}"

    def cuMemPoolSetAttribute(self, pool: str, name: str, value: int) -> Reply:
        return (OK,)

    def cuMemPoolTrimTo(self, pool: str, keep: int) -> Reply:
        return (OK,)

    def cuMemGetInfo(self) -> Reply:
        return OK, self.capacity - self.used, self.capacity

    @property
    def used(self) -> int:
        """Bytes that are allocated."""
        return sum(block.nbytes for block in self.blocks.values())

    def cuMemAllocAsync(self, nbytes: int, stream: Stream) -> Reply:
        if self.used + nbytes > self.capacity:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        block = np.full(nbytes + 64, 0xFF, np.uint8)
        pointer = -(-block.ctypes.data // 64) * 64
        self.blocks[pointer] = block
        return OK, pointer

    def cuMemFreeAsync(self, pointer: int, stream: Stream) -> Reply:
        def work() -> None:
            self.blocks.pop(pointer)[:] = 0xFF

        stream.add(work)
        return (OK,)

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> Reply:
        return self.cuMemAllocAsync(nbytes, Stream())

    def cuMemFreeHost(self, pointer: int) -> Reply:
        del self.blocks[pointer]
        return (OK,)

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: Stream) -> Reply:
        if self._holds(source):  # pinned memory is read when the copy is made
            stream.add(lambda: self._copy(target, source, nbytes))
        else:
            staged = ctypes.string_at(source, nbytes)
            stream.add(lambda: self._copy(target, staged, nbytes))
        return (OK,)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: Stream) -> Reply:
        stream.add(lambda: self._copy(target, source, nbytes))
        return (OK,)

    cuMemcpyDtoDAsync = cuMemcpyDtoHAsync

    def cuMemcpyPeerAsync(
        self, target: int, there: Any, source: int, here: Any, nbytes: int, stream: Stream
    ) -> Reply:
        assert there != here
        stream.add(lambda: self._copy(target, source, nbytes))
        return (OK,)

    def cuDeviceCanAccessPeer(self, device: int, peer: int) -> Reply:
        return OK, int(device != peer)

    def cuMemPoolSetAccess(self, pool: str, access: list[Access], count: int) -> Reply:
        assert len(access) == count
        self.readers += [(pool, item.location.id) for item in access]
        return (OK,)

    def _copy(self, target: int, source: int | bytes, nbytes: int) -> None:
        if self.broken is None:
            ctypes.memmove(target, source, nbytes)

    # ------------------------------------------------------------------ order

    def cuStreamCreate(self, flags: int) -> Reply:
        self.streams.append(Stream())
        return OK, self.streams[-1]

    def CUstream(self, number: int) -> Stream:
        return next((s for s in self.streams if id(s) == number), Stream())

    def cuDeviceGetPCIBusId(self, length: int, device: int) -> Reply:
        return OK, f"0000:{device:02x}:00.0\0".encode()

    def cuProfilerStart(self) -> Reply:
        return (OK,)

    def cuProfilerStop(self) -> Reply:
        return (OK,)

    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> Reply:
        return self.cuStreamCreate(flags)

    def cuStreamSynchronize(self, stream: Stream) -> Reply:
        stream.drain()
        return (OK,)

    def cuStreamQuery(self, stream: Stream) -> Reply:
        return (CUresult.CUDA_ERROR_NOT_READY if stream.work else OK,)

    def cuEventCreate(self, flags: int) -> Reply:
        return OK, Event()

    def cuEventDestroy(self, event: Event) -> Reply:
        return (OK,)

    def cuEventRecord(self, event: Event, stream: Stream) -> Reply:
        mark = next(self._clock)
        event.ready, event.stream = False, stream

        def work() -> None:
            event.ready = True

        stream.add(work)
        return OK, mark

    def cuEventQuery(self, event: Event) -> Reply:
        return (OK if event.ready else CUresult.CUDA_ERROR_NOT_READY,)

    def cuEventSynchronize(self, event: Event) -> Reply:
        if not event.ready and event.stream is not None:
            event.stream.drain()
        return (OK,)

    def cuStreamWaitEvent(self, stream: Stream, event: Event, flags: int) -> Reply:
        first = event.stream
        if first is not None and first is not stream:
            stream.add(lambda: None if event.ready else first.drain())
        return (OK,)

    def cuEventElapsedTime(self, start: Event, end: Event) -> Reply:
        return OK, 1.5

    # ------------------------------------------------------------------ graphs

    def cuGraphCreate(self, flags: int) -> Reply:
        return OK, []

    def cuGraphAddKernelNode(
        self, graph: list[Node], before: list[Node], count: int, settings: Settings
    ) -> Reply:
        assert before == graph[-1:] and count == len(before), "launches are not in a row"
        graph.append(Node(self._launched(settings)))
        return OK, graph[-1]

    def cuGraphInstantiate(self, graph: list[Node], flags: int) -> Reply:
        return OK, Executable(graph)

    def cuGraphExecKernelNodeSetParams(
        self, executable: Executable, node: Node, settings: Settings
    ) -> Reply:
        executable.work[executable.nodes.index(node)] = self._launched(settings)
        return (OK,)

    def cuGraphDestroy(self, graph: list[Node]) -> Reply:
        return (OK,)

    def cuGraphExecDestroy(self, executable: Executable) -> Reply:
        return (OK,)

    def cuGraphLaunch(self, executable: Executable, stream: Stream) -> Reply:
        for work in executable.work:
            stream.add(work)
        return (OK,)

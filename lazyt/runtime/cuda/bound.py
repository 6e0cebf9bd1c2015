"""A GPU through cuda-python's bindings of the NVIDIA driver; see ``driver.Driver``.

Memory comes from the driver's stream-ordered pool, which keeps what is given back.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lazyt.errors import DeviceError, warn
from lazyt.ir.program import Grid
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.driver import (
    CudaError,
    DeviceLostError,
    ForeignStream,
    GraphLaunch,
    Image,
    Properties,
)

# CUDA graphs of kernel launches: built node by node, so that nodes can be given other buffers.
#
# A graph that was recorded from a stream would be tied to the addresses of that time. Here the
# launches of a plan are added as nodes, and a plan that runs on other memory changes the nodes that
# are concerned: about a microsecond each, where copies of inputs into fixed places would cost
# their bytes and outputs could not be elsewhere at all.


_POINTER = ctypes.sizeof(ctypes.c_void_p)


class Arguments:
    """A kernel's parameters, all pointers, in the form that the driver takes.

    Attributes:
        address: where the addresses of the parameters are; valid while the object lives.
    """

    __slots__ = ("_places", "_values", "address")

    def __init__(self, pointers: Sequence[int]) -> None:
        count = max(len(pointers), 1)
        self._values = (ctypes.c_void_p * count)(*pointers)
        start = ctypes.addressof(self._values)
        self._places = (ctypes.c_void_p * count)(*range(start, start + _POINTER * count, _POINTER))
        self.address = ctypes.addressof(self._places)

    def change(self, pointers: Sequence[int]) -> None:
        """Other pointers, as many as before."""
        for place, pointer in enumerate(pointers):
            self._values[place] = pointer


class LaunchGraph:
    """Launches that the driver makes as one.

    Args:
        lib: the bindings.
        call: calls a function of the driver by its name, and raises CudaError.
        launches: in their order; each waits for the one before.

    Attributes:
        executable: what can be launched.
    """

    def __init__(self, lib: Any, call: Callable[..., Any], launches: Sequence[GraphLaunch]) -> None:
        self._call = call
        self._nodes: list[Any] = []
        self._settings: list[Any] = []
        self._arguments: list[Arguments] = []
        self._graph = call("cuGraphCreate", 0)
        self.executable: Any = None
        try:
            for function, grid, pointers in launches:
                arguments = Arguments(pointers)
                settings = lib.CUDA_KERNEL_NODE_PARAMS()
                settings.func = function
                settings.gridDimX, settings.gridDimY, settings.gridDimZ = grid.blocks, 1, 1
                settings.blockDimX, settings.blockDimY, settings.blockDimZ = grid.threads, 1, 1
                settings.sharedMemBytes = grid.shared_bytes
                settings.kernelParams = arguments.address
                before = self._nodes[-1:]
                node = call("cuGraphAddKernelNode", self._graph, before, len(before), settings)
                self._nodes.append(node)
                self._settings.append(settings)
                self._arguments.append(arguments)
            self.executable = call("cuGraphInstantiate", self._graph, 0)
        except Exception:
            self.end()
            raise

    def change(self, number: int, pointers: Sequence[int]) -> None:
        """Give a launch other buffers, from the next run on."""
        self._arguments[number].change(pointers)
        self._call(
            "cuGraphExecKernelNodeSetParams",
            self.executable,
            self._nodes[number],
            self._settings[number],
        )

    def end(self) -> None:
        """Forget both forms of the graph: nodes are named by the first, so it lives as long."""
        if self.executable is not None:
            self._call("cuGraphExecDestroy", self.executable)
        self._call("cuGraphDestroy", self._graph)


#: Errors after which the driver refuses all work of this process on the device.
_LAST = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "HARDWARE_STACK_ERROR",
        "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC",
        "ECC_UNCORRECTABLE", "ASSERT", "CONTEXT_IS_DESTROYED", "DEVICE_UNAVAILABLE",
        "SYSTEM_NOT_READY", "DEINITIALIZED", "UNKNOWN",
    )
)  # fmt: skip
#: Errors of images that are newer than the driver.
_TOO_NEW = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "UNSUPPORTED_PTX_VERSION", "NO_BINARY_FOR_GPU", "INVALID_IMAGE", "INVALID_PTX",
        "INVALID_SOURCE", "JIT_COMPILER_NOT_FOUND",
    )
)  # fmt: skip
#: Errors for which a plan is launched kernel by kernel instead of as a graph.
_NO_GRAPH = frozenset({"CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NOT_SUPPORTED"})
_OUT_OF_MEMORY, _NOT_READY = "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NOT_READY"
_NO_TIMING, _NON_BLOCKING = 2, 1  # flags of events and streams


class _Queue:
    """A stream, with an identity of its own."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw


class BoundDriver:
    """A GPU; see ``driver.Driver``.

    Args:
        lib: the bindings.
        number: the GPU's.
    """

    helpers = "cuda"
    stages = True

    def __init__(self, lib: Any, number: int) -> None:
        self._lib = lib
        self._number = number
        self.place = f"cuda:{number}"
        self._readers: set[str] = set()  # devices that were tried, too
        self._process = os.getpid()
        self._device = self._call("cuDeviceGet", number)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self.properties = self._read_properties()
        self._target = nvrtc.target_of(self.properties.major, self.properties.minor)
        if self._target != self.properties.arch:
            warn(
                f"{self.place} ({self.properties.arch}) is newer than what NVRTC {nvrtc.version()} "
                f"knows: kernels are compiled for {self._target}, and translated by the driver. "
                "A newer nvidia-cuda-nvrtc compiles for the GPU itself."
            )
        self._main = self._do("cuStreamCreate", _NON_BLOCKING)
        self._pool = self._do("cuDeviceGetDefaultMemPool", self._device)
        keep = lib.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._do("cuMemPoolSetAttribute", self._pool, keep, lib.cuuint64_t((1 << 64) - 1))
        self._modules: list[Any] = []

    # ------------------------------------------------------------------ calls

    def _call(self, name: str, *arguments: Any) -> Any:
        """What a function of the driver gives. Raises CudaError."""
        status, *rest = getattr(self._lib, name)(*arguments)
        if status.name != "CUDA_SUCCESS":
            raise self._error(name, status)
        return rest[0] if len(rest) == 1 else rest

    def _do(self, name: str, *arguments: Any) -> Any:
        """``_call`` with the device as this thread's."""
        self._enter()
        return self._call(name, *arguments)

    def _enter(self) -> None:
        """Make the device this thread's. What was current is not remembered: other libraries of
        the process change it, too."""
        if _forked and os.getpid() != self._process:
            raise DeviceLostError(
                f"{self.place} cannot be used in a forked process; start it with 'spawn'"
            )
        self._call("cuCtxSetCurrent", self._context)

    def _error(self, function: str, status: Any) -> CudaError:
        name = status.name
        found, text = self._lib.cuGetErrorString(status)
        said = text.decode() if found.name == "CUDA_SUCCESS" else "an error without a text"
        kind = DeviceLostError if name in _LAST else CudaError
        return kind(f"CUDA error on {self.place}: {said} ({name} from {function})", name)

    def _stream(self, stream: Any) -> Any:
        return self._main if stream is None else stream.raw

    def _read_properties(self) -> Properties:
        kinds = self._lib.CUdevice_attribute

        def ask(name: str) -> int:
            kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(self._call("cuDeviceGetAttribute", kind, self._device))

        name = self._call("cuDeviceGetName", 256, self._device)
        return Properties(
            name=bytes(name).split(b"\0")[0].decode(),
            major=ask("COMPUTE_CAPABILITY_MAJOR"),
            minor=ask("COMPUTE_CAPABILITY_MINOR"),
            total_memory=int(self._call("cuDeviceTotalMem", self._device)),
            multi_processor_count=ask("MULTIPROCESSOR_COUNT"),
            max_threads_per_multi_processor=ask("MAX_THREADS_PER_MULTIPROCESSOR"),
            regs_per_multiprocessor=ask("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_memory_per_multiprocessor=ask("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            shared_memory_per_block=ask("MAX_SHARED_MEMORY_PER_BLOCK"),
            shared_memory_per_block_optin=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            warp_size=ask("WARP_SIZE"),
            L2_cache_size=ask("L2_CACHE_SIZE"),
        )

    # ------------------------------------------------------------------ programs

    def identity(self) -> str:
        """NVRTC and the architecture."""
        return f"nvrtc {nvrtc.version()} {self._target} {nvrtc.OPTIONS}"

    def compile(self, source: str, functions: Sequence[str]) -> Image:
        """A cubin, or PTX for a GPU that NVRTC does not know. Raises CompileError."""
        made = nvrtc.compile_cubin(source, self._target)
        facts = {
            name: {
                "registers": made.registers[name],
                "spilled": made.spilled.get(name, 0),
                "stack": made.stack.get(name, 0),
            }
            for name in functions
            if name in made.registers
        }
        return Image(made.image, facts)

    def load(self, image: bytes, functions: Mapping[str, int]) -> dict[str, Any]:
        """The functions of an image. Raises CudaError, also for functions whose threads need more
        local memory than the device has."""
        try:
            module = self._do("cuModuleLoadData", image)
        except CudaError as error:
            if error.code not in _TOO_NEW:
                raise
            raise CudaError(
                f"{error}: the driver may be older than NVRTC {nvrtc.version()}; update it, or "
                "install the NVRTC of the driver's CUDA version (`python -m lazyt doctor`)",
                error.code,
            ) from None
        self._modules.append(module)
        found = {
            name: self._call("cuModuleGetFunction", module, name.encode()) for name in functions
        }
        kinds = self._lib.CUfunction_attribute
        asked = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        for name, shared_bytes in functions.items():
            if shared_bytes > self.properties.shared_memory_per_block:
                self._call("cuFuncSetAttribute", found[name], asked, shared_bytes)
            local = kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
            self._check_local(name, int(self._call("cuFuncGetAttribute", local, found[name])))
        return found

    def _check_local(self, name: str, nbytes: int) -> None:
        """Raises CudaError where the driver would find no memory for what threads of a function
        hold beside registers: it takes that for all threads that can run at a time."""
        facts = self.properties
        total = nbytes * facts.multi_processor_count * facts.max_threads_per_multi_processor
        if total > facts.total_memory:
            raise CudaError(
                f"kernel {name} needs {nbytes} bytes of local memory for a thread, {total >> 20} "
                f"MiB for all that {self.place} runs at a time; it has {facts.total_memory >> 20}",
                _OUT_OF_MEMORY,
            )

    def launch(self, function: Any, grid: Grid, pointers: Sequence[int], stream: Any) -> None:
        """Run a function; its parameters are copied before this returns."""
        arguments = Arguments(pointers)
        self._do(
            "cuLaunchKernel", function, grid.blocks, 1, 1, grid.threads, 1, 1, grid.shared_bytes,
            self._stream(stream), arguments.address, 0,
        )  # fmt: skip

    # ------------------------------------------------------------------ memory

    def allocate(self, nbytes: int, stream: Any) -> int:
        """A block of the pool; 0 when there is no memory."""
        self._enter()
        status, pointer = self._lib.cuMemAllocAsync(nbytes, self._stream(stream))
        if status.name == _OUT_OF_MEMORY:
            return 0
        if status.name != "CUDA_SUCCESS":
            raise self._error("cuMemAllocAsync", status)
        return int(pointer)

    def release(self, pointer: int, stream: Any) -> None:
        """Back to the pool."""
        self._do("cuMemFreeAsync", pointer, self._stream(stream))

    def reaches(self, other: Any) -> bool:
        """Over NVLink or the bus."""
        if not isinstance(other, BoundDriver):
            return False
        return bool(self._do("cuDeviceCanAccessPeer", self._device, other._device))

    def bus(self) -> str:
        """Its PCI address."""
        found: bytes = self._do("cuDeviceGetPCIBusId", 16, self._device)
        return found.split(b"\0")[0].decode()

    def collect(self, on: bool) -> None:
        """Tells NVIDIA's tools."""
        self._do("cuProfilerStart" if on else "cuProfilerStop")

    def trim(self) -> None:
        """The pool gives back what is not used."""
        self._do("cuMemPoolTrimTo", self._pool, 0)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = self._do("cuMemGetInfo")
        return int(free), int(total)

    def pin(self, nbytes: int) -> int:
        """Page-locked memory that all GPUs can read."""
        portable = 1
        return int(self._do("cuMemHostAlloc", nbytes, portable))

    def unpin(self, pointer: int) -> None:
        """Page it again."""
        self._do("cuMemFreeHost", pointer)

    def copy_in(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """From memory that stays as it is until the stream has come this far."""
        self._do("cuMemcpyHtoDAsync", target, source, nbytes, self._stream(stream))

    def copy_out(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """To the host."""
        self._do("cuMemcpyDtoHAsync", target, source, nbytes, self._stream(stream))

    def copy_within(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Inside of the device."""
        self._do("cuMemcpyDtoDAsync", target, source, nbytes, self._stream(stream))

    def copy_across(self, target: int, source: int, nbytes: int, owner: Any, stream: Any) -> bool:
        """From GPU to GPU; where they cannot reach each other, the driver goes by the host."""
        if not isinstance(owner, BoundDriver):
            return False
        owner.open_to(self)
        self._do(
            "cuMemcpyPeerAsync", target, self._context, source, owner._context, nbytes,
            self._stream(stream),
        )  # fmt: skip
        return True

    def open_to(self, other: BoundDriver) -> None:
        """Let another GPU read this one's memory by itself, if there is a way."""
        if other.place in self._readers:
            return
        self._readers.add(other.place)
        if other.reaches(self):
            lib, access = self._lib, self._lib.CUmemAccessDesc()
            access.location.type = lib.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = other._number
            access.flags = lib.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            self._call("cuMemPoolSetAccess", self._pool, [access], 1)

    # ------------------------------------------------------------------ order

    def activate(self) -> None:
        """Its context is this thread's."""
        self._enter()

    def new_stream(self, priority: int) -> Any:
        """A stream beside the first one."""
        return _Queue(self._do("cuStreamCreateWithPriority", _NON_BLOCKING, priority))

    def foreign_stream(self, number: int) -> Any:
        """A stream that its maker ends."""
        return ForeignStream(self._lib.CUstream(number))

    def stream_number(self, stream: Any) -> int:
        """Its address."""
        return int(self._stream(stream))

    def end_stream(self, stream: Any) -> None:
        """The driver ends it once its work is done."""
        self._do("cuStreamDestroy", stream.raw)

    def wait_stream(self, stream: Any) -> None:
        """Wait for all its work."""
        self._do("cuStreamSynchronize", self._stream(stream))

    def stream_done(self, stream: Any) -> bool:
        """Whether its work is done."""
        return self._is_done("cuStreamQuery", self._stream(stream))

    def _is_done(self, name: str, item: Any) -> bool:
        self._enter()
        (status,) = getattr(self._lib, name)(item)
        if status.name not in ("CUDA_SUCCESS", _NOT_READY):
            raise self._error(name, status)
        return bool(status.name == "CUDA_SUCCESS")

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        self._do("cuCtxSynchronize")

    def new_event(self, timing: bool) -> Any:
        """A mark."""
        return self._do("cuEventCreate", 0 if timing else _NO_TIMING)

    def end_event(self, event: Any) -> None:
        """The driver ends it once it is passed."""
        self._do("cuEventDestroy", event)

    def record_event(self, event: Any, stream: Any) -> None:
        """Behind what is in the stream."""
        self._do("cuEventRecord", event, self._stream(stream))

    def event_done(self, event: Any) -> bool:
        """Whether it is passed."""
        return self._is_done("cuEventQuery", event)

    def wait_event(self, event: Any) -> None:
        """Until it is passed."""
        self._do("cuEventSynchronize", event)

    def stream_waits(self, stream: Any, event: Any) -> None:
        """On the device, not here."""
        self._do("cuStreamWaitEvent", self._stream(stream), event, 0)

    def milliseconds(self, start: Any, end: Any) -> float:
        """Between two marks."""
        return float(self._do("cuEventElapsedTime", start, end))

    # ------------------------------------------------------------------ graphs

    def new_graph(self, launches: Sequence[GraphLaunch]) -> Any:
        """A graph of kernel nodes, each behind the one before; None where it finds no room."""
        self._enter()
        try:
            return LaunchGraph(self._lib, self._call, launches)
        except CudaError as error:
            if error.code in _NO_GRAPH:
                return None
            raise

    def change_graph(self, graph: Any, number: int, pointers: Sequence[int]) -> None:
        """Runs that were begun keep the buffers they have."""
        self._enter()
        graph.change(number, pointers)

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """All at once."""
        self._do("cuGraphLaunch", graph.executable, self._stream(stream))

    def end_graph(self, graph: Any) -> None:
        """The driver ends it once its runs are done."""
        self._enter()
        graph.end()


#: Whether this process was forked from one that had loaded this module.
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


# GPUs through the NVIDIA driver, by cuda-python's bindings: which there are, and what is missing.
#
# Nothing is imported and no driver is loaded before somebody asks for a GPU.


_INSTALL_PACKAGES = f"install them with `{nvrtc.INSTALL}`"


@functools.cache
def library() -> Any:
    """The bindings, with the driver started. Raises DeviceError, saying what is missing."""
    try:
        from cuda.bindings import driver
    except (ImportError, OSError) as error:
        raise DeviceError(
            f"the packages cuda-python and nvidia-cuda-nvrtc are missing ({error}); "
            f"{_INSTALL_PACKAGES}"
        ) from error
    return started(driver)


def started(driver: Any) -> Any:
    """The bindings ``driver`` after ``cuInit``. Raises DeviceError."""
    try:
        (status,) = driver.cuInit(0)
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(
            "no NVIDIA driver was found (libcuda.so.1 cannot be loaded); install NVIDIA's driver, "
            "or use the device 'cuda:emu', which needs no GPU"
        ) from error
    name = status.name
    if name == "CUDA_ERROR_NO_DEVICE":
        raise DeviceError(
            "the NVIDIA driver finds no GPU; see what `nvidia-smi` and CUDA_VISIBLE_DEVICES say"
        )
    if name != "CUDA_SUCCESS":
        raise DeviceError(
            f"the NVIDIA driver cannot be started ({name}); see what `nvidia-smi` says, and whether"
            " the driver is as new as the CUDA packages"
        )
    return driver


def device_count() -> int:
    """GPUs that the driver has. Raises DeviceError, saying what is missing."""
    lib = library()
    status, count = lib.cuDeviceGetCount()
    if status.name != "CUDA_SUCCESS":
        raise DeviceError(f"the NVIDIA driver does not count its GPUs: {status.name}")
    return int(count)


def driver_of(number: int) -> BoundDriver:
    """The GPU of a number. Raises DeviceError."""
    count = device_count()
    if not 0 <= number < count:
        raise DeviceError(f"there are {count} GPUs; the first one is cuda:0")
    if not nvrtc.available():
        raise DeviceError(f"the package nvidia-cuda-nvrtc is missing; {_INSTALL_PACKAGES}")
    return BoundDriver(library(), number)

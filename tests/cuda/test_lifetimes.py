"""Lifetimes on a device that works by itself: blocks, pinned memory, contexts, locks, errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import DeviceError, InternalError
from lazyt.ir.program import Grid, KernelSource, Launch, Program, Slot
from lazyt.runtime.cuda import device as cuda_device
from lazyt.runtime.cuda import execute, nvrtc
from lazyt.runtime.cuda.bound import BoundDriver
from lazyt.runtime.cuda.device import CudaDevice
from lazyt.runtime.cuda.driver import CudaError, DeviceLostError
from lazyt.runtime.cuda.emulated import EmulatedDriver
from lazyt.runtime.cuda.memory import DeviceBuffer
from tests.children import python_path
from tests.cuda.mock_driver import CUresult, MockDriver
from tests.cuda.mock_objects import Stream

ROOT = Path(__file__).resolve().parents[2]


def blocks_of(device: CudaDevice) -> list[int]:
    """Addresses of all blocks that the pool believes to have."""
    return [address for address, *_ in device.pool.listed()]


def test_blocks_that_come_back_while_the_pool_is_emptied() -> None:
    """Garbage that is collected meanwhile gives blocks of sizes old and new."""
    device = CudaDevice(EmulatedDriver("cuda:emu", 1 << 30))
    held: list[DeviceBuffer] = [device.allocate(512 << n) for n in range(8) for _ in range(2)]
    del held[:6]
    release, driver = device.driver.release, device.driver

    def releases(pointer: int, stream: Any) -> None:
        release(pointer, stream)
        if held:
            held.pop()

    driver.release = releases  # type: ignore[method-assign]
    device.pool.trim()
    driver.release = release  # type: ignore[method-assign]
    assert len(held) == 4
    assert isinstance(driver, EmulatedDriver) and {*blocks_of(device)} == {*driver._blocks}
    assert device.pool.reserved.now == driver._used
    again = [device.allocate(512 << n) for n in range(8)]
    assert len({buffer.ptr for buffer in (*held, *again)}) == len(held) + len(again)


@pytest.mark.parametrize("kind", [CudaError, KeyboardInterrupt])
def test_a_release_that_fails_frees_nothing_twice(kind: type[BaseException]) -> None:
    device = CudaDevice(EmulatedDriver("cuda:emu", 1 << 30))
    made = [device.allocate(512 << n) for n in range(4)]
    made.clear()
    release = device.driver.release
    freed: list[int] = []

    def fails(pointer: int, stream: Any) -> None:
        if len(freed) == 2:
            if kind is KeyboardInterrupt:
                release(pointer, stream)
            raise kind("refused")
        release(pointer, stream)
        freed.append(pointer)

    device.driver.release = fails  # type: ignore[method-assign]
    with pytest.raises(kind):
        device.pool.trim()
    device.driver.release = release  # type: ignore[method-assign]
    assert isinstance(device.driver, EmulatedDriver)
    assert {*blocks_of(device)} <= {*device.driver._blocks}
    device.pool.trim()
    assert not device.pool.free


def test_pinned_memory_outlives_its_copy_whatever_interrupts(
    mock: MockDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = cuda_device.device_at("cuda:0")
    source = lt.arange(1000.0).pin_memory().realize()
    record = device.driver.record_event

    def interrupted(event: Any, stream: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(device.driver, "record_event", interrupted)
    before = mock.calls.count("cuStreamSynchronize")
    with pytest.raises(KeyboardInterrupt):
        device.upload(source._storage.node.data)
    assert mock.calls.count("cuStreamSynchronize") == before + 1 and not device._held
    monkeypatch.setattr(device.driver, "record_event", record)
    there = source.to("cuda", non_blocking=True)
    assert (there + 1).sum().item() == 500500.0 and len(device._held) == 1


def test_staged_bytes_outlive_an_interrupted_copy(
    mock: MockDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place in pinned memory that a copy reads later is not filled again before that."""
    device = cuda_device.device_at("cuda:0")
    first, second = (np.full(1000, value, np.float32) for value in (1.0, 2.0))
    targets = [device.allocate(4000) for _ in range(2)]
    copy_in = device.driver.copy_in

    def interrupted(*arguments: Any) -> None:
        copy_in(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(device.driver, "copy_in", interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.copy_in(targets[0], first.ctypes.data, 4000)
    monkeypatch.setattr(device.driver, "copy_in", copy_in)
    device.copy_in(targets[1], second.ctypes.data, 4000)
    found = [target.as_numpy(lt.float32, (1000,)) for target in targets]
    assert (found[0] == 1).all() and (found[1] == 2).all()


def test_the_context_is_set_whatever_others_set(mock: MockDriver) -> None:
    """Another library of the process may have made another GPU's context current."""
    x = lt.arange(6.0, device="cuda:0").realize()
    mock.current = ("context", 1)
    assert (x + 1).sum().item() == 21.0 and mock.current == ("context", 0)
    mock.current = None
    lt.cuda.Event().record()
    assert mock.current == ("context", 0)


def test_streams_choose_their_gpu(mock: MockDriver) -> None:
    """As in PyTorch: in a block of a stream its GPU is the current one; blocks nest."""
    side = lt.cuda.Stream("cuda:1")
    block = lt.cuda.stream(side)
    with block:
        assert lt.cuda.current_device() == 1 and lt.ones(2, device="cuda").device.index == 1
        with block:
            assert lt.cuda.current_stream() == side
        assert lt.cuda.current_stream() == side and lt.cuda.current_device() == 1
    assert lt.cuda.current_device() == 0
    assert lt.cuda.current_stream("cuda:1") == lt.cuda.default_stream("cuda:1")
    lt.cuda.set_stream(side)
    assert lt.cuda.current_device() == 1
    lt.cuda.set_stream(lt.cuda.default_stream("cuda:1"))
    lt.cuda.set_device(0)


def test_memory_by_address_goes_back_to_its_stream_once(mock: MockDriver) -> None:
    side, x = lt.cuda.Stream(), lt.ones(5, device="cuda").realize()
    address = lt.cuda.caching_allocator_alloc(1000, stream=side)
    lt.cuda.caching_allocator_delete(address)
    assert lt.cuda.caching_allocator_alloc(1000) != address  # the stream may still use it
    for wrong in (address, x.data_ptr()):
        with pytest.raises(ValueError, match="no memory of caching_allocator_alloc"):
            lt.cuda.caching_allocator_delete(wrong)
    with pytest.raises(ValueError, match="a stream of cuda:1"):
        lt.cuda.caching_allocator_alloc(10, "cuda:1", side)


def test_errors_that_come_later_name_all_that_may_have_caused_them(mock: MockDriver) -> None:
    x = lt.linspace(-1, 1, 60).reshape(6, 10).cuda().realize()
    mock.fault_in = "lz_"
    first = (x.cumsum(0) * 2).realize()
    with pytest.raises(DeviceLostError) as caught:
        for stream in mock.streams:
            stream.drain()
        (x.softmax(1) + 1).realize()
    text = str(caught.value)
    assert "ILLEGAL_ADDRESS" in text and "It happened in one of: " in text
    assert text.count("test_lifetimes.py") >= 2, text
    with pytest.raises(DeviceError, match=r"cannot be used any more.*It happened in one of"):
        first.sum().item()
    with pytest.raises(DeviceError, match="cannot be used any more"):
        lt.empty(1 << 20, device="cuda").realize()
    assert lt.ones(3).sum().item() == 3.0


FORK = """
import os, threading, lazyt as lt
from lazyt.runtime.cpython import forks
from lazyt.runtime.cuda import device as cuda_device, execute as cuda_execute
forks._PATIENCE = 1.0
x = lt.ones(5, device="cuda:emu").realize()
(x + 1).sum().item()
device, taken, done = cuda_device.device_at("cuda:emu"), threading.Event(), threading.Event()

def hold():
    with device.pool.lock, cuda_execute._lock, device.driver._lock, device._held_lock:
        locks = [e._lock for e in cuda_execute._loaded.values()]
        for lock in locks:
            lock.acquire()
        taken.set()
        done.wait()
        for lock in locks:
            lock.release()

thread = threading.Thread(target=hold)
thread.start()
taken.wait()
child = os.fork()
if child == 0:
    import signal
    signal.alarm(60)
    y = lt.arange(7.0, device="cuda:emu")
    ok = (x + 1).sum().item() == 10.0 and (y * 2).sum().item() == 42.0
    os._exit(0 if ok else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
thread.join()
print("child", code, "parent", (x + 1).sum().item())
"""


def test_forked_children_have_locks_of_their_own() -> None:
    """A thread that held a lock of the emulator's device is not there in the child."""
    environment = {**os.environ, "PYTHONPATH": python_path(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    assert done.stdout.strip() == "child 0 parent 10.0", done.stdout + done.stderr


def test_results_have_memory_of_their_own() -> None:
    """A result in the memory of another place is refused, and so is an input that is another which
    is donated."""
    device = CudaDevice(EmulatedDriver("cuda:emu", 1 << 30))
    slots = (
        Slot("input", 0, 0, 64), Slot("input", 1, 0, 64), Slot("output", 0, 0, 64),
        Slot("output", 1, 0, 64),
    )  # fmt: skip
    a, b, c, d = (device.allocate(64) for _ in range(4))

    def run(inputs: tuple[int, ...], *buffers: DeviceBuffer) -> None:
        donated = tuple((number, -1) for number in inputs)
        program = Program("cuda", (), (), "", slots, (), 0, donated=donated)
        made = execute.CudaExecutable(program, device, {}, {})
        for _ in range(2):
            made.run(buffers[:2], buffers[2:])

    run((), a, b, c, d)
    run((), a, a, c, d)
    for inputs, buffers in [
        ((), (a, b, a, d)), ((), (a, b, b, d)), ((), (a, b, c, c)), ((), (a, b, c, a)),
        ((0,), (a, a, c, d)), ((1,), (a, a, c, d)), ((), (b, b, c, b)),
    ]:  # fmt: skip
        with pytest.raises(InternalError, match="have the same memory"):
            run(inputs, *buffers)


def test_a_gpu_that_nvrtc_does_not_know(mock: MockDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    compiled = mock.compile

    def compile_cubin(source: str, arch: str) -> nvrtc.Cubin:
        asked.append(arch)
        return nvrtc.Cubin(compiled(source).image, {}, {}, {}, "")

    monkeypatch.setattr(nvrtc, "target_of", lambda major, minor: "compute_89")
    monkeypatch.setattr(nvrtc, "compile_cubin", compile_cubin)
    with pytest.warns(UserWarning, match=r"cuda:0 \(sm_90a\) is newer.*compute_89.*by the driver"):
        x = lt.arange(6.0, device="cuda")
    with lt.config.override(disk_cache=False):
        assert (x + 1).sum().item() == 21.0 and {*asked} == {"compute_89"}
    assert "compute_89" in cuda_device.device_at("cuda:0").driver.identity()
    assert "registers" not in str(lt.explain(x + 2))


def test_targets_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nvrtc:
        class nvrtcResult:
            NVRTC_SUCCESS = 0

        @staticmethod
        def nvrtcGetSupportedArchs() -> tuple[int, list[int]]:
            return 0, [75, 80, 90, 120, 121]

        @staticmethod
        def nvrtcVersion() -> tuple[int, int, int]:
            return 0, 13, 0

    monkeypatch.setattr(nvrtc, "_bindings", lambda: Nvrtc)
    wanted = {(8, 0): "sm_80", (9, 0): "sm_90a", (8, 9): "compute_80", (13, 0): "compute_121"}
    assert {capability: nvrtc.target_of(*capability) for capability in wanted} == wanted
    with pytest.raises(DeviceError, match=r"7\.5 and newer, not for 7\.0.*nvidia-cuda-nvrtc-cu12"):
        nvrtc.target_of(7, 0)


def test_images_that_are_newer_than_the_driver(mock: MockDriver) -> None:
    x = lt.arange(6.0, device="cuda").realize()
    mock.refuse("cuModuleLoadData", CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    with pytest.raises(CudaError, match="driver may be older than NVRTC mock; update it"):
        (x * 3 + 1).realize()
    assert (x * 3 + 1).sum().item() == 51.0


def test_local_memory_that_the_device_does_not_have(mock: MockDriver) -> None:
    x = lt.arange(6.0, device="cuda").realize()
    driver = cuda_device.device_at("cuda:0").driver
    assert isinstance(driver, BoundDriver)
    mock.local_bytes = 16 << 10  # times 16 x 2048 threads
    with pytest.raises(CudaError, match=r"lz_\w+ needs 16384 bytes of local memory .* 512 MiB"):
        (x * 5 + 1).realize()
    mock.local_bytes = 1 << 10
    assert (x * 5 + 1).sum().item() == 81.0


def test_streams_of_others_may_end(mock: MockDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once no thread's work goes there, nothing asks the driver about the stream any more."""
    theirs = Stream()
    mock.streams.append(theirs)
    ours = lt.cuda.ExternalStream(id(theirs))
    x = lt.arange(3000.0, device="cuda").realize()
    with lt.cuda.stream(ours):
        assert lt.cuda.current_stream() == lt.cuda.ExternalStream(id(theirs)) == ours
        y = (x * 2).realize()
        address = (x + 1).realize().data_ptr()  # freed at once, and free for this stream
    mock.streams[0].drain()  # the first stream waits for theirs
    assert not theirs.work
    ended: list[str] = []
    monkeypatch.setattr(theirs, "add", lambda work: ended.append("added to"))
    monkeypatch.setattr(theirs, "drain", lambda: ended.append("waited for"))
    assert (x + y).sum().item() == 3 * 2999 * 1500.0
    assert lt.zeros(3000, device="cuda").realize().data_ptr() in (address, y.data_ptr() + 1)
    assert not ended
    del x, y
    lt.cuda.empty_cache()  # waits for everything
    assert "added to" not in ended


def test_memory_recorded_for_a_stream_of_others(mock: MockDriver) -> None:
    theirs = Stream()
    mock.streams.append(theirs)
    x = lt.ones(1000, device="cuda").realize()
    x.record_stream(lt.cuda.ExternalStream(id(theirs)))
    address = x.data_ptr()
    del x
    assert lt.ones(1000, device="cuda").realize().data_ptr() != address


@pytest.mark.parametrize("donated", [False, True])
def test_plans_that_write_over_inputs_are_launched_whole(donated: bool) -> None:
    """Ctrl-C waits until all launches are made: else some inputs would be new and some old."""
    device = CudaDevice(EmulatedDriver("cuda:emu", 1 << 30))
    launched: list[object] = []

    def launch(function: object, *_: Any) -> None:
        launched.append(function)
        if function == "f0":
            signal.raise_signal(signal.SIGINT)

    device.driver.launch = launch  # type: ignore[method-assign,assignment]
    names = [f"f{number}" for number in range(3)]
    kernels = tuple(
        KernelSource(name, "", (), 1, grids=(Grid(name, 1, 32, 0, False),)) for name in names
    )
    launches = tuple(Launch(name, (0,)) for name in names)
    pairs = ((0, -1),) if donated else ()
    slots = (Slot("input", 0, 0, 64),)
    program = Program("cuda", (), kernels, "", slots, launches, 0, donated=pairs)
    made = execute.CudaExecutable(program, device, {name: name for name in names}, {})
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        made.run([device.allocate(64)], [])
    assert launched == (names if donated else names[:1])
    assert signal.getsignal(signal.SIGINT) is before

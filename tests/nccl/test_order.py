"""How NCCL's stream and the device's others wait for each other, on a device that is slow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyt.errors import DistributedError
from lazyt.runtime.cuda.device import CudaDevice
from lazyt.runtime.cuda.emulated import EmulatedDriver
from lazyt.runtime.memory import Buffer
from lazyt.runtime.ranks import nccl
from lazyt.runtime.ranks.device_engine import DeviceTransfer, NcclEngine, Subject, Traffic
from lazyt.runtime.ranks.engine import Alone
from lazyt.runtime.ranks.groups import Collective, Group
from tests.nccl.mock import calls, variables


class SlowDriver(EmulatedDriver):
    """Marks are passed when the test says so, and what is put into streams is written down."""

    def __init__(self) -> None:
        super().__init__("cuda:emu")
        self.passed = False
        self.log: list[tuple[str, Any, Any]] = []
        self.active = 0

    def event_done(self, event: Any) -> bool:
        return self.passed

    def record_event(self, event: Any, stream: Any) -> None:
        super().record_event(event, stream)
        self.log.append(("record", stream, event))

    def stream_waits(self, stream: Any, event: Any) -> None:
        self.log.append(("wait", stream, event))

    def activate(self) -> None:
        self.active += 1


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaDevice]:
    for name, value in variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    nccl.find.cache_clear()
    nccl.load.cache_clear()
    made = CudaDevice(SlowDriver())
    yield made
    made.driver.passed = True  # type: ignore[attr-defined]
    nccl.find.cache_clear()
    nccl.load.cache_clear()


def group_of(patience: float = 60.0) -> Group:
    group = Group("one", [0], Alone(), None, patience)
    group.devices = NcclEngine(group)
    return group


def begin(group: Group, device: CudaDevice) -> tuple[DeviceTransfer, Any, Any]:
    assert group.devices is not None
    source, target = device.upload(of(b"abcdefgh")), device.allocate(8)
    subject = Subject("all_gather uint8[8]", "train.py:7", 3, 0)
    made = group.devices.start(Collective("all_gather"), source, 8, target, subject)
    return made, source, target


def of(data: bytes) -> Buffer:
    made = Buffer(len(data))
    made.copy_from(data)
    return made


def test_streams_wait_for_each_other(device: CudaDevice, tmp_path: Path) -> None:
    driver: Any = device.driver
    group = group_of()
    assert group.devices is not None
    group.devices.communicator(device)
    driver.log.clear()
    made, _, target = begin(group, device)
    stream = Traffic.of(device).stream
    # NCCL's stream waits for what the first stream (None) has done so far; then a mark.
    (first, where, ready), (second, waits, awaited), (third, marked, mark) = driver.log
    assert (first, where, second, waits) == ("record", None, "wait", stream)
    assert awaited is ready and (third, marked) == ("record", stream)
    assert f"stream={id(stream):#x}" in calls(tmp_path)[-1]
    assert driver.active
    assert made.test() and not made.is_done()  # nobody on the host waits
    driver.log.clear()
    made.join()
    assert driver.log == [("wait", None, mark)]
    assert target.to_host().as_numpy(_bytes(), (8,)).tobytes() == b"abcdefgh"
    driver.passed = True
    assert made.is_done()


def test_work_in_another_stream_comes_first(device: CudaDevice) -> None:
    driver: Any = device.driver
    group = group_of()
    assert group.devices is not None
    group.devices.communicator(device)
    device.stream = other = driver.new_stream(0)
    source = device.upload(of(b"abcd"))
    device.stream = None
    driver.log.clear()
    target = device.allocate(4)
    group.devices.start(Collective("all_gather"), source, 4, target, Subject())
    assert {where for what, where, _ in driver.log[:-1] if what == "record"} == {None, other}


def test_memory_is_held_until_the_device_has_come_there(device: CudaDevice) -> None:
    driver: Any = device.driver
    made, source, target = begin(group_of(), device)
    where = source.ptr, target.ptr
    del source, target
    assert all(pointer in device.pool.live for pointer in where)
    driver.passed = True
    end = time.monotonic() + 5
    while any(pointer in device.pool.live for pointer in where) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(pointer in device.pool.live for pointer in where)
    assert made.is_done()


def test_what_was_waited_for_is_free(device: CudaDevice) -> None:
    """Its memory goes back to the stream that waits, long before the device has come there."""
    made, source, target = begin(group_of(), device)
    made.join()
    where = source.ptr
    del source
    assert where not in device.pool.live and target.ptr in device.pool.live
    assert device.upload(of(b"12345678")).ptr == where


def test_what_takes_too_long_is_given_up(device: CudaDevice, tmp_path: Path) -> None:
    group = group_of(patience=0.2)
    made, _, target = begin(group, device)
    end = time.monotonic() + 5
    while not device.lost and time.monotonic() < end:
        time.sleep(0.01)
    with pytest.raises(DistributedError, match=r"rank 0: all_gather uint8\[8\] at train.py:7"):
        made.test()
    with pytest.raises(DistributedError, match=r"has taken 0\.2 s, longer than"):
        target.to_host()  # nobody gets to see what did not come
    with pytest.raises(DistributedError):
        device.synchronize()
    assert "ncclCommAbort rank=0" in calls(tmp_path)
    assert group.devices is not None
    group.devices.close()  # once more does no harm
    assert sum(c.startswith("ncclCommAbort") for c in calls(tmp_path)) == 1


def test_ends_when_the_group_does(device: CudaDevice, tmp_path: Path) -> None:
    group = group_of()
    begin(group, device)
    group.close_devices()
    names = [c.partition(" ")[0] for c in calls(tmp_path)]
    assert names[-2:] == ["ncclCommFinalize", "ncclCommDestroy"]


def _bytes() -> Any:
    from lazyt.ir.dtypes import uint8

    return uint8

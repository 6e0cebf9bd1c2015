"""The path of a real GPU, from tensors to the driver's calls, on a library that stands for it."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import DeviceError, OutOfMemoryError
from lazyt.plan import planning
from lazyt.runtime.cuda import device as cuda_device
from lazyt.runtime.cuda import execute, nvrtc
from lazyt.runtime.cuda.device import CHUNKS
from tests.cuda.mock_driver import CUresult, MockDriver


def test_values_and_calls(mock: MockDriver) -> None:
    """A program gets the CPU's values; the second time nothing is loaded."""
    assert lt.cuda.is_available() and lt.cuda.device_count() == 2
    x = lt.linspace(-1, 1, 200).reshape(4, 50).realize()
    for turn in range(2):
        y = x.to("cuda")
        z = (y.softmax(-1) @ y.T).sum(0)
        assert z.device == lt.device("cuda:0")
        assert z.tolist() == (x.softmax(-1) @ x.T).sum(0).tolist()
        assert mock.calls.count("cuModuleLoadData") == 1, turn
    execute.forget()
    planning.clear()
    mock.compiled = 0
    again = (y.softmax(-1) @ y.T).sum(0)
    assert again.tolist() == z.tolist()
    assert mock.calls.count("cuModuleLoadData") == 2 and not mock.compiled  # from the disk


def test_repeated_plans_become_graphs(mock: MockDriver) -> None:
    """A plan of several launches on the same memory is recorded once and launched as one."""
    x = lt.linspace(-1, 1, 60).reshape(6, 10).cuda().realize()
    wanted = (x.cpu().cumsum(0) @ x.cpu().T).softmax(-1).sum(0).tolist()
    for _ in range(6):
        y = (x.cumsum(0) @ x.T).softmax(-1).sum(0)
        assert y.tolist() == wanted
        del y
    assert mock.calls.count("cuGraphInstantiate") == 1
    assert mock.calls.count("cuGraphLaunch") >= 3
    execute.forget()
    planning.clear()
    for device in cuda_device._devices.values():
        device.recent.clear()  # plans that an error would name
    gc.collect()
    assert mock.calls.count("cuGraphExecDestroy") == mock.calls.count("cuGraphDestroy") == 1


def test_graphs_follow_the_memory(mock: MockDriver) -> None:
    """Launches of a graph get the memory of each run; memory that comes again has its own."""
    x = lt.linspace(-1, 1, 60).reshape(6, 10).cuda().realize()
    wanted = (x.cpu().cumsum(0) @ x.cpu().T).softmax(-1).sum(0).tolist()
    kept = []
    for turn in range(5):
        given = (x if turn % 2 else x.cpu().cuda()).realize()
        kept.append((given, (given.cumsum(0) @ given.T).softmax(-1).sum(0).realize()))
    assert mock.calls.count("cuGraphInstantiate") == 1
    assert mock.calls.count("cuGraphLaunch") == 4
    assert mock.calls.count("cuGraphExecKernelNodeSetParams") >= 6  # of which no two read the same
    assert all(y.tolist() == wanted for _, y in kept)
    mock.refuse("cuGraphInstantiate", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    y = [(x.cumsum(1) @ x.T).softmax(-1).sum(1).tolist() for _ in range(3)]  # plain launches
    assert y[0] == y[1] == y[2] and mock.calls.count("cuGraphLaunch") == 4


def test_pageable_memory_is_free_at_once(mock: MockDriver) -> None:
    """What the host copies may be changed while the copy waits in its stream; any size is whole."""
    counts = (3, 1 << 17, (9 << 20) // 4 + 1, (5 << 20) // 4)
    arrays = [np.arange(count, dtype=np.float32) for count in counts]
    there = [lt.tensor(array).cuda().realize() for array in arrays]
    for array, x in zip(arrays, there, strict=True):
        wanted = array.copy()
        array[:] = -1
        assert x.cpu().numpy().tolist() == wanted.tolist()
    chunks = mock.calls.count("cuMemHostAlloc")
    assert chunks == 2 * CHUNKS
    cuda_device.forget()
    mock.refuse("cuMemHostAlloc", CUresult.CUDA_ERROR_OUT_OF_MEMORY, 3)
    x = lt.tensor(arrays[1]).cuda()
    assert (x + 1).sum().item() == 0


def test_loaders_pin_their_batches(mock: MockDriver) -> None:
    data = [{"x": lt.full((2,), float(n)), "name": str(n)} for n in range(4)]
    for batch in lt.utils.data.DataLoader(data, 2, pin_memory=True):
        assert batch["x"].is_pinned() and batch["x"].cuda(non_blocking=True).is_cuda
    assert batch["name"] == ["2", "3"] and batch["x"].tolist() == [[2, 2], [3, 3]]


def test_memory_that_a_stream_of_others_uses(mock: MockDriver) -> None:
    """``record_stream`` keeps memory until what the stream does now is done."""
    x = lt.ones(1000, device="cuda").realize()
    side = lt.cuda.Stream()
    x.record_stream(side)
    address = x.data_ptr()
    del x
    assert lt.ones(1000, device="cuda").realize().data_ptr() != address
    with lt.cuda.stream(side):
        assert lt.ones(1000, device="cuda").realize().data_ptr() == address


def test_memory_is_counted_kept_and_given_back(mock: MockDriver) -> None:
    x = lt.arange(1 << 18, device="cuda").realize()
    assert lt.cuda.memory_allocated() >= x.nbytes == 1 << 21
    assert lt.cuda.memory_reserved() >= lt.cuda.memory_allocated()
    highest = lt.cuda.max_memory_allocated()
    del x
    gc.collect()
    assert lt.cuda.memory_allocated() == 0 and lt.cuda.max_memory_allocated() == highest
    assert lt.cuda.memory_reserved() >= 1 << 21
    made = mock.calls.count("cuMemAllocAsync")
    lt.arange(1 << 18, device="cuda").realize()
    assert mock.calls.count("cuMemAllocAsync") == made  # the kept block
    lt.cuda.empty_cache()
    lt.cuda.synchronize()
    assert lt.cuda.memory_reserved() == 0 and mock.used == 0
    lt.cuda.reset_peak_memory_stats()
    assert lt.cuda.max_memory_allocated() == 0
    stats = lt.cuda.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 2


def test_nothing_leaks(mock: MockDriver) -> None:
    model = lt.nn.Linear(5, 3).cuda()
    optimizer = lt.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    held: list[int] = []
    for _ in range(5):
        optimizer.zero_grad()
        model(lt.ones(4, 5, device="cuda")).square().sum().backward()
        optimizer.step()
        lt.realize(*model.parameters())
        held.append(lt.cuda.memory_allocated())
    assert held[2] == held[3] == held[4]
    del model, optimizer
    lt.ones(1, requires_grad=True).sum().backward()  # the last one's tape is remembered
    gc.collect()
    assert lt.cuda.memory_allocated() == 0


def test_out_of_memory_empties_the_pool_first(mock: MockDriver) -> None:
    quarter = mock.capacity // 4
    kept = [lt.ones(quarter, dtype=lt.uint8, device="cuda").realize() for _ in range(2)]
    kept.pop()
    gc.collect()
    big = lt.zeros(5 * quarter // 2, dtype=lt.uint8, device="cuda").realize()  # 2.5 of the 3 free
    assert big.sum().item() == 0
    assert lt.cuda.memory_stats()["num_alloc_retries"] == 1
    with pytest.raises(OutOfMemoryError) as caught:
        lt.ones(2 * quarter, dtype=lt.uint8, device="cuda").realize()
    text = str(caught.value)
    assert "Tried to allocate 128.00 MiB" in text and "total capacity of 256.00 MiB" in text
    assert "is free" in text and "held by tensors" in text and "cuda:0" in text
    assert isinstance(caught.value, lt.cuda.OutOfMemoryError)
    assert lt.cuda.memory_stats()["num_ooms"] == 1
    del big
    gc.collect()
    assert lt.ones(2 * quarter, dtype=lt.uint8, device="cuda").sum().item() == 2 * quarter
    assert kept[0][0].item() == 1


def test_refused_launch_names_the_kernel_and_its_line(mock: MockDriver) -> None:
    """The device stays usable."""
    x = lt.arange(5.0, device="cuda").realize()
    mock.refuse("cuLaunchKernel", CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
    y = x * 3
    with pytest.raises(DeviceError, match=r"LAUNCH_OUT_OF_RESOURCES.*kernel lz_map.*test_driver"):
        y.realize()
    assert (x + 1).tolist() == [1, 2, 3, 4, 5]


def test_a_lost_device_spares_the_others(mock: MockDriver) -> None:
    x = lt.arange(4.0, device="cuda:0").realize()
    other, host = lt.ones(3), lt.arange(3.0)
    mock.fault_in = "lz_row"
    y = x.cumsum(0).softmax(0).sum()
    with pytest.raises(DeviceError, match=r"ILLEGAL_ADDRESS") as caught:
        y.item()
    assert "lz_row" in str(caught.value) and "test_driver.py" in str(caught.value)
    with pytest.raises(DeviceError, match=r"cuda:0 cannot be used any more.*ILLEGAL_ADDRESS"):
        (x + 1).tolist()
    with pytest.raises(DeviceError, match="cannot be used any more"):
        lt.ones(2, device="cuda:0").tolist()
    assert (host + other).tolist() == [1, 2, 3]
    mock.broken, mock.fault_in = None, ""
    assert lt.ones(2, device="cuda:1").tolist() == [1, 1]


def test_streams_wait_for_what_they_use(mock: MockDriver) -> None:
    """Work waits in the mock's streams until somebody waits: a missing order gives NaN."""
    x = lt.arange(2000.0).pin_memory()
    assert x.is_pinned() and not lt.ones(2).is_pinned()
    side = lt.cuda.Stream()
    start, end = lt.cuda.Event(enable_timing=True), lt.cuda.Event(enable_timing=True)
    with lt.cuda.stream(side):
        assert lt.cuda.current_stream() == side
        start.record()
        y = x.to("cuda", non_blocking=True) * 2
        end.record()
    assert lt.cuda.current_stream() == lt.cuda.default_stream()
    assert not side.query() and not end.query()
    z = y + 1  # on the first stream, without an order by the program
    assert z[-1].item() == 3999
    end.synchronize()
    assert end.query() and start.elapsed_time(end) == 1.5
    side.synchronize()
    assert side.query()


def test_several_devices(mock: MockDriver) -> None:
    a = lt.arange(6.0, device="cuda:0").reshape(2, 3)
    b = a.to("cuda:1")
    with pytest.raises(DeviceError, match="found at least two devices, cuda:0 and cuda:1"):
        a + b
    staged = mock.calls.count("cuMemcpyDtoHAsync")
    b = (a * 1).to("cuda:1").realize()
    assert mock.calls.count("cuMemcpyDtoHAsync") == staged and mock.readers == [("pool 0", 1)]
    assert b.device.index == 1 and (b * 2).cpu().tolist() == [[0, 2, 4], [6, 8, 10]]
    with lt.cuda.device(1):
        assert lt.cuda.current_device() == 1 and lt.ones(1, device="cuda").get_device() == 1
    lt.cuda.set_device(1)
    try:
        assert lt.ones(1).cuda().device == lt.device("cuda:1")
    finally:
        lt.cuda.set_device(0)
    with pytest.raises(DeviceError, match="there are 2 GPUs"):
        lt.ones(1, device="cuda:2")
    assert lt.cuda.get_device_capability(1) == (9, 0)
    assert lt.cuda.get_device_properties(0).name == lt.cuda.get_device_name() == "Mock GPU"
    assert lt.cuda.mem_get_info(0)[1] == mock.capacity


def test_history_and_snapshot(mock: MockDriver) -> None:
    lt.cuda.memory._record_memory_history()
    x = lt.ones(1000, device="cuda").realize()
    found = lt.cuda.memory._snapshot()
    assert sum(s["allocated_size"] for s in found["segments"]) >= x.nbytes
    assert {"segment_alloc", "alloc"} <= {entry["action"] for entry in found["device_traces"][0]}
    assert "Allocated memory" in lt.cuda.memory_summary()
    lt.cuda.memory._record_memory_history(enabled=None)
    assert cuda_device.device_at("cuda:0").pool.history is None


def test_reports_and_profiles(mock: MockDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers, spills and occupancy of kernels; times of launches, which then are waited for."""
    x = lt.linspace(0, 1, 300, device="cuda").realize()
    text = str(lt.explain((x * 2).softmax(0)))
    assert "40 registers, 0 B spilled, occupancy 75%" in text  # 65536 / (40 * 256) is 6.4 of 8
    with lt.profiler.profile() as profile:
        (x * 2).softmax(0).realize()
    rows = {row.key: row for row in profile.key_averages()}
    assert "lazyt::plan of 1 kernels" in rows and len(rows) == 3, list(rows)
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    mock.fault_in = "lz_row"
    with pytest.raises(DeviceError, match=r"ILLEGAL_ADDRESS.*kernel lz_row.*test_driver.py"):
        (x * 3).softmax(0).realize()


def test_the_mock_takes_what_the_library_takes() -> None:
    """Functions of the real bindings exist and have as many parameters, by their documentation."""
    driver = pytest.importorskip("cuda.bindings.driver")
    checked = 0
    for name, function in vars(MockDriver).items():
        if not re.fullmatch(r"cu[A-Z]\w+", name):
            continue
        head = (getattr(driver, name).__doc__ or "").splitlines()[0]
        listed = re.sub(r"\[[^]]*\]", "", head[head.index("(") + 1 : head.rindex(")")])
        count = len([part for part in listed.split(",") if part.strip()])
        if name != "cuLaunchKernel":  # the mock takes the rest as they are
            assert count == function.__code__.co_argcount - 1, (name, head)
        else:
            assert count == 11, head
        checked += 1
    assert checked > 30
    for kind, value in {
        "CUmemPool_attribute": "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD",
        "CUdevice_attribute": "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE",
        "CUfunction_attribute": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
        "CUmemLocationType": "CU_MEM_LOCATION_TYPE_DEVICE",
        "CUmemAccess_flags": "CU_MEM_ACCESS_FLAGS_PROT_READWRITE",
    }.items():
        assert hasattr(getattr(driver, kind), value)
    assert all(hasattr(driver.CUresult, code.name) for code in CUresult)


def test_machine_code_on_request(
    mock: MockDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a disassembler the dump holds what it prints; without one, how to get it."""
    for number, tool in enumerate(("", "nvdisasm")):
        (tmp_path / "bin").mkdir(exist_ok=True)
        if tool:
            program = tmp_path / "bin" / tool
            program.write_text("#!/bin/sh\necho FFMA of $(wc -c < $1)\n", encoding="utf-8")
            program.chmod(0o755)
        monkeypatch.setattr(nvrtc, "_TOOLS", ((str(tmp_path / "bin" / "nvdisasm"), ()),))
        folder = tmp_path / f"dump{number}"
        with lt.config.override(dump=str(folder), disk_cache=False):
            (lt.ones(7 + number, device="cuda") * 3).cumsum(0).realize()
        (text,) = [path.read_text(encoding="utf-8") for path in folder.glob("*.sass")]
        assert ("FFMA of" in text) is bool(tool) and ("nvdisasm" in text) is not bool(tool)


def test_sums_and_parts_over_devices_are_whole(mock: MockDriver) -> None:
    """``cuda.comm`` refuses what would lose or repeat elements."""
    comm, x = lt.cuda.comm, lt.arange(6.0)
    assert comm.reduce_add([x.cuda(0), x.cuda(1)], 1).tolist() == (2 * x).tolist()
    with pytest.raises(ValueError, match="one shape"):
        comm.reduce_add([x.cuda(0), x[:1].cuda(1)])
    parts = comm.scatter(x, [0, 1], chunk_sizes=[2, 4])
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3, 4, 5]]
    with pytest.raises(ValueError, match="3 chunk sizes for 2 devices"):
        comm.scatter(x, [0, 1], chunk_sizes=[2, 2, 2])

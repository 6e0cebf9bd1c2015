"""Profiles: rows and their layout, schedules, trace files, memory timelines, the roofline."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import lazyt
import lazyt.errors
from lazyt.autograd.profiler import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    nest,
    record_function,
)
from lazyt.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from lazyt.runtime.cpu.roofline import Roofline, measure


def work() -> None:
    a = lazyt.rand(48, 32)
    with record_function("product"):
        (a @ a.T).softmax(1).realize()
    with record_function("sum"):
        a.exp().sum(0).realize()


@pytest.fixture(scope="module")
def prof() -> profile:
    work()
    with profile(profile_memory=True, with_flops=True, with_stack=True, record_shapes=True) as made:
        work()
    return made


def test_rows_have_pytorchs_columns(prof: profile) -> None:
    rows = prof.key_averages()
    lines = rows.table(sort_by="self_cpu_time_total", row_limit=3).splitlines()
    titles = re.split(r" {2,}", lines[1].strip())
    assert titles[:9] == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "CPU Mem",
        "Self CPU Mem", "# of Calls",
    ]  # fmt: skip
    assert titles[9] == "Source Location" and titles[10].startswith("Total ")
    assert titles[11:] == ["Bytes moved", "Roofline"]
    assert lines[0] == lines[2] == lines[6] and set(lines[0]) == {"-", " "}
    assert len(lines) in (8, 9) and lines[7].startswith("Self CPU time total: ")
    times = [row.self_cpu_time_total for row in rows if row.key != "compile"]
    assert sum(times) == pytest.approx(rows.self_cpu_time_total)
    shares = [float(line.split("%")[0].split()[-1]) for line in lines[3:6]]
    assert shares == sorted(shares, reverse=True)
    assert "ms" not in rows.table(time_unit="us").splitlines()[3]
    assert rows.table(header="mine").splitlines()[1] == "mine"
    with pytest.raises(AttributeError, match="nope"):
        rows.table(sort_by="nope")


def test_events_have_times_and_a_table(prof: profile) -> None:
    events = prof.events()
    product = next(event for event in events if event.name == "product")
    assert product.count == 1 and product.cpu_time == product.cpu_time_total
    whole = product.cpu_time_total + 1e6 * product.compiled
    assert product.time_range.elapsed_us() == pytest.approx(whole)
    assert product.cpu_time_str.endswith("s") and product.device_time_total == 0.0
    assert events.table(row_limit=2) == prof.key_averages().table(row_limit=2)
    assert events.total_average().count == len(events)
    assert str(events.key_averages(group_by_overload_name=True)) == str(prof.key_averages())


@pytest.mark.lazy
def test_a_kernel_knows_where_it_came_from(prof: profile) -> None:
    (product,) = [row for row in prof.key_averages() if "mm" in row.key]
    assert product.flops >= 2 * 48 * 48 * 32 and product.count == 1
    assert product.bytes_moved == 4 * (48 * 32 + 48 * 48)
    assert product.bandwidth == pytest.approx(1e6 * product.bytes_moved / product.cpu_time_total)
    assert 0 < product.roofline < 20
    assert any(Path(place.rpartition(":")[0]).name == "test_profiler.py" for place in product.stack)
    shaped = prof.key_averages(group_by_input_shape=True)
    assert [[48, 48]] in [row.input_shapes for row in shaped]
    by_name = {event.name: event for event in prof.events()}
    kernel = next(event for event in prof.events() if "mm" in event.name)
    plan = kernel.cpu_parent
    assert plan is not None and plan.kind == "plan" and plan.cpu_parent is by_name["product"]
    assert by_name["product"].self_cpu_time_total < by_name["product"].cpu_time_total


def test_trace_follows_the_format_of_trace_events(prof: profile, tmp_path: Path) -> None:
    prof.add_metadata("note", "made here")
    prof.add_metadata_json("sizes", "[1, 2]")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    whole = json.loads((tmp_path / "trace.json").read_text())
    packed = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert packed["traceEvents"] == whole["traceEvents"]
    assert whole["schemaVersion"] == 1 and whole["displayTimeUnit"] == "ms"
    assert whole["note"] == '"made here"' and whole["sizes"] == [1, 2]
    check_events(whole["traceEvents"])
    names = {event["name"] for event in whole["traceEvents"] if event["ph"] == "X"}
    assert {"product", "sum", "python"} < names
    kernel = next(e for e in whole["traceEvents"] if e["ph"] == "X" and "mm" in e["name"])
    assert kernel["cat"] == "cpu_op" and kernel["args"]["flops"] > 0 and kernel["args"]["source"]


def check_events(events: list[dict[str, Any]]) -> None:
    """The rules that viewers rely on: fields by phase, and complete events that nest."""
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    open_until: dict[tuple[int, int], list[float]] = {}
    for event in events:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["name"]
        if event["ph"] == "C":
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
        if event["ph"] != "X":
            continue
        end = event["ts"] + event["dur"]
        assert event["ts"] >= 0 and event["dur"] >= 0
        outer = open_until.setdefault((event["pid"], event["tid"]), [])
        while outer and outer[-1] <= event["ts"] + 2e-3:
            outer.pop()
        assert not outer or end <= outer[-1] + 0.01, event
        outer.append(end)


def test_memory_timelines(prof: profile, tmp_path: Path) -> None:
    for name in ("a.html", "a.json", "a.json.gz"):
        prof.export_memory_timeline(str(tmp_path / name))
    times, sizes = json.loads((tmp_path / "a.json").read_text())
    assert times == sorted(times) and len(times) == len(sizes) > 4
    assert json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes())) == [times, sizes]
    grown = max(tensors for tensors, _ in sizes) - sizes[0][0]
    assert grown >= 4 * 48 * 48
    page = (tmp_path / "a.html").read_text()
    assert "peak" in page and "product" in page and "http" not in page
    assert page.count("<svg") == page.count("</svg>") == 1
    with pytest.raises(ValueError, match=r"\.html"):
        prof.export_memory_timeline(str(tmp_path / "a.pdf"))
    with pytest.raises(ValueError, match="cuda"):
        prof.export_memory_timeline(str(tmp_path / "a.html"), device="cuda:0")
    pytest.importorskip("matplotlib")
    prof.export_memory_timeline(str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_values_between_kernels_count_as_memory() -> None:
    a = lazyt.rand(64, 64).realize()
    with profile(profile_memory=True) as prof:
        (a @ a @ a).realize()
    assert prof.profiler is not None
    assert max(held for _, _, held in prof.profiler.memory_samples()) >= 4 * 64 * 64


def test_stacks_are_written_with_times(prof: profile, tmp_path: Path) -> None:
    prof.export_stacks(str(tmp_path / "stacks"))
    for line in (tmp_path / "stacks").read_text().splitlines():
        path, count = line.rsplit(" ", 1)
        assert ";" in path and " " not in path and int(count) >= 0
    with pytest.raises(ValueError, match="metric"):
        prof.export_stacks(str(tmp_path / "stacks"), "cuda_time")


# What PyTorch 2.13's schedule gives for (wait, warmup, active, repeat, skip_first,
# skip_first_wait), as numbers of ProfilerAction.
SCHEDULES: dict[tuple[int, ...], list[int]] = {
    (1, 1, 2, 0, 0, 0): [0, 1, 2, 3, 0, 1, 2, 3, 0, 1],
    (1, 1, 2, 1, 1, 0): [0, 0, 1, 2, 3, 0, 0, 0, 0, 0],
    (2, 1, 1, 2, 0, 1): [1, 3, 0, 0, 1, 3, 0, 0, 0, 0],
    (0, 1, 1, 0, 2, 0): [0, 0, 1, 3, 1, 3, 1, 3, 1, 3],
}


@pytest.mark.parametrize("given", SCHEDULES, ids=str)
def test_schedules_are_pytorchs(given: tuple[int, ...]) -> None:
    wait, warmup, active, repeat, skip, first = given
    chosen = schedule(
        wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip,
        skip_first_wait=first,
    )  # fmt: skip
    assert [chosen(step).value for step in range(10)] == SCHEDULES[given]


def test_wrong_schedules_are_refused() -> None:
    with pytest.raises(AssertionError, match="Got wait=-1 "):
        schedule(wait=-1, warmup=0, active=1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError, match="non-negative"):
        schedule(wait=0, warmup=1, active=1)(-1)


def test_a_schedule_decides_which_steps_are_recorded(tmp_path: Path) -> None:
    ready: list[int] = []
    rows: list[list[str]] = []

    def note(prof: profile) -> None:
        ready.append(prof.step_num)
        rows.append([event.name for event in prof.events() if event.name.startswith("Prof")])
        tensorboard_trace_handler(str(tmp_path / "traces"), "me")(prof)

    a = lazyt.rand(8).realize()
    with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=note) as prof:
        for _ in range(9):
            (a + 1).realize()
            prof.step()
    assert ready == [4, 8] and rows == [["ProfilerStep#2", "ProfilerStep#3"],
                                        ["ProfilerStep#6", "ProfilerStep#7"]]  # fmt: skip
    (steps,) = [row for row in prof.key_averages() if row.key.startswith("Prof")]
    assert steps.key == "ProfilerStep*" and steps.count == 2
    assert not [row for row in prof.key_averages() if row.key == "compile"]  # the warm-up did it
    files = sorted(path.name for path in (tmp_path / "traces").iterdir())
    assert len(files) == 2 and all(re.fullmatch(r"me\.\d+\.pt\.trace\.json", n) for n in files)


def test_what_was_not_recorded_is_refused(tmp_path: Path) -> None:
    idle = profile(schedule=schedule(wait=5, warmup=1, active=1))
    with idle, pytest.raises(AssertionError, match="before getting key averages"):
        idle.key_averages()
    with pytest.raises(AssertionError, match="before exporting chrome trace"):
        idle.export_chrome_trace(str(tmp_path / "no"))
    with pytest.raises(AssertionError, match="activities"):
        profile(activities=[])
    plain = profile(activities=[ProfilerActivity.CPU])
    with plain, pytest.raises(RuntimeError, match="finish"):
        plain.key_averages()
    with pytest.raises(lazyt.errors.LazytError, match="profile_memory"):
        plain.export_memory_timeline(str(tmp_path / "no.html"))
    assert ProfilerAction.WARMUP.value == 1 and supported_activities() == {ProfilerActivity.CPU}


def test_compilations_are_shown_apart() -> None:
    whole = FunctionEvent("python", 0.0, 10.0, "python")
    plan = FunctionEvent("plan", 2.0, 9.0, "plan")
    kernel = FunctionEvent("kernel", 8.0, 8.5, "kernel")
    found = [whole, plan, FunctionEvent("compile", 3.0, 7.0, "compile"), kernel]
    nest(found)
    assert (whole.cpu_time_total, whole.self_cpu_time_total) == (6e6, 3e6)
    assert (plan.cpu_time_total, plan.self_cpu_time_total) == (3e6, 2.5e6)
    rows = EventList()
    for event in found:
        rows.append(FunctionEventAvg(event.name))
        rows[-1].add(event)
    assert rows.self_cpu_time_total == rows.total_average().self_cpu_time_total == 6e6
    lines = rows.table(sort_by="cpu_time_total").splitlines()
    assert lines[-1].startswith("Compile time total: 4.000s (1 plans")
    assert lines[-4].split()[:4] == ["compile", "--", "4.000s", "--"]
    assert lines[3].split()[:4] == ["python", "50.00%", "3.000s", "100.00%"]


def test_a_range_may_be_a_decorator_and_recur() -> None:
    @record_function("down")
    def down(depth: int) -> int:
        return down(depth - 1) if depth else 0

    with profile() as prof:
        down(2)
    (row,) = [row for row in prof.key_averages() if row.key == "down"]
    assert row.count == 3


@pytest.mark.lazy
def test_captured_functions_run_under_pythons_own_profiler() -> None:
    import cProfile

    double = lazyt.jit(lambda x: x * 2)
    python = cProfile.Profile()
    python.enable()
    try:
        results = [double(lazyt.ones(3)).tolist() for _ in range(4)]
    finally:
        python.disable()
    assert results == 4 * [[2.0, 2.0, 2.0]] and "captured" in double.why()
    assert any("tolist" in str(entry.code) for entry in python.getstats())


def test_bounds_of_the_machine_are_measured_once() -> None:
    bounds = measure()
    assert 1e8 < bounds.bandwidth < 1e14 and 1e8 < bounds.peak < 1e16
    assert measure() is bounds
    simple = Roofline(100.0, 10.0, 1)
    assert simple.least_seconds(200, 10) == 2 and simple.least_seconds(100, 50) == 5
    assert simple.share(200, 10, 4) == 0.5

"""The description of the machine, the doctor's findings and the record of events."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lazyt.config import config
from lazyt.runtime import devices, doctor, events
from lazyt.runtime.cpu import compile


def test_the_cpu_is_described() -> None:
    cpu = devices.cpu()
    assert cpu is devices.cpu() and cpu.name == "cpu"
    assert 1 <= cpu.cores <= (os.cpu_count() or 1)
    assert 8 << 10 <= cpu.l1 <= cpu.l2 <= cpu.l3 <= 4 << 30
    assert cpu.vector_bytes in (16, 32, 64)
    assert cpu.memory > 1 << 28
    assert list(cpu.features) == sorted(set(cpu.features))


@pytest.mark.parametrize(
    ("features", "width"), [(("avx", "avx512f"), 64), (("avx2", "avx"), 32), (("asimd",), 16)]
)
def test_vector_widths(features: tuple[str, ...], width: int) -> None:
    assert devices._vector_bytes(features) == width


UNCACHED_PATHS = devices._cgroup_paths.__wrapped__


def pretend(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    """Make the machine look as if it had only these system files."""
    monkeypatch.setattr(devices, "_read", lambda path: files.get(path, ""))
    monkeypatch.setattr(devices, "_cgroup_paths", UNCACHED_PATHS)


def test_cache_sizes_have_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "/sys/devices/system/cpu/cpu0/cache/index"
    pretend(monkeypatch, {})
    assert devices._cache_sizes() == (32 << 10, 512 << 10, 8 << 20)
    files: dict[str, str] = {}
    for index, (level, kind, size) in enumerate(
        (("1", "Data", "48K"), ("1", "Instruction", "64K"), ("2", "Unified", "2M"))
    ):
        files |= {f"{root}{index}/level": level, f"{root}{index}/size": size}
        files[f"{root}{index}/type"] = kind + "\n"
    pretend(monkeypatch, files)
    assert devices._cache_sizes() == (48 << 10, 2 << 20, 8 << 20)


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        (
            {
                "/proc/self/cgroup": "0::/pod/box\n",
                "/sys/fs/cgroup/pod/box/cpu.max": "250000 100000\n",
                "/sys/fs/cgroup/pod/cpu.max": "max 100000\n",
                "/sys/fs/cgroup/pod/box/memory.max": "max\n",
                "/sys/fs/cgroup/pod/memory.max": "1000000\n",
            },
            3,
            1000000,
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/box\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n",
            },
            2,
            2000000,
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            0,
            4096000,
        ),
    ],
)
def test_container_limits_count(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: int, memory: int
) -> None:
    pretend(monkeypatch, {"/proc/meminfo": "MemTotal:   4000 kB\nSwapTotal: 0 kB\n", **files})
    assert devices._cpu_quota() == cores
    assert devices.memory_limit.__wrapped__() == memory


def test_the_doctor_finds_a_working_machine(cache_dir: Path) -> None:
    findings = {finding.name: finding for finding in doctor.examine()}
    assert findings["compiler"].status == findings["kernel"].status == "ok"
    assert findings["cache"].status == "ok" and str(cache_dir) in findings["cache"].detail
    assert {"cpu", "threads", "memory", "openmp", "nvrtc", "cuda driver"} <= set(findings)
    for finding in findings.values():
        assert finding.status in ("ok", "warn", "fail") and finding.detail
        assert (finding.status == "ok") == (finding.advice == "")


def test_the_doctor_says_what_is_missing(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "missing-cc"))
    monkeypatch.setattr(config, "cache_dir", "/proc/nowhere")
    monkeypatch.setattr(config, "threads", 4096)
    findings = {finding.name: finding for finding in doctor.examine()}
    assert findings["compiler"].status == "fail" and "missing-cc" in findings["compiler"].detail
    assert "unset CC" in findings["compiler"].advice
    assert "NumPy interpreter" in doctor.conclusion([*findings.values()])
    assert findings["cache"].status == "warn" and "LAZYT_CACHE_DIR" in findings["cache"].advice
    assert findings["threads"].status == "warn"
    monkeypatch.setenv("CC", "ls")
    compile._found.clear()
    findings = {finding.name: finding for finding in doctor.examine()}
    assert findings["compiler"].status == "fail" and "kernel" not in findings
    assert "raises CompileError until CC" in doctor.conclusion([*findings.values()])
    assert "cannot compile an empty loop" in findings["compiler"].detail


def test_the_doctor_names_what_a_compiler_lacks(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first error that a compiler tells, not the line that counts errors."""
    broken = tmp_path / "gcc"
    lines = ["ld: cannot find crti.o: No such file", "collect2: error: ld returned 1 exit status"]
    broken.write_text("#!/bin/sh\n" + "".join(f"echo '{x}' >&2\n" for x in lines) + "exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    found = {finding.name: finding for finding in doctor.examine()}["compiler"]
    first, second, *others = found.detail.splitlines()
    assert first == "no C compiler:" and second == f"gcc does not work: {lines[0]}"
    assert others == ["clang is not on the PATH", "cc is not on the PATH"]
    assert "libc6-dev" in found.advice and "CC" in found.advice


def test_the_doctor_says_why_a_cache_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2").chmod(0o777)
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    found = {finding.name: finding for finding in doctor.examine()}["cache"]
    assert found.status == "warn" and "others may write to" in found.detail, found
    assert "chmod go-w" in found.advice and "LAZYT_CACHE_DIR" in found.advice


def test_what_the_doctor_concludes() -> None:
    fine, poor = doctor.Finding("cpu", "ok", "x"), doctor.Finding("sass", "warn", "none", "get it")
    bad = doctor.Finding("kernel", "fail", "wrong", "mend it")
    assert doctor.conclusion([fine]) == "lazyt works, and nothing is missing."
    assert doctor.conclusion([fine, poor]).startswith("lazyt works. What is marked warn")
    assert doctor.conclusion([fine, poor, bad]).endswith("see kernel.")


def test_events_are_bounded_and_kept_in_order() -> None:
    events.forget()
    for number in range(3000):
        events.record("realize", f"read {number}", "user.py:3", nodes=number)
    recorded = events.recorded("realize")
    assert len(recorded) == 1024 and recorded[-1].details == {"nodes": 2999}
    assert str(recorded[0]) == "user.py:3: realize: read 1976 (nodes=1976)"
    assert events.recorded("compile") == []
    events.forget()
    assert events.recorded() == []


def test_importing_the_runtime_is_cheap(run_child: Callable[..., str]) -> None:
    code = (
        "import sys\nfrom lazyt.runtime.cpu import execute, compile\n"
        "from lazyt.runtime import cache, devices, events, memory\n"
    )
    code += "print([m for m in ('subprocess', 'networkx', 'pycparser') if m in sys.modules])"
    bare = run_child("import sys, numpy, json, ctypes; print('subprocess' in sys.modules)")
    assert run_child(code) == ("[]\n" if bare == "False\n" else "['subprocess']\n")

"""Many processes, killed processes and processes without rights share one cache."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lazyt.runtime import cache
from tests import compilers

REAL = compilers.command()
Start = Callable[..., "subprocess.Popen[str]"]
COMPUTE = """
import numpy as np
from tests.runtime.sample_programs import axpy, chain, filled, floats
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.memory import Buffer
def right(n):
    x, y, out = filled(np.arange(n)), filled(np.ones(n)), Buffer(4 * n)
    execute.load(axpy(n)).run([x, y], [out])
    return bool((floats(out) == 2 * np.arange(n, dtype=np.float32) + 1).all())
"""


@pytest.fixture
def counting_cc(tmp_path: Path) -> tuple[str, Path]:
    """A compiler that writes a line to a log for every start, and that log."""
    log, path = tmp_path / "starts", tmp_path / "counting-cc"
    log.write_text("")
    path.write_text(f'#!/bin/sh\necho "$$ $@" >> {log}\n. {tmp_path}/first\nexec {REAL} "$@"\n')
    path.chmod(0o755)
    (tmp_path / "first").write_text("")
    return str(path), log


def test_a_second_process_starts_no_compiler(
    run_child: Callable[..., str], counting_cc: tuple[str, Path]
) -> None:
    cc, log = counting_cc
    code = COMPUTE + "print(right(100), compile.started)"
    assert run_child(code, CC=cc).split() == ["True", "4"]
    assert len(log.read_text().splitlines()) == 4  # version, target, trial, program
    assert run_child(code, CC=cc).split() == ["True", "0"]
    assert len(log.read_text().splitlines()) == 4


def test_sixteen_processes_share_an_empty_cache(
    start: Start, tmp_path: Path, counting_cc: tuple[str, Path]
) -> None:
    cc, log = counting_cc
    children = [start(COMPUTE + "print(right(100))", CC=cc) for _ in range(16)]
    for child in children:
        output, errors = child.communicate(timeout=80)
        assert (output, errors, child.returncode) == ("True\n", "", 0)
    programs = [line for line in log.read_text().splitlines() if "-shared" in line]
    assert len(programs) <= 17, "one trial each at most, and the program once"
    folder = tmp_path / "cache" / f"v{cache.FORMAT}"
    assert len(list(folder.glob("*.so"))) == len(list(folder.glob("*.json"))) == 1
    assert not list(folder.glob("tmp-*"))


def test_a_process_killed_while_compiling_does_no_harm(
    start: Start, run_child: Callable[..., str], tmp_path: Path, counting_cc: tuple[str, Path]
) -> None:
    cc, log = counting_cc
    run_child("from lazyt.runtime.cpu import compile; compile.find()", CC=cc)
    before = len(log.read_text().splitlines())
    (tmp_path / "first").write_text("sleep 20")
    children = [start(COMPUTE + "right(64)", CC=cc), start(COMPUTE + "right(65)", CC=cc)]
    deadline = time.monotonic() + 30
    while len(log.read_text().splitlines()) < before + 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    for child in children:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    (tmp_path / "first").write_text("")
    folder = tmp_path / "cache" / f"v{cache.FORMAT}"
    left = list(folder.glob("tmp-*"))
    assert len(left) == 2 and not list(folder.glob("*.json"))
    begun = time.monotonic()
    assert run_child(COMPUTE + "print(right(64), right(65))", CC=cc).split() == ["True", "True"]
    assert time.monotonic() - begun < 20, "a dead process' lock held the next one up"
    for path in left:
        os.utime(path, (1000, 1000))
    run_child("from lazyt.runtime import cache; cache.sweep()")
    assert not list(folder.glob("tmp-*"))


UNPRIVILEGED = """
import hashlib, json, os, shlex, shutil, subprocess, tempfile, time, resource, contextlib
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_home_that_cannot_be_written_costs_only_caching(
    run_child: Callable[..., str], home: Path, mode: int
) -> None:
    folder = home / "cache"
    folder.mkdir()
    folder.chmod(mode)
    code = COMPUTE + UNPRIVILEGED
    code += "import warnings\nfrom lazyt.runtime import events\n"
    code += "with warnings.catch_warnings(record=True) as said:\n"
    code += "    warnings.simplefilter('always')\n"
    code += "    compile.find()\n    asked = compile.started\n"
    code += "    print(right(100), right(101), compile.started - asked)\n"
    code += "print(len(events.recorded('cache')), *(w.category.__name__ for w in said))"
    try:
        output = run_child(code, LAZYT_CACHE_DIR=str(folder))
        assert output.split() == ["True", "True", "2", "1", "NoCacheWarning"]
    finally:
        folder.chmod(0o755)
    assert not list(folder.iterdir())


def test_a_read_only_cache_is_still_read(run_child: Callable[..., str], home: Path) -> None:
    code = COMPUTE + "print(right(100), compile.started)"
    run_child(code, LAZYT_CACHE_DIR=str(home / "cache"))
    everything = (home / "cache", *(home / "cache").rglob("*"))
    try:
        for path in everything:
            path.chmod(0o555)
        code = COMPUTE + UNPRIVILEGED + "print(right(100), compile.started)"
        assert run_child(code, LAZYT_CACHE_DIR=str(home / "cache")).split() == ["True", "0"]
    finally:
        for path in everything:
            path.chmod(0o755)


def test_an_interrupt_while_compiling_leaves_nothing(
    start: Start, tmp_path: Path, counting_cc: tuple[str, Path]
) -> None:
    cc, log = counting_cc
    child = start(
        COMPUTE
        + """
import pathlib
compile.find()
first = pathlib.Path({!r})
first.write_text("sleep 20")
try:
    right(10)
except KeyboardInterrupt:
    first.write_text("")
    print(right(10))
""".format(str(tmp_path / "first")),
        CC=cc,
    )
    deadline = time.monotonic() + 30
    while len(log.read_text().splitlines()) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=40)
    assert (output, errors) == ("True\n", "")
    assert not list((tmp_path / "cache" / f"v{cache.FORMAT}").glob("tmp-*"))


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    missing = "sys.modules['lazyt.functional.shapes.view_shapes'] = None"
    failing = f"import gc, sys; {missing}\ntry:\n import lazyt"
    code = f"{failing}\nexcept ImportError:\n print(gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"

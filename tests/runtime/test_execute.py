"""Running Programs: values, threads, forks and interrupts."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lazyt.config import config
from lazyt.errors import CompileError, InternalError
from lazyt.ir.program import Program, Slot
from lazyt.runtime import events
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.memory import Buffer, pool
from tests.runtime.sample_programs import axpy, chain, failing, filled, floats, spin

pytestmark = pytest.mark.usefixtures("cache_dir")


def test_a_program_runs() -> None:
    n = 1000
    x, y, out = filled(np.arange(n)), filled(np.ones(n)), Buffer(4 * n)
    execute.load(axpy(n)).run([x, y], [out])
    np.testing.assert_array_equal(floats(out), 2 * np.arange(n, dtype=np.float32) + 1)


def test_an_output_may_take_over_an_input() -> None:
    x, y = filled(np.arange(64)), filled(np.ones(64))
    execute.load(axpy(64)).run([x, y], [y])
    np.testing.assert_array_equal(floats(y), 2 * np.arange(64, dtype=np.float32) + 1)


@pytest.mark.parametrize("padding", [0, 3000])
def test_a_chain_goes_through_the_arena(padding: int) -> None:
    x, out = filled(np.arange(50)), Buffer(200)
    before = pool.stats().in_use
    execute.load(chain(50, 5, padding)).run([x], [out])
    np.testing.assert_array_equal(floats(out), np.arange(50, dtype=np.float32) + 10)
    assert pool.stats().in_use == before  # the arena went back


def test_equal_programs_are_loaded_once() -> None:
    first = execute.load(axpy(8))
    started = compile.started
    assert execute.load(axpy(8)) is first and compile.started == started
    assert execute.load(axpy(9)) is not first
    reasons = [event.reason for event in events.recorded("compile")]
    assert reasons == ["not in the disk cache"] * 2


def test_why_a_program_was_compiled_is_recorded() -> None:
    execute.load(axpy(10), "first use", "train.py:7")
    (event,) = events.recorded("compile")
    assert str(event).startswith("train.py:7: compile: first use (kernels=1")


def test_wrong_buffers_are_refused() -> None:
    executable = execute.load(axpy(16))
    buffers = [Buffer(64) for _ in range(3)]
    with pytest.raises(InternalError, match="1 input buffers for a plan with 2"):
        executable.run(buffers[:1], buffers[2:])
    with config.override(verify=True):
        executable.run(buffers[:2], buffers[2:])
        with pytest.raises(InternalError, match="smaller than its slot"):
            executable.run([Buffer(60), buffers[1]], buffers[2:])


def test_programs_that_are_not_for_the_cpu_are_refused() -> None:
    program = axpy(4)
    cuda = Program("cuda", program.sections, program.kernels, "", program.slots, (), 0)
    with pytest.raises(InternalError, match="cuda"):
        execute.load(cuda)
    slots = (*program.slots, Slot("register", 0, 0, 4))
    odd = Program("c", program.sections, program.kernels, program.entry, slots, (), 0)
    with pytest.raises(InternalError, match="register"):
        execute.load(odd)


def test_a_failing_compiler_keeps_the_source() -> None:
    with pytest.raises(CompileError, match=r"no such thing|unknown type") as caught:
        execute.load(failing())
    error = caught.value
    assert error.command[0].endswith("gcc") or "CC" in error.args[0]
    assert error.source_path and "no such thing" in Path(error.source_path).read_text()
    execute.load(axpy(4))  # and the next one works


def test_eight_threads_run_at_once() -> None:
    n = 20_000
    executable = execute.load(axpy(n))
    failures: list[int] = []

    def work(mark: int) -> None:
        x, y = filled(np.full(n, mark)), filled(np.arange(n))
        expected = 2 * mark + np.arange(n, dtype=np.float32)
        for _ in range(50):
            out = Buffer(4 * n)
            executable.run([x, y], [out])
            if not np.array_equal(floats(out), expected):
                failures.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(8)]
    with config.override(threads=2):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_threads_that_miss_together_compile_once() -> None:
    compile.find()
    started = compile.started
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(execute.load(axpy(77)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1
    assert compile.started == started + 1


def test_the_interpreter_lock_is_released() -> None:
    executable, out = execute.load(spin(200)), Buffer(4)
    thread = threading.Thread(target=executable.run, args=([], [out]))
    floats(out)[0] = 0.0
    thread.start()
    begun, ticks = time.perf_counter(), 0
    while thread.is_alive():
        ticks += 1
        time.sleep(0.005)
    assert ticks >= 5 and time.perf_counter() - begun > 0.1
    assert floats(out)[0] == 1.0


def test_thread_counts_come_from_settings(run_child: Callable[..., str]) -> None:
    code = "from lazyt.runtime.cpu.openmp import team; print(team.count())"
    assert run_child(code, OMP_NUM_THREADS="3,2", LAZYT_THREADS="0").split() == ["3"]
    assert run_child(code, LAZYT_THREADS="5", OMP_NUM_THREADS="3").split() == ["5"]
    cores = run_child("from lazyt.runtime import devices; print(devices.core_count())")
    assert run_child(code, OMP_NUM_THREADS="", LAZYT_THREADS="0") == cores


FORK = """
import os, warnings
import numpy as np
from tests.runtime.sample_programs import axpy, filled, floats
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer
from lazyt.runtime.cpu.openmp import team
warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
n = 100_000
executable = execute.load(axpy(n))
x, y = filled(np.arange(n)), filled(np.ones(n))
def right():
    out = Buffer(4 * n)
    executable.run([x, y], [out])
    return bool((floats(out) == 2 * np.arange(n, dtype=np.float32) + 1).all())
assert right()
print(team.count(), flush=True)
child = os.fork()
if child == 0:
    fine = all(right() for _ in range(20)) and team.count() == 1
    execute.load(axpy(7))
    os._exit(0 if fine else 1)
assert os.waitpid(child, 0)[1] == 0
assert right()
print(team.count())
"""


def test_a_forked_child_runs_after_its_parent_did(run_child: Callable[..., str]) -> None:
    assert run_child(FORK, LAZYT_THREADS="2").split() == ["2", "2"]


INTERRUPT = """
import numpy as np
from tests.runtime.sample_programs import axpy, filled, floats, spin
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer, pool
from lazyt.runtime.cpu.openmp import team
executable, out = execute.load(spin(1000)), Buffer(4)
floats(out)[0] = 0.0
before = pool.stats().in_use
print("running", flush=True)
try:
    executable.run([], [out])
    print("not interrupted")
except KeyboardInterrupt:
    print(floats(out)[0], pool.stats().in_use == before)
x, y = filled(np.ones(8)), filled(np.ones(8))
executable = execute.load(axpy(8))
executable.run([x, y], [y])
print(floats(y)[0], team.turn[1])
"""


def test_an_interrupt_arrives_when_the_kernel_ends(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    child = start(INTERRUPT, LAZYT_THREADS="2")
    assert child.stdout is not None and child.stdout.readline() == "running\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert (output.split(), errors) == (["1.0", "True", "3.0", "0"], "")

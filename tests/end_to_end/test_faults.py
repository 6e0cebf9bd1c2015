"""Faults: many processes, kills, forks, threads, interrupts, no memory, exit in mid-computation."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazyt.runtime import cache

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Run, Start, Wrapper

#: ``check(n)``: a result of several kernels for extent n, compared with NumPy's.
PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import lazyt as lt
from lazyt.runtime.cpu import compile
def check(n):
    values = np.random.default_rng(n).standard_normal((n, 33)).astype(np.float32)
    x = lt.tensor(values)
    got = ((x @ x.t()).softmax(-1).sum(0) + x.exp().sum(1)).numpy()
    scores = values.astype(np.float64) @ values.T
    e = np.exp(scores - scores.max(-1, keepdims=True))
    want = (e / e.sum(-1, keepdims=True)).sum(0) + np.exp(values.astype(np.float64)).sum(1)
    assert np.allclose(got, want, rtol=1e-4), (n, abs(got - want).max())
    return True
"""


def wait_until(condition: object, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.02)
    assert condition(), "waited in vain"  # type: ignore[operator]


def test_sixteen_processes_share_an_empty_cache(
    start: Start, tmp_path: Path, wrapper: Wrapper
) -> None:
    children = [start(PRELUDE + "print(check(20))", CC=wrapper.command) for _ in range(16)]
    for child in children:
        output, errors = child.communicate(timeout=100)
        assert (output, errors, child.returncode) == ("True\n", "", 0)
    folder = tmp_path / "cache" / f"v{cache.FORMAT}"
    assert not list(folder.glob("tmp-*"))
    plans = len(list(folder.glob("*.json")))
    # A trial compile each at most, and every plan once (in as many units as there are cores).
    compiles = [line for line in wrapper.starts() if "plan.so" in line]
    assert len(compiles) <= 16 + plans


def test_killed_processes_do_no_harm(start: Start, run_child: Run, wrapper: Wrapper) -> None:
    run_child(PRELUDE + "check(8)", CC=wrapper.command)  # asks the compiler what it is
    before = len(wrapper.starts())
    wrapper.slow_down(30)
    children = [start(PRELUDE + f"check({n})", CC=wrapper.command) for n in (9, 9, 10)]
    wait_until(lambda: len(wrapper.starts()) >= before + 2)
    for child in children:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    wrapper.slow_down(0)
    code = PRELUDE + "print(check(9), check(10))"
    assert run_child(code, timeout=40, CC=wrapper.command) == "True True\n"


def test_a_process_killed_while_it_writes_the_cache(start: Start, run_child: Run) -> None:
    """Killed at random moments of building and storing plans; the next one computes."""
    for delay in (0.0, 0.15, 0.4):
        child = start(PRELUDE + "print('ready', flush=True)\nfor n in range(40, 60): check(n)")
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    assert run_child(PRELUDE + "print(check(40), check(41))") == "True True\n"


FORK = """
def forked(n):
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            status = 0 if check(n) else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return "the child hangs"
"""


def test_fork_after_kernels(run_child: Run) -> None:
    # 300 rows are enough work for several threads, which do not exist in the child.
    code = PRELUDE + FORK + "print(check(300), forked(300), forked(12), check(300), forked(300))"
    assert run_child(code) == "True 0 0 True 0\n"


def test_fork_while_threads_compute_and_compile(run_child: Run) -> None:
    code = """
stop = False
check(8)  # Python itself hangs in a child that was forked in the middle of an import
def work(first):
    n = first
    while not stop:
        check(n)
        n = first if n > first + 5 else n + 1
threads = [threading.Thread(target=work, args=(30 * i,)) for i in (1, 2)]
for thread in threads:
    thread.start()
results = []
for n in (8, 200):
    time.sleep(0.2)
    results.append(forked(n))
stop = True
for thread in threads:
    thread.join()
print(results, check(30))
"""
    assert run_child(PRELUDE + FORK + code, timeout=100) == "[0, 0] True\n"


def test_a_forked_child_does_not_keep_its_parents_locks(
    start: Start, run_child: Run, wrapper: Wrapper
) -> None:
    run_child(PRELUDE + "check(8)", CC=wrapper.command)
    before = len(wrapper.starts())
    wrapper.slow_down(3)
    code = """
threading.Thread(target=check, args=(9,)).start()
time.sleep(1.5)
if os.fork() == 0:
    time.sleep(50)
    os._exit(0)
"""
    start(PRELUDE + code, CC=wrapper.command)
    wait_until(lambda: len(wrapper.starts()) > before)
    wrapper.slow_down(0)
    begun = time.monotonic()
    assert run_child(PRELUDE + "print(check(9))", timeout=55, CC=wrapper.command) == "True\n"
    assert time.monotonic() - begun < 30, "waited for a lock that nobody needs"


def test_multiprocessing_by_fork(run_child: Run) -> None:
    code = """
import multiprocessing
check(300)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map_async(check, [300, 13, 300, 14]).get(timeout=40))
"""
    assert run_child(PRELUDE + code) == "[True, True, True, True]\n"


def test_eight_threads(run_child: Run) -> None:
    code = """
import concurrent.futures
sizes = [5, 5, 5, 6, 6, 7, 300, 300] * 3
with concurrent.futures.ThreadPoolExecutor(8) as workers:
    done = list(workers.map(check, sizes, timeout=100))
shared = lt.arange(1000.0).reshape(10, 100) * 2
with concurrent.futures.ThreadPoolExecutor(8) as workers:  # one pending graph, many lookers
    sums = {*workers.map(lambda n: (shared + 1).sum().item(), range(40))}
print(all(done), sums == {float(sum(range(1000)) * 2 + 1000)})
"""
    assert run_child(PRELUDE + code, timeout=100) == "True True\n"


def test_threads_that_write_to_their_own_tensors(run_child: Run) -> None:
    code = """
import concurrent.futures
def train(seed):
    w = lt.zeros(8).requires_grad_()
    for step in range(30):
        ((w - seed) ** 2).sum().backward()
        with lt.no_grad():
            w -= 0.25 * w.grad
            w.grad.zero_()
    return w.detach().tolist() == [float(seed)] * 8
with concurrent.futures.ThreadPoolExecutor(8) as workers:
    print(all(workers.map(train, range(1, 17), timeout=100)))
"""
    assert run_child(PRELUDE + code, timeout=100) == "True\n"


LONG_KERNEL = """
x = lt.ones(512, 512)
lt.config.max_pending_nodes = 10**9
def long():
    y = x
    for _ in range({products}):
        y = y @ x * 0.001
    return y.realize()
"""


def test_interrupt_during_kernels(start: Start) -> None:
    code = """
long()  # compiled now
print("ready", flush=True)
begun = time.monotonic()
try:
    while time.monotonic() - begun < 30:
        long()
    print("no interrupt came")
except KeyboardInterrupt:
    print("interrupted", check(16), long().shape)
"""
    child = start(PRELUDE + LONG_KERNEL.format(products=8) + code)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert (output, errors) == ("interrupted True lazyt.Size([512, 512])\n", "")


def test_interrupts_at_random_moments(start: Start) -> None:
    """Whatever is interrupted, by many signals, the next operation works."""
    # A file whose opening is interrupted is closed by the garbage collector; and finalizers raise
    # nothing: Python tells of an interrupt that strikes in one, and goes on.
    code = """
import random, warnings
warnings.simplefilter("ignore", ResourceWarning)
def lost(found):
    if found.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(found)
sys.unraisablehook = lost
def send():
    begin, sent = time.monotonic(), 0
    while sent < 60 or (caught <= 5 and time.monotonic() - begin < 60):  # a busy machine is slow
        sent += 1
        time.sleep(random.random() * 0.02)
        signal.pthread_kill(main, signal.SIGINT)
main, armed, caught, n = threading.main_thread().ident, False, 0, 100
def interrupt(*_):  # once each time round, so that none strikes in the `except` itself
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
check(20)
sender = threading.Thread(target=send)
sender.start()
while sender.is_alive():
    try:
        armed = True
        for _ in range(50):
            x = lt.ones(20, 30) * n
            y = (x + 1).sum(1)
            y[3] = 1
            y.realize()
        armed = False
    except KeyboardInterrupt:
        caught += 1
print(caught > 5, check(20), check(21))
"""
    child = start(PRELUDE + code)
    output, errors = child.communicate(timeout=100)
    assert (output, errors) == ("True True True\n", "")


def test_interrupt_during_a_compile(start: Start, tmp_path: Path, wrapper: Wrapper) -> None:
    code = """
check(8)
print("ready", flush=True)
try:
    check(9)
    print("no interrupt came")
except KeyboardInterrupt:
    open({path!r}, "w").close()
    print(check(9), check(10))
"""
    child = start(PRELUDE + code.format(path=str(wrapper.before)), CC=wrapper.command)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    before = len(wrapper.starts())
    wrapper.slow_down(40)
    wait_until(lambda: len(wrapper.starts()) > before)
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert (output, errors) == ("True True\n", "")
    assert not list((tmp_path / "cache" / f"v{cache.FORMAT}").glob("tmp-*"))


HUGE = {
    "a sum": "(lt.zeros(10**13) + 1).realize()",
    "a uniform value": "lt.zeros(10**13).realize()",
    "an uninitialized one": "lt.empty(10**13).realize()",
    "a look": "(lt.arange(10**13) * 2).numpy()",
    "an outer product": "(lt.ones(10**7)[:, None] * lt.ones(10**7)).realize()",
    "an array": "lt.zeros(10**13).tolist()",
    "more than addresses": "(lt.zeros(2**40, 2**40) + 1).realize()",
}


def test_allocations_larger_than_memory(run_child: Run) -> None:
    code = f"""
kept = lt.arange(10.0) + 1
for name, text in {HUGE!r}.items():
    try:
        eval(text)
        print(name, "was allocated")
    except MemoryError as error:
        if "bytes" not in str(error):
            print(name, error)
    assert check(16) and kept.sum().item() == 55
kept = lt.zeros(10**13)  # lazy: what is looked at fits
print(kept[:5].tolist(), (kept + 1)[-2:].tolist())
"""
    assert run_child(PRELUDE + code) == "[0.0, 0.0, 0.0, 0.0, 0.0] [1.0, 1.0]\n"


def test_a_limit_on_memory(run_child: Run) -> None:
    code = """
import resource
check(16)
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    (lt.zeros(1 << 29) + lt.ones(1)).realize()
    print("allocated")
except MemoryError as error:
    print("refused", check(16))
"""
    assert run_child(PRELUDE + code) == "refused True\n"


def test_exit_while_a_thread_computes(start: Start) -> None:
    code = """
def forever():
    while True:
        long()
long()
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.3)
print("leaving", flush=True)
"""
    child = start(PRELUDE + LONG_KERNEL.format(products=4) + code)
    output, errors = child.communicate(timeout=60)
    assert (output, errors, child.returncode) == ("leaving\n", "", 0)


def test_exit_while_a_thread_compiles(start: Start, run_child: Run, wrapper: Wrapper) -> None:
    run_child(PRELUDE + "check(8)", CC=wrapper.command)
    wrapper.slow_down(3)
    code = """
threading.Thread(target=check, args=(9,), daemon=True).start()
time.sleep(1)
print("leaving", flush=True)
"""
    child = start(PRELUDE + code, CC=wrapper.command)
    output, errors = child.communicate(timeout=60)
    assert (output, errors, child.returncode) == ("leaving\n", "", 0)


@pytest.mark.parametrize("when", ["pending", "computed"])
def test_tensors_alive_at_exit(run_child: Run, when: str) -> None:
    code = """
x = lt.ones(1000).requires_grad_()
y = (x * 2).exp()
array = y.detach().numpy() if {computed} else None
cycle = [y]; cycle.append(cycle)
sys.modules["keeps"] = cycle
import atexit
atexit.register(lambda: print(round(y.sum().item() / 1000, 3)))
"""
    code = code.format(computed=when == "computed")
    assert run_child(PRELUDE + code) == "7.389\n"

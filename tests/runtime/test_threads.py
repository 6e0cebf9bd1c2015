"""Who gets how many threads, and what a parallel region of one thread runs."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import warnings
from collections.abc import Callable
from threading import get_ident

import pytest

import lazyt as lt
from lazyt.config import config
from lazyt.ir.program import Program
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.cpu.openmp import team
from lazyt.runtime.cpython import direct

COUNTING = """
/* omp parallel */
__attribute__((visibility("default")))
void lz_plan(char **slots, int threads)
{
  *(int *) slots[0] = threads;
  *(unsigned long long *) slots[2] = *(const volatile unsigned long long *) slots[1];
}
"""
LOOPS = """
#ifdef _OPENMP
extern int omp_get_num_threads(void);
#else
#define omp_get_num_threads() 1
#endif
static void add(long *sums, int place, long value)
{
  #pragma omp atomic
  sums[place] += value;
}

static void inner(long *sums, int place, int threads)
{
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 2)
  for (long i = 0; i < 10; i++)
    {
      add(sums, place, i);
      if (threads == 1)
        add(sums, 8, omp_get_num_threads());
    }
}

__attribute__((visibility("default")))
void lz_plan(char **slots, int threads)
{
  long *sums = (long *) slots[0];
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 3)
  for (long i = 0; i < 100; i++)
    add(sums, 0, i + 1);
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 3)
  for (long i = 99; i > -1; i -= 3)
    add(sums, 1, i + 1);
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 3)
  for (long i = 5; i < sums[9]; i++) /* its end is asked for within the region */
    add(sums, 2, 1);
  const long none = sums[9];
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 3)
  for (long i = 5; i < none; i++)
    add(sums, 2, 1);
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 3)
  for (long i = 5; i < 3; i++)
    add(sums, 2, 1);
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (long i = 0; i < 4; i++)
    {
      inner(sums, 3, 1);
      inner(sums, 4, 2);
      inner(sums, 5, threads);
    }
  #pragma omp parallel num_threads(threads)
  {
    inner(sums, 6, 1);
    #pragma omp for schedule(dynamic, 1)
    for (long i = 0; i < 7; i++)
      add(sums, 7, i);
  }
}
"""


def program(entry: str) -> Program:
    """A plan of an entry alone."""
    return Program("c", (), (), entry, (), (), 0)


@pytest.fixture
def idle() -> None:
    """Nobody uses threads."""
    team.turn[1] = 0


class Bound:
    """A plan that says how many threads it was given and who owned them, ready to be called."""

    def __init__(self) -> None:
        self.executable = execute.load(program(COUNTING))
        assert not self.executable.serial
        self._given, self._owner = ctypes.c_int(0), ctypes.c_uint64(0)
        turn = ctypes.addressof(team.turn) + 8
        places = (ctypes.addressof(self._given), turn, ctypes.addressof(self._owner))
        self._slots = (ctypes.c_void_p * 3)(*places)
        self.slots = ctypes.addressof(self._slots)
        self._run = direct.bound_launch(self.executable, self.slots)

    def __call__(self) -> tuple[int, int]:
        self._given.value = self._owner.value = 77
        self._run()
        return self._given.value, self._owner.value


@pytest.fixture(params=["C", "ctypes", "not bound"])
def bound(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, idle: None) -> Bound:
    """The ways in which a plan is called, which are to be told apart by their time alone."""
    if request.param == "ctypes":
        monkeypatch.setattr(direct, "available", lambda: False)
    elif request.param == "C" and not direct.available():
        pytest.skip("functions cannot be made here")
    made = Bound()
    if request.param == "not bound":
        made._run = lambda: made.executable.launch(made.slots)
    return made


def test_a_plan_takes_threads_and_gives_them_back(bound: Bound) -> None:
    for count in (2, 1, 3):
        with config.override(threads=count):
            assert bound() == (count, 0 if count == 1 else get_ident())
            assert team.turn[1] == 0 and team.turn[2] == 1


def test_a_plan_gets_one_thread_while_another_uses_them(bound: Bound) -> None:
    with config.override(threads=2):
        try:
            team.turn[1] = get_ident() + 1
            assert bound() == (1, get_ident() + 1)
            assert team.turn[1] == get_ident() + 1
            team.turn[1] = get_ident()  # a plan within its own
            assert bound() == (2, get_ident())
        finally:
            team.turn[1] = 0
        assert bound() == (2, get_ident())


def test_every_way_to_set_the_number_reaches_bound_plans(bound: Bound) -> None:
    before = config.threads
    try:
        lt.set_num_threads(3)
        assert bound()[0] == lt.get_num_threads() == 3
        config.threads = 1
        assert bound()[0] == 1
        config.threads = 0
        assert bound()[0] == team.count()
        with config.override(threads=2):
            assert bound()[0] == 2
        assert bound()[0] == team.count()
    finally:
        config.threads = before


def test_a_child_by_fork_has_one_thread(bound: Bound) -> None:
    with config.override(threads=2), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        assert bound()[0] == 2
        child = os.fork()
        if child == 0:
            code = 9
            try:
                code = bound()[0] if team.count() == 1 else 8
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert bound()[0] == 2


FIRST = """
from tests.runtime.test_threads import Bound
print(Bound()()[0])
"""


def test_the_first_bound_plan_knows_the_number(run_child: Callable[..., str]) -> None:
    assert run_child(FIRST, LAZYT_THREADS="3") == "3\n"
    assert run_child(FIRST, LAZYT_THREADS="0", OMP_NUM_THREADS="2,1") == "2\n"


WAITING = """
/* omp parallel */
__attribute__((visibility("default")))
void lz_plan(char **slots, int threads)
{
  volatile int *state = (volatile int *) slots[0];
  state[1] = threads;
  state[0] = 1;
  while (state[0] != 2)
    ;
}
"""


def test_other_python_threads_run_and_get_one_thread_meanwhile(bound: Bound) -> None:
    state = (ctypes.c_int * 2)()
    slots = (ctypes.c_void_p * 1)(ctypes.addressof(state))
    waiting = direct.bound_launch(execute.load(program(WAITING)), ctypes.addressof(slots))
    with config.override(threads=2):
        other = threading.Thread(target=waiting)
        other.start()
        try:
            while state[0] != 1:  # stands still here where the plan keeps others from running
                time.sleep(0.001)
            assert state[1] == 2
            assert bound() == (1, other.ident)
        finally:
            state[0] = 2
            other.join(60)
        assert bound() == (2, get_ident())


INTERRUPTED = """
import ctypes, signal, threading, time
from lazyt.config import config
from lazyt.runtime.cpu import execute
from lazyt.runtime.cpu.openmp import team
from lazyt.runtime.cpython import direct
from tests.runtime.test_threads import WAITING, Bound, program
config.threads = 2
bound = Bound()
state = (ctypes.c_int * 2)()
slots = (ctypes.c_void_p * 1)(ctypes.addressof(state))
waiting = direct.bound_launch(execute.load(program(WAITING)), ctypes.addressof(slots))

def interrupt():
    while state[0] != 1:
        time.sleep(0.001)
    signal.raise_signal(signal.SIGINT)
    state[0] = 2

threading.Thread(target=interrupt).start()
try:
    waiting()
except KeyboardInterrupt:
    print(state[0], team.turn[1], bound()[0])
"""


def test_an_interrupt_leaves_the_threads_free(run_child: Callable[..., str]) -> None:
    assert run_child(INTERRUPTED).split() == ["2", "0", "2"]


def test_many_python_threads_call_one_captured_function(idle: None) -> None:
    """Whoever comes second gets one thread; no sum is wrong, and nobody is left the owner."""
    x = lt.arange(300_000.0).realize()
    double = lt.jit(lambda x: (x * 2 + 1).sum(), fullgraph=True)
    expected = double(x).item()
    found: list[float] = []

    def work() -> None:
        found.extend(double(x).item() for _ in range(50))

    with config.override(threads=2):
        assert double(x).item() == expected
        others = [threading.Thread(target=work) for _ in range(4)]
        for other in others:
            other.start()
        for other in others:
            other.join()
    assert found == [expected] * 200
    assert team.turn[1] == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_every_step_of_a_loop_runs_once(idle: None, threads: int) -> None:
    sums = (ctypes.c_long * 10)()
    slots = (ctypes.c_void_p * 1)(ctypes.addressof(sums))
    entry = execute.load(program(LOOPS)).entry
    team_of = threads if compile.find().openmp else 1
    for _ in range(20):
        sums[:] = [0] * 10
        entry(ctypes.addressof(slots), threads)
        assert sums[:8] == [5050, 1717, 0, 180, 180, 180, 45 * team_of, 21]
        # In a team of one the steps know of no other, whatever team is around it.
        assert sums[8] == 10 * (4 * (2 if threads == 1 else 1) + team_of)

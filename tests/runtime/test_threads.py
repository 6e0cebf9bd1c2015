"""Who gets how many threads, and what a parallel region of one thread runs."""

from __future__ import annotations

import ctypes
from threading import get_ident

import pytest

from lazyt.config import config
from lazyt.ir.program import Program
from lazyt.runtime import compile, execute
from lazyt.runtime.threads import team

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
static void add(long *sums, int place, long value)
{
  #pragma omp atomic
  sums[place] += value;
}

static void inner(long *sums, int place, int threads)
{
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 2)
  for (long i = 0; i < 10; i++)
    add(sums, place, i);
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
  for (long i = 5; i < sums[9]; i++)
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


def test_a_bound_plan_takes_threads_in_turn(idle: None) -> None:
    executable = execute.load(program(COUNTING))
    assert not executable.serial
    given, owner = ctypes.c_int(0), ctypes.c_uint64(0)
    places = (ctypes.addressof(given), ctypes.addressof(team.turn) + 8, ctypes.addressof(owner))
    slots = (ctypes.c_void_p * 3)(*places)
    run = executable.bound(ctypes.addressof(slots))
    for start in (run, lambda: executable.launch(ctypes.addressof(slots))):
        for count in (2, 1, 3):
            with config.override(threads=count):
                start()
                assert given.value == count
                assert owner.value == (0 if count == 1 else get_ident())
                assert team.turn[1] == 0 and team.turn[2] == 1
        with config.override(threads=2):
            try:
                team.turn[1] = get_ident() + 1  # another thread's
                start()
                assert given.value == 1 and team.turn[1] == get_ident() + 1
            finally:
                team.turn[1] = 0
            start()
            assert given.value == 2


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

"""Threads for compilers that have no OpenMP library: clang without libomp, and Zig's.

Such a compiler still turns OpenMP's pragmas into calls. Every plan brings these functions along,
hidden from other libraries; they pass on to one small pool of threads (``openmp.c``), which is
compiled once and kept like a plan. Loops are shared out as by other libraries; no result depends
on how. Between shares the thread that runs the plan listens for interrupts
(``runtime/cpu/regions.py``), and a forked child, which has none of its parent's threads, starts its
own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

from lazyt.config import config
from lazyt.runtime import devices
from lazyt.runtime.cpu import regions
from lazyt.runtime.cpu.regions import Forwarded

# Threads of kernels: how many there are, and whose turn it is to use them.


class Threads:
    """Who may use how many threads in a kernel.

    Two kernels at once that both want every core slow each other down, so a run that starts
    while another thread's is in flight gets one thread. Who owns them is a hint, read and written
    without a lock: an interrupt between the two then cannot leave anything locked.

    Attributes:
        turn: what C knows of it: how many they are, as ``take_count`` left it, the Python thread
            that uses them now, or 0, and whether any were ever started.
        dies_in_children: whether they are those of a library that a forked child cannot use.
    """

    __slots__ = ("_forked", "_most", "dies_in_children", "turn")

    def __init__(self) -> None:
        self.turn = (ctypes.c_uint64 * 3)()
        self._most = 0
        self._forked = False
        self.dies_in_children = False
        config._on_threads.append(self.take_count)

    def count(self) -> int:
        """How many a kernel may use now."""
        if self._forked:
            return 1
        return config.threads or self._most or self.read_most()

    def take_count(self) -> None:
        """Let C know how many they are now."""
        self.turn[0] = self.count()

    def read_most(self) -> int:
        """All cores, or what OMP_NUM_THREADS says (the first number, where it is a list)."""
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        wanted = int(first) if first.isdecimal() else 0
        self._most = wanted or devices.core_count()
        return self._most

    def after_fork(self) -> None:
        """GNU's OpenMP waits forever in a child for the threads that its parent had; lazyt's own
        threads (``runtime/cpu/openmp.py``) are started anew."""
        self._forked = self._forked or (self.dies_in_children and bool(self.turn[2]))
        self.turn[1] = 0
        if self._forked:
            self.turn[0] = 1


team = Threads()
os.register_at_fork(after_in_child=team.after_fork)

#: What the compiler is told. The driver does not know that there is OpenMP, so it links no library;
#: a call of a function that plans do not bring along is an error of the linker.
FLAGS = (
    "-Xclang", "-fopenmp", "-pthread",
    *(() if sys.platform == "darwin" else ("-Wl,-z,defs",)),
)  # fmt: skip

_COUNTED = {"4": "int", "4u": "unsigned", "8": "long long", "8u": "unsigned long long"}
_KINDS = {"4": "int", "4u": "unsigned", "8": "lz_long", "8u": "lz_word"}
_LOOPS = """
void __kmpc_for_static_init_@(void *at, int thread, int kind, int *last, $ *low, $ *high, $ *stride,
                              $ step, $ share)
{
  const lz_word trips = lz_trips(step > 0, *low <= *high, (lz_word) *low, (lz_word) *high, step);
  lz_word first, size;
  if ((kind & 0xffffff) == 33) /* shares of one size, given out in a circle */
    {
      *stride = share * step * lz_team->count();
      *low += share * step * lz_team->number();
      *high = *low + (share - 1) * step;
      *last = trips && (lz_word) lz_team->number() == (trips - 1) / share % lz_team->count();
      return;
    }
  lz_team->part(trips, &first, &size);
  *last = size && first + size == trips;
  *stride = trips * step;
  if (!size)
    {
      *low = *high + step;
      return;
    }
  *low += ($) first * step;
  *high = *low + ($) (size - 1) * step;
}

void __kmpc_dispatch_init_@(void *at, int thread, int kind, $ low, $ high, $ step, $ share)
{
  lz_team->begin(low, step, lz_trips(step > 0, low <= high, (lz_word) low, (lz_word) high, step),
                 share);
}

int __kmpc_dispatch_next_@(void *at, int thread, int *last, $ *low, $ *high, $ *step)
{
  lz_long first, end, by;
  int is_last;
  if (!lz_team->next(lz_stops(), !lz_listens, &first, &end, &by, &is_last))
    return 0;
  *low = first;
  *high = end;
  *step = by;
  if (last)
    *last = is_last;
  return 1;
}
"""

_FORK = """
void __kmpc_fork_call(void *at, int count, void (*body)(void), ...)
{
  __builtin_va_list list;
  __builtin_va_start(list, body);
  lz_fork(count, body, list);
  __builtin_va_end(list);
}
"""

#: C text of every plan's entry, after that of interrupts (``runtime/cpu/regions.py``).
TEXT = (
    """
typedef long long lz_long;
struct lz_team {
  void (*run)(void (*)(void *, int), void *);
  void (*call)(void (*)(void), int, int, void **);
  void (*enter)(void);
  void (*leave)(void);
  void (*ask)(int);
  int (*number)(void);
  int (*count)(void);
  void (*barrier)(void);
  int (*single)(void);
  void (*lock)(void);
  void (*unlock)(void);
  void (*part)(lz_word, lz_word *, lz_word *);
  void (*begin)(lz_long, lz_long, lz_word, lz_word);
  int (*next)(int, int, lz_long *, lz_long *, lz_long *, int *);
  int (*room)(int);
};
__attribute__((visibility("default"))) const struct lz_team *lz_team;

/* A region of several threads: each of them knows whether it has been stopped. */
struct lz_region { void (*body)(void); int count; void **given; volatile int stopped; };
static __thread struct lz_region *lz_region;

static void lz_inside(void *given, int number)
{
  struct lz_region *const outer = lz_region, *const region = given;
  lz_region = region;
  lz_team->call(region->body, number, region->count, region->given);
  lz_region = outer;
}

/* Whether this thread gets no further share of its loop. */
static int lz_stops(void)
{
  struct lz_region *const region = lz_region;
  if (!region)
    return lz_heard();
  if (lz_listens && !region->stopped && lz_handle(lz_words))
    region->stopped = 1;
  return region->stopped;
}

static lz_word lz_trips(int up, int ascends, lz_word low, lz_word high, lz_long step)
{
  if (up)
    return ascends ? (high - low) / (lz_word) step + 1 : 0;
  return ascends && low != high ? 0 : (low - high) / (lz_word) -step + 1;
}

int omp_get_thread_num(void) { return lz_team->number(); }
int omp_get_num_threads(void) { return lz_team->count(); }
int __kmpc_global_thread_num(void *at) { return lz_team->number(); }
void __kmpc_push_num_threads(void *at, int thread, int count) { lz_team->ask(count); }
void __kmpc_serialized_parallel(void *at, int thread) { lz_team->enter(); }
void __kmpc_end_serialized_parallel(void *at, int thread) { lz_team->leave(); }
void __kmpc_for_static_fini(void *at, int thread) {}
void __kmpc_dispatch_deinit(void *at, int thread) {}
void __kmpc_barrier(void *at, int thread) { lz_team->barrier(); }
int __kmpc_single(void *at, int thread) { return lz_team->single(); }
void __kmpc_end_single(void *at, int thread) {}

/* Each thread adds its part to the result, one after the other. */
int __kmpc_reduce_nowait(void *at, int thread, int count, unsigned long size, void *data,
                         void (*join)(void *, void *), void *lock)
{
  lz_team->lock();
  return 1;
}

int __kmpc_reduce(void *at, int thread, int count, unsigned long size, void *data,
                  void (*join)(void *, void *), void *lock)
{
  lz_team->lock();
  return 1;
}

void __kmpc_end_reduce_nowait(void *at, int thread, void *lock) { lz_team->unlock(); }

void __kmpc_end_reduce(void *at, int thread, void *lock)
{
  lz_team->unlock();
  lz_team->barrier();
}

static void lz_fork(int count, void (*body)(void), __builtin_va_list list)
{
  void *given[lz_team->room(count)];
  if (lz_stopped)
    return;
  for (int i = 0; i < count; i++)
    given[i] = __builtin_va_arg(list, void *);
  struct lz_region region = {body, count, given, 0};
  lz_team->run(lz_inside, &region);
  lz_stopped |= region.stopped;
}
"""
    + _FORK
    + "".join(_LOOPS.replace("@", name).replace("$", kind) for name, kind in _KINDS.items())
)


def _loop(name: str, kind: str) -> tuple[Forwarded, ...]:
    """What loops call whose steps are counted in a type of C."""
    at = f"{kind} *"
    given, shares = ("void *", "int", "int"), (kind,) * 4
    return (
        Forwarded(
            f"__kmpc_for_static_init_{name}", "void", (*given, "int *", at, at, at, kind, kind)
        ),
        Forwarded(f"__kmpc_dispatch_init_{name}", "void", (*given, *shares)),
        Forwarded(f"__kmpc_dispatch_next_{name}", "int", ("void *", "int", "int *", at, at, at)),
    )


_REDUCED = ("void *", "int", "int", "unsigned long", "void *", "lz_joining", "void *")
#: What a library calls that forwards to another's entry.
FORWARDED = (
    Forwarded("lz_fork", "void", ("int", "lz_outlined", "__builtin_va_list")),
    Forwarded("omp_get_thread_num", "int", ()),
    Forwarded("omp_get_num_threads", "int", ()),
    Forwarded("__kmpc_global_thread_num", "int", ("void *",)),
    Forwarded("__kmpc_push_num_threads", "void", ("void *", "int", "int")),
    Forwarded("__kmpc_serialized_parallel", "void", ("void *", "int")),
    Forwarded("__kmpc_end_serialized_parallel", "void", ("void *", "int")),
    Forwarded("__kmpc_for_static_fini", "void", ("void *", "int")),
    Forwarded("__kmpc_dispatch_deinit", "void", ("void *", "int")),
    Forwarded("__kmpc_barrier", "void", ("void *", "int")),
    Forwarded("__kmpc_single", "int", ("void *", "int")),
    Forwarded("__kmpc_end_single", "void", ("void *", "int")),
    Forwarded("__kmpc_reduce_nowait", "int", _REDUCED),
    Forwarded("__kmpc_reduce", "int", _REDUCED),
    Forwarded("__kmpc_end_reduce_nowait", "void", ("void *", "int", "void *")),
    Forwarded("__kmpc_end_reduce", "void", ("void *", "int", "void *")),
    *(each for name, kind in _COUNTED.items() for each in _loop(name, kind)),
)


def forwarding() -> str:
    """C text that forwards to these functions, for a library whose entry is in another one."""
    types = "typedef void (*lz_outlined)(void);\ntypedef void (*lz_joining)(void *, void *);\n"
    return types + regions.forwarding(FORWARDED) + _FORK


#: How often a thread that waits asks before it sleeps: about 1 ms, as a processor's pause takes 12
#: ns or more. Who is woken up may come to the core of who wakes it, and both share that one for a
#: while; kernels in a row meet no sleeping thread. libgomp's own choice is five times that.
SPINS = 60000


@functools.cache
def source() -> str:
    """The C text of the pool."""
    return Path(__file__).with_name("openmp.c").read_text(encoding="utf-8")


def arguments() -> tuple[int, int]:
    """What the pool is made with: how often to ask before sleeping, and how many cores there are.

    The variables are those by which GNU's OpenMP is told.
    """
    said = os.environ.get("GOMP_SPINCOUNT", "")
    spins = min(int(said), 1 << 30) if said.isdecimal() else SPINS
    if os.environ.get("OMP_WAIT_POLICY", "").strip().lower() == "passive":
        spins = 0
    return spins, devices.core_count()

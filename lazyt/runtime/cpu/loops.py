"""A plan launched once for each step of a loop, by one foreign call.

What a step reads and writes are places in larger buffers, which move by a fixed distance from step
to step. A few lines of C move them and call the plan's function, so that a loop of any length costs
Python as much as one launch. The text is the same for all loops and compiled once per machine.
"""

from __future__ import annotations

import _ctypes
import ctypes
import functools
from array import array
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

from lazyt.runtime import cache
from lazyt.runtime.cpu import compile, execute

_TEXT = """
#include <stdint.h>
#include <string.h>

typedef void (*lz_entry)(void **, int);
typedef struct { int64_t base, stride, period, offset; } lz_cursor;
typedef struct { int64_t target, source, bytes; } lz_copy;
typedef struct { int64_t entry, slots, moving, map; } lz_launch;
typedef struct {
    lz_launch body, test;
    int64_t cursors, copies, table, flag, step, end, going;
} lz_job;

static void *lz_at(const lz_job *job, int64_t number) {
    const lz_cursor *cursor = (const lz_cursor *)(intptr_t)job->cursors + number;
    int64_t place = job->step + cursor->offset;
    if (cursor->period) place %= cursor->period;
    return (void *)(intptr_t)(cursor->base + place * cursor->stride);
}

static void lz_run(const lz_job *job, const lz_launch *launch, int threads) {
    void **slots = (void **)(intptr_t)launch->slots;
    const int64_t *map = (const int64_t *)(intptr_t)launch->map;
    if (!launch->entry) return;
    for (int64_t n = 0; n < launch->moving; n++)
        slots[map[2 * n]] = lz_at(job, map[2 * n + 1]);
    ((lz_entry)(intptr_t)launch->entry)(slots, threads);
}

__attribute__((visibility("default"))) void lz_loop(lz_job *job, int threads) {
    const lz_copy *table = (const lz_copy *)(intptr_t)job->table;
    for (; job->step < job->end; job->step++) {
        if (job->flag >= 0) {
            lz_run(job, &job->test, threads);
            job->going = *(const unsigned char *)lz_at(job, job->flag) != 0;
            if (!job->going) return;
        }
        lz_run(job, &job->body, threads);
        for (int64_t n = 0; n < job->copies; n++)
            memcpy(lz_at(job, table[n].target), lz_at(job, table[n].source),
                   (size_t)table[n].bytes);
    }
}
"""


class Cursor(NamedTuple):
    """Where a step finds a value: element ``step + offset`` of those that lie ``stride`` bytes
    apart from address ``base`` on, round and round if there is a ``period``."""

    base: int
    stride: int = 0
    period: int = 0
    offset: int = 0

    def at(self, step: int) -> int:
        """The address in one step."""
        place = step + self.offset
        return self.base + (place % self.period if self.period else place) * self.stride


class Copy(NamedTuple):
    """Bytes that are copied at the end of a step, from one cursor to another."""

    target: int
    source: int
    nbytes: int


class Launch(NamedTuple):
    """A plan as a step runs it.

    Attributes:
        executable: the plan's.
        operands: the numbers of the cursors of its inputs, then of its outputs.
        arena: the address of its scratch memory.
    """

    executable: execute.Executable
    operands: Sequence[int]
    arena: int


#: Seconds between two looks at whether a signal has come, about.
_PAUSE = 0.05
#: Steps before the first one.
_FEWEST = 64


def run(
    body: Launch | None,
    steps: int,
    cursors: Sequence[Cursor],
    copies: Sequence[Copy],
    test: Launch | None = None,
    flag: int = -1,
) -> int:
    """Runs a plan again and again; returns how often.

    Args:
        body: the plan; None where a step only copies.
        steps: how often, at most.
        copies: what is copied at the end of every step, in order.
        test: a plan that runs before every step.
        flag: the cursor of a byte that says, before every step, whether there is one; -1 for none.

    Raises as ``Executable.run`` does, and CompileError where the loop itself cannot be compiled.
    """
    entry = _driver()
    flat = array("q", [word for cursor in cursors for word in cursor])
    table = array("q", [word for copy in copies for word in copy])
    first, second = _packed(body), _packed(test)
    rest = [flat.buffer_info()[0], len(copies), table.buffer_info()[0], flag, 0, 0, 1]
    job = array("q", [*first.words, *second.words, *rest])
    launches = [launch.executable for launch in (body, test) if launch is not None]
    serial = next((item for item in launches if not item.serial), launches[0] if launches else None)
    address, share = job.buffer_info()[0], _FEWEST
    while job[_GOING] and job[_STEP] < steps:
        job[_END] = min(steps, job[_STEP] + share)
        begin = perf_counter()
        if serial is None:
            entry(address, 1)
        else:
            serial.launch(address, entry)
        passed = perf_counter() - begin
        share = min(max(int(share * _PAUSE / max(passed, 1e-6)), 1), 16 * share)
    return job[_STEP]


#: Places in a job.
_STEP, _END, _GOING = 12, 13, 14


class _Packed(NamedTuple):
    """What a job says of a plan, and the memory that this refers to."""

    words: tuple[int, int, int, int]
    slots: array[int]
    moves: array[int]


def _packed(launch: Launch | None) -> _Packed:
    slots, moves = array("q"), array("q")
    if launch is None:
        return _Packed((0, 0, 0, 0), slots, moves)
    executable, operands = launch.executable, launch.operands
    for slot, place in enumerate(executable.places):
        if place < len(operands):
            moves.extend((slot, operands[place]))
            slots.append(0)
        else:
            slots.append(launch.arena + executable.scratch[place - len(operands)])
    entry = execute.address_of(executable.entry)
    words = entry, slots.buffer_info()[0], len(moves) // 2, moves.buffer_info()[0]
    return _Packed(words, slots, moves)


@functools.cache
def _driver() -> execute.Entry:
    """The loop's function, from the disk cache or compiled; its library stays loaded."""
    compiler = compile.find()
    key = cache.hash_text(str(cache.FORMAT), _TEXT, compiler.identity())
    found = execute.find_binary(key, _open)
    if found is None:
        binary = compile.build_text(_TEXT, compiler)
        execute.keep(key, binary, _TEXT, compiler)
        found = execute.open_binary(binary, _open)
    return found


def _open(path: str) -> execute.Entry:
    handle = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)
    made: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
    entry: execute.Entry = made(_ctypes.dlsym(handle, "lz_loop"))
    return entry

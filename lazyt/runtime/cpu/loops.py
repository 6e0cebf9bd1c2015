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
from typing import Any, NamedTuple

from lazyt.runtime import cache
from lazyt.runtime.cpu import compile, execute

_TEXT = """
#include <stdint.h>
#include <string.h>

typedef void (*lz_entry)(void **, int);
typedef struct { int64_t base, stride, period, offset; } lz_cursor;
typedef struct { int64_t target, source, bytes; } lz_copy;
typedef struct {
    int64_t entry, steps, slots, moving, map, cursors, copies, table;
} lz_job;

static void *lz_at(const lz_cursor *cursor, int64_t step) {
    int64_t place = step + cursor->offset;
    if (cursor->period) place %= cursor->period;
    return (void *)(intptr_t)(cursor->base + place * cursor->stride);
}

__attribute__((visibility("default"))) void lz_loop(const lz_job *job, int threads) {
    lz_entry entry = (lz_entry)(intptr_t)job->entry;
    void **slots = (void **)(intptr_t)job->slots;
    const int64_t *map = (const int64_t *)(intptr_t)job->map;
    const lz_cursor *cursors = (const lz_cursor *)(intptr_t)job->cursors;
    const lz_copy *table = (const lz_copy *)(intptr_t)job->table;
    for (int64_t step = 0; step < job->steps; step++) {
        for (int64_t n = 0; n < job->moving; n++)
            slots[map[2 * n]] = lz_at(cursors + map[2 * n + 1], step);
        if (entry) entry(slots, threads);
        for (int64_t n = 0; n < job->copies; n++)
            memcpy(lz_at(cursors + table[n].target, step), lz_at(cursors + table[n].source, step),
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


def run(
    executable: execute.Executable | None,
    steps: int,
    inputs: Sequence[int],
    outputs: Sequence[int],
    cursors: Sequence[Cursor],
    copies: Sequence[Copy],
    arena: int,
) -> None:
    """Runs a plan ``steps`` times.

    Args:
        executable: the plan's; None where a step only copies.
        inputs, outputs: the number of the cursor of each of its buffers.
        copies: what is copied at the end of every step, in order.
        arena: the address of the plan's scratch memory.

    Raises as ``Executable.run`` does, and CompileError where the loop itself cannot be compiled.
    """
    entry = _driver()
    flat = array("q", [word for cursor in cursors for word in cursor])
    table = array("q", [word for copy in copies for word in copy])
    slots, moves = array("q"), array("q")
    if executable is not None:
        own = len(inputs) + len(outputs)
        numbers = [*inputs, *outputs]
        for slot, place in enumerate(executable.places):
            if place < own:
                moves.extend((slot, numbers[place]))
                slots.append(0)
            else:
                slots.append(arena + executable.scratch[place - own])
    job = array(
        "q",
        [
            0 if executable is None else execute.address_of(executable.entry),
            steps,
            *(item.buffer_info()[0] for item in (slots,)),
            len(moves) // 2,
            moves.buffer_info()[0],
            flat.buffer_info()[0],
            len(copies),
            table.buffer_info()[0],
        ],
    )
    if executable is None:
        entry(job.buffer_info()[0], 1)
    else:
        executable.launch(job.buffer_info()[0], entry)


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

"""Parallel regions of compiled plans: which plans have some, and how one of one thread is cheap.

A region of one thread takes libgomp 0.4 us, for a team of its own. Its body is called outright
instead, where the linker can do that, unless it would have its share of another region's loops. A
region that is a loop whose steps threads take in turn asks libgomp for its share: it gets all.

Between such shares the thread that runs the plan listens for interrupts
(``runtime/cpython/interrupts.py``); when one has come, no thread of the region gets another share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazyt.ir.program import Program
from lazyt.runtime.cpython import interrupts

_LOOP = "GOMP_parallel_loop_nonmonotonic_dynamic"
_NEXT = "GOMP_loop_nonmonotonic_dynamic_next"
_END = "GOMP_loop_end_nowait"
#: What the compiler is told, and what goes into the unit with a plan's entry: of every plan, as an
#: object file may have kernels of others, too.
WRAP = ("-DLZ_WRAP", *(f"-Wl,--wrap={name}" for name in ("GOMP_parallel", _LOOP, _NEXT, _END)))
WRAPPED = f"""{interrupts.TEXT}
#ifdef LZ_WRAP
int omp_get_num_threads(void);
void __real_GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
void __real_{_LOOP}(void (*)(void *), void *, unsigned, long, long, long, long, unsigned);
_Bool __real_{_NEXT}(long *, long *);
void __real_{_END}(void);

/* The loop that this thread runs without a team, what it gets at a time, and whether steps of it
   are still to be given. */
struct lz_range {{ long begin, end, share; int alone, left; }};
static __thread struct lz_range lz_range;

/* A region of several threads: each of them knows whether it has been stopped. */
struct lz_region {{ void (*body)(void *); void *data; volatile int stopped; }};
static __thread struct lz_region *lz_region;

static void lz_inside(void *given)
{{
  struct lz_region *const outer = lz_region;
  lz_region = given;
  lz_region->body(lz_region->data);
  lz_region = outer;
}}

void __wrap_GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{{
  const struct lz_range outer = lz_range;
  lz_range.alone = 0;
  if (lz_stopped)
    return;
  if (threads == 1 && omp_get_num_threads() == 1)
    body(data);
  else if (!lz_listens)
    __real_GOMP_parallel(body, data, threads, flags);
  else
    {{
      struct lz_region region = {{body, data, 0}};
      __real_GOMP_parallel(lz_inside, &region, threads, flags);
      lz_stopped |= region.stopped;
    }}
  lz_range = outer;
}}

void __wrap_{_LOOP}(void (*body)(void *), void *data, unsigned threads, long begin, long end,
                    long step, long share, unsigned flags)
{{
  const struct lz_range outer = lz_range;
  const int alone = threads == 1 && omp_get_num_threads() == 1;
  if (lz_stopped)
    return;
  lz_range = (struct lz_range) {{begin, end, step * share, alone,
                                step > 0 ? begin < end : begin > end}};
  if (alone)
    body(data);
  else if (!lz_listens)
    __real_{_LOOP}(body, data, threads, begin, end, step, share, flags);
  else
    {{
      struct lz_region region = {{body, data, 0}};
      __real_{_LOOP}(lz_inside, &region, threads, begin, end, step, share, flags);
      lz_stopped |= region.stopped;
    }}
  lz_range = outer;
}}

/* What this thread does next, alone. */
static _Bool lz_next(long *begin, long *end)
{{
  const long first = lz_range.begin, last = lz_range.end, stop = first + lz_range.share;
  if (!lz_range.left || lz_heard())
    return 0;
  *begin = first;
  *end = lz_range.share > 0 ? (stop < last ? stop : last) : (stop > last ? stop : last);
  lz_range.begin = *end;
  lz_range.left = *end != last;
  return 1;
}}

_Bool __wrap_{_NEXT}(long *begin, long *end)
{{
  struct lz_region *const region = lz_region;
  if (!lz_range.alone)
    {{
      if (region && lz_listens && !region->stopped && lz_handle(lz_words))
        region->stopped = 1;
      return region && region->stopped ? 0 : __real_{_NEXT}(begin, end);
    }}
  if (lz_listens)
    return lz_next(begin, end);
  const _Bool left = lz_range.left;
  *begin = lz_range.begin;
  *end = lz_range.end;
  lz_range.left = 0;
  return left;
}}

void __wrap_{_END}(void)
{{
  if (!lz_range.alone)
    __real_{_END}();
}}
#endif
"""


class Forwarded(NamedTuple):
    """A function that compilers call for a parallel region, and that is the entry's.

    Attributes:
        name: its name.
        result: the type of its result.
        parameters: the types of its parameters.
    """

    name: str
    result: str
    parameters: tuple[str, ...]


#: What a library has of these whose own entry is in another one: see ``compile.part_text``.
FORWARDED = (
    Forwarded("__wrap_GOMP_parallel", "void", ("lz_body", "void *", "unsigned", "unsigned")),
    Forwarded(
        f"__wrap_{_LOOP}",
        "void",
        ("lz_body", "void *", "unsigned", "long", "long", "long", "long", "unsigned"),
    ),
    Forwarded(f"__wrap_{_NEXT}", "_Bool", ("long *", "long *")),
    Forwarded(f"__wrap_{_END}", "void", ()),
)
#: What a library that forwards is given the functions by, and what one that has them calls the list
#: of them.
GIVE, LIST = "lz_regions_are", "lz_regions"


def listed(forwarded: Sequence[Forwarded]) -> str:
    """C text that lists an entry's functions for libraries that forward to them."""
    own = [f"(void (*)(void)) {each.name}," for each in forwarded]
    wrapped = [f"(void (*)(void)) {each.name}," for each in FORWARDED]
    head = f'__attribute__((visibility("default"))) void (*const {LIST}[])(void) = {{'
    if own:
        return "\n".join([head, *own, "};", ""])
    return "\n".join(["#ifdef LZ_WRAP", head, *wrapped, "};", "#endif", ""])


def forwarding(forwarded: Sequence[Forwarded]) -> str:
    """C text that forwards to the functions of a list, in the order of ``listed``."""
    lines = [
        "typedef void (*lz_body)(void *);",
        "static void (*const *lz_forwards)(void);",
        f'__attribute__((visibility("default"))) void {GIVE}(void (*const *list)(void))',
        "{",
        "  lz_forwards = list;",
        "}",
    ]
    for number, (name, result, types) in enumerate(forwarded or FORWARDED):
        named = ", ".join(f"{type} a{place}" for place, type in enumerate(types)) or "void"
        plain, given = ", ".join(types) or "void", ", ".join(f"a{n}" for n in range(len(types)))
        called = f"(({result} (*)({plain})) lz_forwards[{number}])({given});"
        returned = "" if result == "void" else "return "
        lines.append(f"{result} {name}({named}) {{ {returned}{called} }}")
    if forwarded:
        return "\n".join([*lines, ""])
    return "\n".join(["#ifdef LZ_WRAP", *lines, "#endif", ""])


def starts_threads(program: Program) -> bool:
    """Whether a kernel of the program may start threads."""
    texts = [program.entry, *(kernel.text for kernel in program.kernels)]
    return any("omp parallel" in text for text in (*texts, *(t for _, t in program.sections)))

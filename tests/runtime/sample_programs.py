"""Small hand-written Programs, for tests that need something to compile and run."""

from __future__ import annotations

import numpy as np

from lazyt.ir import dtypes
from lazyt.ir.program import KernelSource, Launch, Program, Slot
from lazyt.runtime.memory import Buffer

BASE = ("base", "typedef float lz_f32;")
SCALE = ("scale", "static inline lz_f32 lz_scale(lz_f32 x) { return 2.0f * x; }")


def axpy(n: int, extra: str = "") -> Program:
    """o = 2 x + y over ``n`` float32 elements; ``extra`` makes texts differ."""
    text = f"""void axpy(char *b0, char *b1, char *b2, int threads) {{ {extra}
  const lz_f32 *x = (const lz_f32 *)b0, *y = (const lz_f32 *)b1;
  lz_f32 *o = (lz_f32 *)b2;
  #pragma omp parallel for num_threads(threads) if(threads > 1)
  for (long i = 0; i < {n}; i++) o[i] = lz_scale(x[i]) + y[i];
}}"""
    slots = tuple(
        Slot(kind, index, 0, 4 * n) for kind, index in (("input", 0), ("input", 1), ("output", 0))
    )
    return Program(
        target="c",
        sections=(BASE, SCALE, ("broken", "this is not C")),
        kernels=(KernelSource("axpy", text, ("scale",), 3),),
        entry=_entry(["axpy"], [(0, 1, 2)]),
        slots=slots,
        launches=(Launch("axpy", (0, 1, 2)),),
        arena_bytes=0,
    )


def chain(n: int, length: int, padding: int = 0) -> Program:
    """``length`` kernels: x goes through the arena, each kernel k adds k; o = x + 0 + 1 + ...

    ``padding`` characters of comment per kernel make the texts long enough to be split.
    """
    kernels: list[KernelSource] = []
    launches: list[tuple[int, ...]] = []
    slots = [Slot("output", 0, 0, 4 * n), Slot("input", 0, 0, 4 * n)]
    for k in range(length):
        text = f"""/*{"-" * padding}*/
void add{k}(char *b0, char *b1, int threads) {{
  #pragma omp parallel for num_threads(threads) if(threads > 1)
  for (long i = 0; i < {n}; i++) ((lz_f32 *)b1)[i] = ((lz_f32 *)b0)[i] + {k}.0f;
}}"""
        kernels.append(KernelSource(f"add{k}", text, (), 2))
        if k < length - 1:
            slots.append(Slot("arena", 0, 4 * n * (k % 2), 4 * n))
        launches.append((1 + k, 2 + k if k < length - 1 else 0))
    return Program(
        target="c",
        sections=(BASE, SCALE),
        kernels=tuple(kernels),
        entry=_entry([k.name for k in kernels], launches),
        slots=tuple(slots),
        launches=tuple(Launch(k.name, pair) for k, pair in zip(kernels, launches)),
        arena_bytes=8 * n,
    )


def spin(milliseconds: int) -> Program:
    """A kernel that takes about this long, then writes 1.0 to its output."""
    text = f"""struct lz_time {{ long s, ns; }};
extern int clock_gettime(int, struct lz_time *);
void spin(char *b0, int threads) {{
  struct lz_time a, b;
  clock_gettime(1, &a);
  do clock_gettime(1, &b);
  while ((b.s - a.s) * 1000 + (b.ns - a.ns) / 1000000 < {milliseconds});
  *(lz_f32 *)b0 = 1.0f;
}}"""
    return Program(
        target="c",
        sections=(BASE,),
        kernels=(KernelSource("spin", text, (), 1),),
        entry=_entry(["spin"], [(0,)]),
        slots=(Slot("output", 0, 0, 4),),
        launches=(Launch("spin", (0,)),),
        arena_bytes=0,
    )


def failing() -> Program:
    """A Program that no compiler takes."""
    program = axpy(4)
    kernel = KernelSource("axpy", "void axpy(char *b0) { no such thing; }", (), 1)
    return Program("c", (BASE,), (kernel,), program.entry, program.slots, program.launches, 0)


def filled(values: np.ndarray) -> Buffer:
    """A new buffer that holds float32 ``values``."""
    data = values.astype(np.float32).tobytes()
    buffer = Buffer(len(data))
    buffer.copy_from(data)
    return buffer


def floats(buffer: Buffer) -> np.ndarray:
    """The buffer as float32 elements."""
    return buffer.as_numpy(dtypes.float32, (buffer.nbytes // 4,))


def _entry(names: list[str], launches: list[tuple[int, ...]]) -> str:
    lines = []
    for name, slots in zip(names, launches):
        types = ", ".join(["char *"] * len(slots))
        lines.append(f"extern void {name}({types}, int);")
    lines.append("void lz_plan(char **slots, int threads) {")
    for name, slots in zip(names, launches):
        lines.append(f"  {name}({', '.join(f'slots[{s}]' for s in slots)}, threads);")
    return "\n".join([*lines, "}"])

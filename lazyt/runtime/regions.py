"""Parallel regions of compiled plans: which plans have some, and how one of one thread is cheap.

A region of one thread takes libgomp 0.4 us, for a team of its own. Its body is called outright
instead, where the linker can do that, unless it would have its share of another region's loops.
"""

from __future__ import annotations

from lazyt.ir.program import Program

#: What the compiler is told, and what goes into the unit with a plan's entry: of every plan, as an
#: object file may have kernels of others, too.
WRAP = ("-DLZ_WRAP", "-Wl,--wrap=GOMP_parallel")
WRAPPED = """
#ifdef LZ_WRAP
int omp_get_num_threads(void);
void __real_GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
void __wrap_GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
  if (threads == 1 && omp_get_num_threads() == 1)
    body(data);
  else
    __real_GOMP_parallel(body, data, threads, flags);
}
#endif
"""


def starts_threads(program: Program) -> bool:
    """Whether a kernel of the program may start threads."""
    texts = [program.entry, *(kernel.text for kernel in program.kernels)]
    return any("omp parallel" in text for text in (*texts, *(t for _, t in program.sections)))

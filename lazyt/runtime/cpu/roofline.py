"""What this machine can do at best: memory traffic and arithmetic, measured once.

The bounds of the roofline model (Williams, Waterman and Patterson, 2009): a kernel that moves so
many bytes and does so many operations cannot be faster than ``least_seconds``. Both numbers are
measured by small C programs with the compiler and the flags of all other plans, and kept in the
disk cache for this CPU and number of threads.
"""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass
from functools import cache, lru_cache, partial

from lazyt.config import config
from lazyt.ir.program import KernelSource, Launch, Program, Slot
from lazyt.runtime import cache as disk
from lazyt.runtime import devices
from lazyt.runtime.cpu import execute
from lazyt.runtime.cpu.openmp import team
from lazyt.runtime.memory import Buffer

#: Trials end when so many in a row were no better than the best, or after so many in all.
_PATIENCE, _MOST = 6, 60
#: Bytes of each of the three arrays: far more than caches hold, on most machines.
_ARRAY = 1 << 26
_ROUNDS = 500_000
_INPUTS = (("input", 0), ("input", 1))
_LANES = 12  # accumulators that wait for each other's latency

# z = x + 2 y, as in the STREAM benchmark (McCalpin, 1995).
_TRIAD = """void lz_triad(char *b0, char *b1, char *b2, int threads)
{{
  const float *x = (const float *)b0, *y = (const float *)b1;
  float *z = (float *)b2;
  #pragma omp parallel for num_threads(threads)
  for (long i = 0; i < {count}; i++)
    z[i] = x[i] + 2 * y[i];
}}
"""

_MULTIPLY_ADD = """typedef float lz_lanes __attribute__((vector_size({vector})));
#ifndef __clang__
__attribute__((optimize("fp-contract=fast")))
#endif
static float lz_chains(long rounds)
{{
#ifdef __clang__
  #pragma clang fp contract(fast)
#endif
  lz_lanes factor = {{0}}, {lanes};
  factor += 0.5f;
  lz_lanes step = factor * 0.25f;
  for (long i = 0; i < rounds; i++) {{
{body}
  }}
  lz_lanes all = {total};
  return all[0];
}}
void lz_multiply_add(char *b0, int threads)
{{
  #pragma omp parallel for num_threads(threads)
  for (int t = 0; t < threads; t++)
    ((float *)b0)[t] = lz_chains({rounds});
}}
"""


@dataclass(frozen=True)
class Roofline:
    """The bounds of a machine.

    Attributes:
        bandwidth: bytes per second between memory and all cores together, read and written.
        peak: float32 operations per second of all cores; a fused multiply-add counts two.
        threads: with how many threads both were measured.
    """

    bandwidth: float
    peak: float
    threads: int

    def least_seconds(self, nbytes: float, flops: float) -> float:
        """The time that moving ``nbytes`` or doing ``flops`` takes at least, the longer one."""
        return max(nbytes / self.bandwidth, flops / self.peak)

    def share(self, nbytes: float, flops: float, seconds: float) -> float:
        """How near to the bound something is that took ``seconds``: 1 is as fast as the machine
        can do it. More than 1 means that its data did not come from memory but from a cache."""
        return self.least_seconds(nbytes, flops) / seconds if seconds > 0 else 0.0


def measure(threads: int = 0) -> Roofline:
    """The bounds of this machine, measured at the first call (about a second) and remembered.

    Args:
        threads: how many; 0 for as many as kernels use.

    Raises NoCompilerError and CompileError as every plan does.
    """
    return _measured(threads or team.count())


@cache
def _measured(threads: int) -> Roofline:
    key = disk.hash_text(platform.node(), " ".join(devices.cpu_features()), str(threads))
    stored = disk.get_text("roofline", key)
    if stored is not None:
        try:
            raw = json.loads(stored)
            return Roofline(float(raw["bandwidth"]), float(raw["peak"]), threads)
        except (ValueError, KeyError, TypeError):
            stored = None  # written by another version: measured again
    found = _Probes(threads).best(_MOST)
    disk.put_text("roofline", key, json.dumps({"bandwidth": found.bandwidth, "peak": found.peak}))
    return found


def sample(threads: int = 0) -> Roofline:
    """The bounds as they are at this moment, in some 30 ms: other programs, and on shared machines
    other people, take their part of the memory's bandwidth. Raises as ``measure``."""
    return _probes(threads or team.count()).best(3)


class _Probes:
    """The two programs, with their buffers."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.size = min(_ARRAY, devices.memory_limit() // 16)
        x, y, z = (Buffer(self.size) for _ in range(3))
        text = _TRIAD.format(count=self.size // 4)
        slots = tuple(Slot(k, n, 0, self.size) for k, n in (*_INPUTS, ("output", 0)))
        triad = _program("lz_triad", text, slots)
        for source in (x, y):  # pages that nobody wrote to are one and the same page of zeros
            _run(triad, threads, [z, z], source, trials=1)
        self.triad = partial(_run, triad, threads, [x, y], z)
        vector = devices.cpu().vector_bytes
        names = [f"v{n}" for n in range(_LANES)]
        text = _MULTIPLY_ADD.format(
            vector=vector,
            lanes=", ".join(f"{name} = {{{n}}}" for n, name in enumerate(names)),
            body="\n".join(f"    {name} = {name} * factor + step;" for name in names),
            total=" + ".join(names),
            rounds=_ROUNDS,
        )
        out = Buffer(4 * threads)
        chains = _program("lz_multiply_add", text, (Slot("output", 0, 0, 4 * threads),))
        self.chains = partial(_run, chains, threads, [], out)
        self.flops = 2.0 * _LANES * (vector // 4) * _ROUNDS * threads

    def best(self, trials: int) -> Roofline:
        """The best of so many trials of each, or fewer where more do not help."""
        bandwidth = 3 * self.size / self.triad(trials=trials)
        return Roofline(bandwidth, self.flops / self.chains(trials=trials), self.threads)


_probes = lru_cache(maxsize=1)(_Probes)  # they keep arrays


def _program(name: str, text: str, slots: tuple[Slot, ...]) -> Program:
    pointers = ", ".join(["char *"] * len(slots) + ["int"])
    arguments = ", ".join([f"slots[{n}]" for n in range(len(slots))] + ["threads"])
    entry = (
        f'void {name}({pointers});\n__attribute__((visibility("default")))\n'
        f"void lz_plan(char **slots, int threads)\n{{\n  {name}({arguments});\n}}\n"
    )
    kernel = KernelSource(name, text, (), len(slots))
    launch = Launch(name, tuple(range(len(slots))))
    return Program("c", (), (kernel,), entry, slots, (launch,), 0)


def _run(
    program: Program, threads: int, inputs: list[Buffer], output: Buffer, trials: int
) -> float:
    """Seconds of the best of some runs: whatever else the machine does only makes it slower."""
    with config.override(threads=threads):
        executable = execute.load(program, "what this machine can do at best is measured")
        best, since = float("inf"), 0
        for _ in range(trials):
            begin = time.perf_counter()
            executable.run(inputs, [output])
            seconds = time.perf_counter() - begin
            since = 0 if seconds < 0.99 * best else since + 1
            best = min(best, seconds)
            if since == _PATIENCE:
                break
    return best

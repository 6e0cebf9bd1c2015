"""Facts about this machine that decide how well lazyt runs on it, each with what to do about it.

This module finds; ``python -m lazyt doctor`` prints.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lazyt.config import config
from lazyt.errors import CompileError, LazytError, NoCompilerError
from lazyt.ir.program import KernelSource, Launch, Program, Slot
from lazyt.runtime import cache, devices, events
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.cpu.openmp import team
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.memory import Buffer

_SELF_TEST = """void lz_self_test(char *b0, int threads) {
  int *o = (int *)b0;
#pragma omp parallel for num_threads(threads) if(threads > 1)
  for (int i = 0; i < 1024; i++) o[i] = 3 * i;
}"""


@dataclass(frozen=True)
class Finding:
    """One fact.

    Attributes:
        name: what was looked at, such as ``compiler``.
        status: ``ok``, ``warn`` (works, but slower or without a feature) or ``fail``.
        detail: what was found.
        advice: what to do, empty when all is well.
    """

    name: str
    status: str
    detail: str
    advice: str = ""


@dataclass(frozen=True)
class Deviation:
    """A reason why some results have other bits here than on other machines.

    Attributes:
        name: ``fma``, ``amx``, ``avx512_bf16``, ``lapack`` or ``libm``.
        what: which results, and why.
        remedy: what prevents that: ``exact`` for ``config.exact``, which leaves it out; ``refused``
            where that raises ReproducibilityError instead; empty where nothing does.
    """

    name: str
    what: str
    remedy: str


def deviations() -> list[Deviation]:
    """What gives other bits here than elsewhere, under the settings in force: what this machine
    has or lacks first, then what holds on every machine. Under ``config.exact`` only what it does
    not prevent is left.

    >>> from lazyt.runtime.doctor import deviations
    >>> [each.name for each in deviations()][-1]
    'libm'
    """
    device, found = devices.cpu(), []
    if device.arch in ("x86_64", "AMD64") and "fma" not in device.features:
        what = "products of matrices and functions such as exp: no fused multiply-adds (FMA)"
        found.append(Deviation("fma", what, "exact"))
    if device.traits.tiled and config.matrix_registers and device.vector_bytes >= 64:
        what = "products of bfloat16: matrix registers (AMX) add in another order"
        found.append(Deviation("amx", what, "exact"))
    if "avx512_bf16" in device.features and "bf16x2" not in device.traits.alone:
        what = "products of bfloat16 below 1.2e-38: AVX-512-BF16 takes subnormal numbers as zero"
        found.append(Deviation("avx512_bf16", what, "exact"))
    what = "eig, matrix_exp, complex and larger factorizations: LAPACK's"
    found.append(Deviation("lapack", what, "refused"))
    what = "numbers that Python computes, such as cosines of learning rates: those of the C library"
    found.append(Deviation("libm", what, ""))
    return [each for each in found if not (config.exact and each.remedy)]


def _examine_bits() -> list[Finding]:
    here = [each for each in deviations() if each.name not in ("lapack", "libm")]
    if not here:
        detail = "float32, float64 and integers have the bits that they have on other machines"
        return [Finding("bits", "ok", detail)]
    advice = "set LAZYT_EXACT=1 for the bits of other machines, slower"
    return [Finding("bits", "warn", "; ".join(each.what for each in here), advice)]


def examine() -> list[Finding]:
    """Look at everything; never raises for what it finds. Starts a compiler at most once."""
    checks: tuple[Callable[[], list[Finding]], ...] = (
        _examine_compiler,
        _examine_cpu,
        _examine_bits,
        _examine_threads,
        _examine_memory,
        _examine_cache,
        lambda: [_examine_mpi()],
        _examine_cuda,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cache.NoCacheWarning)  # it is a finding
        return [finding for check in checks for finding in check()]


def _examine_compiler() -> list[Finding]:
    try:
        compiler = compile.find()
    except NoCompilerError as error:
        detail = "no C compiler:\n" + "\n".join(error.tried)
        return [Finding("compiler", "fail", detail, _how_to_get_one(detail))]
    except CompileError as error:
        said = "\n".join(error.stderr.strip().splitlines()[:8])
        detail = f"{' '.join(error.command)}, which CC names, cannot compile an empty loop:\n{said}"
        return [Finding("compiler", "fail", detail, _how_to_get_one(detail))]
    name = f"{' '.join(compiler.command)} ({compiler.version}, {compiler.target})"
    found = [Finding("compiler", "ok", name)]
    if compiler.own_threads:
        found.append(Finding("openmp", "ok", "lazyt's own threads run parallel loops"))
    elif compiler.openmp:
        found.append(Finding("openmp", "ok", "-fopenmp works"))
    else:
        advice = "set CC to a compiler that knows OpenMP"
        found.append(Finding("openmp", "warn", "-fopenmp fails; kernels run on one core", advice))
    return [*found, _run_kernel()]


def _how_to_get_one(problem: str) -> str:
    """Advice where no compiler works."""
    if re.search(r"crt[1in]\.o|cannot find -l|\.h: No such file", problem):
        advice = "install the C library's files for development (Debian, Ubuntu: libc6-dev)"
    elif sys.platform == "darwin":
        advice = "install Apple's command line tools (xcode-select --install)"
    else:
        advice = (
            "install gcc or clang (Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc), or a "
            f"compiler that pip brings ({compile.PIP_INSTALL})"
        )
    if os.environ.get("CC", "").strip():
        return f"unset CC, or set it to a compiler that works; where there is none, {advice}"
    return f"{advice}, or set CC to a compiler"


def conclusion(findings: Sequence[Finding]) -> str:
    """What the findings mean for programs, in a sentence or two."""
    failed = {finding.name for finding in findings if finding.status == "fail"}
    if "compiler" in failed:
        try:
            compile.find()
        except NoCompilerError:
            return "Programs run, but in the NumPy interpreter, slowly: there is no C compiler."
        except CompileError:
            return "Whatever computes raises CompileError until CC is right."
    if failed:
        return f"lazyt does not work as it should here: see {', '.join(sorted(failed))}."
    if any(finding.status == "warn" for finding in findings):
        return (
            "lazyt works. What is marked warn costs speed or a feature; cuda-python, nvrtc and the"
            " CUDA driver matter for NVIDIA GPUs only."
        )
    return "lazyt works, and nothing is missing."


def _run_kernel() -> Finding:
    """Compile, load and run a kernel, the whole way that a plan goes."""
    kernel = KernelSource("lz_self_test", _SELF_TEST, (), 1)
    entry = "void lz_plan(char **slots, int threads) { lz_self_test(slots[0], threads); }"
    slots, launches = (Slot("output", 0, 0, 4096),), (Launch("lz_self_test", (0,)),)
    program = Program("c", (), (kernel,), entry, slots, launches, 0)
    output = Buffer(4096)
    try:
        execute.load(program, "asked for by the doctor").run([], [output])
    except LazytError as error:
        return Finding("kernel", "fail", str(error), "see the compiler's message")
    values = (ctypes.c_int * 1024).from_address(output.ptr)
    if list(values) != [3 * i for i in range(1024)]:
        return Finding("kernel", "fail", "a compiled kernel gave wrong values", "set CC to another")
    return Finding("kernel", "ok", "a kernel compiles, loads and computes")


def _examine_cpu() -> list[Finding]:
    device = devices.cpu()
    caches = ", ".join(f"{size >> 10} KiB" for size in (device.l1, device.l2, device.l3))
    detail = f"{device.arch}, vectors of {device.vector_bytes} bytes, caches of {caches}"
    if device.arch == "x86_64" and not {"avx2", "fma"} <= set(device.features):
        advice = "kernels use what there is; a newer machine would be several times faster"
        return [Finding("cpu", "warn", f"{detail}, without AVX2 and FMA", advice)]
    return [Finding("cpu", "ok", detail)]


def _examine_threads() -> list[Finding]:
    cores, threads = devices.core_count(), team.count()
    detail = f"{threads} threads for {cores} cores"
    if threads > cores:
        advice = "lower LAZYT_THREADS or OMP_NUM_THREADS: threads that share a core wait"
        return [Finding("threads", "warn", detail, advice)]
    if threads < cores:
        advice = "raise LAZYT_THREADS or OMP_NUM_THREADS to use all cores"
        return [Finding("threads", "warn", detail, advice)]
    return [Finding("threads", "ok", detail)]


def _examine_memory() -> list[Finding]:
    return [Finding("memory", "ok", f"{devices.memory_limit() / 2**30:.1f} GiB may be used")]


def _examine_cache() -> list[Finding]:
    place = cache.folder()
    if not config.disk_cache:
        return [Finding("cache", "warn", "switched off", "unset LAZYT_DISK_CACHE to keep plans")]
    if (
        not cache.put_text("doctor", "written", "text")
        or cache.get_text("doctor", "written") is None
    ):
        advice = "make it yours alone (chmod go-w) and writable, or set LAZYT_CACHE_DIR to another"
        told = [event for event in events.recorded("cache") if event.details.get("folder") == place]
        reason = told[-1].reason if told else f"{place} cannot be written"
        return [Finding("cache", "warn", f"{reason}; every process compiles anew", advice)]
    size, entries = cache.usage()
    detail = f"{place}: {entries} programs, {size / 2**20:.1f} of {config.cache_bytes >> 20} MiB"
    if os.statvfs(place).f_flag & getattr(os, "ST_NOEXEC", 0):
        advice = "set LAZYT_CACHE_DIR to a folder from which programs may run, to start faster"
        detail += "; nothing may be executed from it, so programs are copied to load them"
        return [Finding("cache", "warn", detail, advice)]
    return [Finding("cache", "ok", detail)]


def _examine_cuda() -> list[Finding]:
    found = [
        _examine_package("cuda-python", ("cuda-bindings",)),
        _examine_package(
            "nvrtc", tuple(f"nvidia-cuda-nvrtc{end}" for end in ("", "-cu13", "-cu12"))
        ),
    ]
    found += [_examine_emulator(), _examine_nccl()]
    if nvrtc.tool() is None:
        advice = "put nvdisasm of the CUDA toolkit on the PATH to see machine code (LAZYT_DUMP)"
        found.append(Finding("sass", "warn", "no nvdisasm and no cuobjdump", advice))
    else:
        found.append(Finding("sass", "ok", str(nvrtc.tool())))
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        advice = "on a machine with an NVIDIA GPU, install its driver"
        return [*found, Finding("cuda driver", "warn", "no CUDA driver (libcuda.so.1)", advice)]
    return [*found, _count_gpus(driver)]


def _examine_emulator() -> Finding:
    from lazyt.runtime.cuda import emulated

    try:
        command = " ".join(emulated.find_compiler())
    except NoCompilerError as error:
        return Finding("cuda:emu", "warn", str(error), "it compiles what the emulator runs")
    return Finding("cuda:emu", "ok", f"the CUDA emulator compiles with {command}")


def _examine_mpi() -> Finding:
    """What moves host memory between ranks. MPI starts where it is loaded, so a process of no other
    use says which one it is."""
    from lazyt.runtime.ranks import mpi

    if not mpi.is_installed():
        detail = "mpi4py is not installed: ranks move host memory through one process, slowly"
        return Finding("mpi", "warn", detail, f"{mpi.INSTALL}, for several ranks")
    program = (
        "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
        "print(mpi4py.__version__, MPI.Get_library_version().splitlines()[0], sep='\\n')"
    )
    command = [sys.executable, "-c", program]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return Finding("mpi", "warn", "the MPI library of mpi4py says nothing for a minute", "")
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["its process has ended"])[-1]
        advice = f"{mpi.INSTALL}, for several ranks"
        return Finding("mpi", "warn", f"mpi4py finds no MPI library ({why})", advice)
    version, library = done.stdout.splitlines()[:2]
    name = " ".join(library.split())[:60].strip(" ,")
    return Finding("mpi", "ok", f"mpi4py {version} with {name}")


def _examine_nccl() -> Finding:
    from lazyt.runtime.ranks import nccl

    advice = f"{nccl.INSTALL}, for several GPUs"
    if nccl.find() is None:
        return Finding("nccl", "warn", f"no NCCL ({nccl.FILE})", advice)
    try:
        library = nccl.load()
    except LazytError as error:
        return Finding("nccl", "warn", str(error), advice)
    return Finding("nccl", "ok", f"NCCL {library.version_text} at {library.path}")


def _examine_package(name: str, distributions: tuple[str, ...]) -> Finding:
    from importlib import metadata

    for distribution in distributions:
        try:
            return Finding(name, "ok", f"{distribution} {metadata.version(distribution)}")
        except metadata.PackageNotFoundError:
            continue
    advice = f"{nvrtc.INSTALL}, for NVIDIA GPUs"
    return Finding(name, "warn", f"{distributions[0]} is not installed", advice)


def _count_gpus(driver: ctypes.CDLL) -> Finding:
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        detail = f"the CUDA driver sees no GPU (status {status})"
        return Finding("cuda driver", "warn", detail, "check nvidia-smi")
    return Finding("cuda driver", "ok", f"{count.value} GPUs")

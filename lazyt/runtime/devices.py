"""What this machine is: cores, CPU features, cache sizes and memory limits, each read once.

Everything is read lazily from the operating system's files and never by starting a process, so
that asking costs microseconds. Inside a container the container's limits count, not the host's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

from lazyt.config import config
from lazyt.ir.decisions import PLAIN, Traits

# arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), see the kernel's Documentation/x86/xstate.
_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA = 158, 0x1023, 18
_UNLIMITED = 1 << 60  # cgroup v1 writes a number near 2**63 where there is no limit


@dataclass(frozen=True)
class Device:
    """A device as the cost model and the compiler see it.

    Attributes:
        name: ``cpu``.
        arch: machine name such as ``x86_64`` or ``aarch64``.
        features: sorted instruction set flags, as the operating system names them.
        cores: cores that this process may use.
        l1: bytes of the first-level data cache of one core.
        l2: bytes of the second-level cache of one core.
        l3: bytes of the last-level cache that cores share.
        vector_bytes: width of the widest usable vector register.
        memory: bytes that this process may allocate.
        traits: what it does differently from others.
    """

    name: str
    arch: str
    features: tuple[str, ...]
    cores: int
    l1: int
    l2: int
    l3: int
    vector_bytes: int
    memory: int
    traits: Traits = PLAIN


#: The CPU that kernels are printed for instead of this machine's, while there is one.
_other: ContextVar[Device | None] = ContextVar("lazyt_other_cpu", default=None)


def cpu() -> Device:
    """The description of this machine's CPU, or of the one that kernels are printed for."""
    return _other.get() or _own_cpu()


@contextlib.contextmanager
def standing_for(device: Device) -> Iterator[None]:
    """A block in which this thread prints kernels as on another machine. Nothing may be run."""
    token = _other.set(device)
    try:
        yield
    finally:
        _other.reset(token)


@cache
def _own_cpu() -> Device:
    """The description of this machine's CPU."""
    features = cpu_features()
    l1, l2, l3 = _cache_sizes()
    return Device(
        name="cpu",
        arch=platform.machine(),
        features=features,
        cores=core_count(),
        l1=l1,
        l2=l2,
        l3=l3,
        vector_bytes=vector_bytes(),
        memory=memory_limit(),
        traits=Traits(_alone(), _tiled(features), _fetches(), _registers()),
    )


@cache
def vector_bytes() -> int:
    """``cpu().vector_bytes``, for who needs no more: asking about caches takes milliseconds."""
    return _vector_bytes(cpu_features())


def traits() -> Traits:
    """What decides between forms of kernels now: what the CPU can, without matrix registers where
    ``config.matrix_registers`` is off, and without what changes bits where ``config.exact`` is
    on."""
    found = cpu().traits
    if config.exact:
        return found._replace(tiled=frozenset(), alone=found.alone | {"bf16x2"})
    return found if config.matrix_registers else found._replace(tiled=frozenset())


def _tiled(features: tuple[str, ...]) -> frozenset[str]:
    """AMX multiplies bfloat16 and int8 in matrix registers, for processes that Linux lets use them
    when they ask; their threads and children then may, too."""
    kinds = {"amx_bf16": "bf16x2", "amx_int8": "i8x4"}
    found = frozenset(kind for flag, kind in kinds.items() if flag in features)
    if not found or not {"amx_tile", "avx512f"} <= set(features):
        return frozenset()
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return frozenset()
    refused = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_STATE, _TILE_DATA)
    return frozenset() if refused else found


def _alone() -> frozenset[str]:
    """Intel's processors multiply a vector of pairs of bfloat16 in the time of four fused steps of
    float32 (AMD's in that of one), and a pair is two steps."""
    return frozenset({"bf16x2"} if "GenuineIntel" in _first_processor() else ())


def _fetches() -> frozenset[str]:
    """Zen fetches streams by itself: with prefetches of lines 2 KiB ahead, Zen 4 took 1.5 times as
    long for a relu of 24 MB, 1.2 for a sum of two arrays of 32 MB and as long for a GELU of 64 MB,
    where Sapphire Rapids takes 0.8 to 0.9. Rows gain on both."""
    return frozenset({"streams"} if "AuthenticAMD" in _first_processor() else ())


def _registers() -> frozenset[str]:
    """NEON has 32 registers of 16 bytes; SSE and AVX have 16."""
    return frozenset({"32"} if platform.machine() in ("aarch64", "arm64") else ())


@cache
def cpu_features() -> tuple[str, ...]:
    """The CPU's instruction set flags, sorted; empty where the system does not tell."""
    if sys.platform == "darwin":
        text = _sysctl_text("machdep.cpu.features") + " " + _sysctl_text("machdep.cpu.brand_string")
        return tuple(sorted(set(text.lower().split())))
    for line in _first_processor().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return tuple(sorted(set(value.split())))
    return ()


@cache
def cpu_model() -> str:
    """What the CPU calls itself; the machine's kind where the system does not tell."""
    if sys.platform == "darwin":
        return _sysctl_text("machdep.cpu.brand_string") or platform.machine()
    names = ("model name", "CPU implementer", "CPU part", "CPU variant")
    found = dict.fromkeys(names, "")
    for line in _first_processor().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in found:
            found[key.strip()] = value.strip()
    return " ".join(filter(None, found.values())) or platform.machine()


def native_flag() -> str:
    """What tells gcc and clang to compile for this processor: clang knows ``-march=native`` on
    x86 only."""
    return "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"


@cache
def core_count() -> int:
    """Cores this process may use: the affinity mask, cut to the container's CPU quota."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = _cpu_quota()
    return max(1, min(cores, quota)) if quota else max(1, cores)


@cache
def memory_limit() -> int:
    """Bytes that this process may allocate: memory and swap, cut to the container's limit."""
    total = 0
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith(("MemTotal:", "SwapTotal:")):
            total += int(line.split()[1]) * 1024
    if not total:
        try:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError):  # a system that does not tell: leave it to the allocator
            total = _UNLIMITED
    limits = [_number(t) for t in _cgroup_files("memory.max", "memory", "memory.limit_in_bytes")]
    return min([total, *(limit for limit in limits if 0 < limit < _UNLIMITED)])


def _vector_bytes(features: tuple[str, ...]) -> int:
    if "avx512f" in features:
        return 64
    if "avx" in features or "avx1.0" in features:
        return 32
    return 16


def _cache_sizes() -> tuple[int, int, int]:
    """Data cache bytes by level; modest defaults where the system does not tell."""
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
    if sys.platform == "darwin":
        for level, name in ((1, "hw.l1dcachesize"), (2, "hw.l2cachesize"), (3, "hw.l3cachesize")):
            sizes[level] = _sysctl_number(name) or sizes[level]
        return sizes[1], sizes[2], sizes[3]
    root = "/sys/devices/system/cpu/cpu0/cache/index"
    for index in range(8):
        folder = f"{root}{index}/"
        level, kind = _number(_read(folder + "level")), _read(folder + "type").strip()
        size = _size(_read(folder + "size").strip())
        if kind in ("Data", "Unified") and level in sizes and size:
            sizes[level] = size
    return sizes[1], sizes[2], sizes[3]


def _cpu_quota() -> int:
    """Whole cores that the container's CPU quota amounts to, 0 for no quota."""
    quotas = []
    for text in _cgroup_files("cpu.max", "cpu", ""):
        amount, _, period = text.partition(" ")
        quotas.append((_number(amount), _number(period)))
    for text in _cgroup_files("", "cpu", "cpu.cfs_quota_us"):
        quotas.append((_number(text), 100_000))
    return min((-(-q // p) for q, p in quotas if q > 0 and p > 0), default=0)


@cache
def _cgroup_paths() -> dict[str, str]:
    """Controller name to this process' cgroup path; the name is empty for version 2."""
    paths = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _cgroup_files(unified: str, controller: str, legacy: str) -> list[str]:
    """The text of a control file in this process' cgroup and in all those around it."""
    mounts = [("", unified, "/sys/fs/cgroup")] if unified else []
    if legacy:
        mounts.append((controller, legacy, f"/sys/fs/cgroup/{controller}"))
    texts = []
    for name, file, mount in mounts:
        path = _cgroup_paths().get(name)
        while path is not None:
            texts.append(_read(f"{mount}{path.rstrip('/')}/{file}").strip())
            path = path.rpartition("/")[0] if path.strip("/") else None
    return [text for text in texts if text]


def _first_processor() -> str:
    """The first block of /proc/cpuinfo; reading it whole takes milliseconds on many cores."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = b""
            while b"\n\n" not in text and (chunk := file.read(8192)):
                text += chunk
    except OSError:  # no such file on this system: the caller has a default
        return ""
    return text.partition(b"\n\n")[0].decode(errors="replace")


def _sysctl_text(name: str) -> str:
    size = ctypes.c_size_t(0)
    libc = ctypes.CDLL(None)
    if libc.sysctlbyname(name.encode(), None, ctypes.byref(size), None, 0) or not size.value:
        return ""
    text = ctypes.create_string_buffer(size.value)
    if libc.sysctlbyname(name.encode(), text, ctypes.byref(size), None, 0):
        return ""
    return text.value.decode(errors="replace")


def _sysctl_number(name: str) -> int:
    value, size = ctypes.c_uint64(0), ctypes.c_size_t(8)
    libc = ctypes.CDLL(None)
    failed = libc.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return 0 if failed else value.value


def _read(path: str) -> str:
    """A system file's text, empty where it does not exist or may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _number(text: str) -> int:
    """The whole number in a system file, -1 for other text such as ``max``."""
    try:
        return int(text)
    except ValueError:
        return -1


def _size(text: str) -> int:
    """Bytes from sysfs text such as ``512K``, 0 for other text."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return max(0, _number(text.rstrip("KMG"))) * scale

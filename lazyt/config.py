"""Settings, read once from ``LAZYT_*`` environment variables and changeable at run time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")
_COUNTS = frozenset(
    (
        "cache_bytes",
        "inline_reduce",
        "max_pending_bytes",
        "max_pending_nodes",
        "rank_timeout",
        "threads",
    )
)


def _flag(name: str, default: bool) -> bool:
    raw = os.environ.get(name)
    if raw is None:
        return default
    word = raw.strip().lower()
    if word not in _YES and word not in _NO:
        raise ValueError(f"{name} must be 1, true, yes, on, 0, false, no or off, got {raw!r}")
    return word in _YES


def _count(name: str, default: int) -> int:
    raw = os.environ.get(name)
    if raw is None or not raw.strip():
        return default
    if not raw.strip().isdecimal():
        raise ValueError(f"{name} must be a whole number, not negative, got {raw!r}")
    return int(raw)


def _tier(name: str) -> int | str:
    raw = os.environ.get(name, "").strip().lower() or "auto"
    try:
        return _checked_tier(int(raw) if raw in ("0", "1") else raw)
    except ValueError:
        raise ValueError(f"{name} must be 0, 1 or auto, got {raw!r}") from None


def _checked_tier(value: Any) -> int | str:
    """``value``; raises ValueError when it is none of 0, 1 and ``"auto"``."""
    if isinstance(value, bool) or value not in (0, 1, "auto"):
        raise ValueError(f'tier must be 0, 1 or "auto", got {value!r}')
    found: int | str = value
    return found


def _verification(name: str) -> bool | str:
    raw = os.environ.get(name, "").strip().lower()
    if raw in _YES or raw in _NO:
        return raw in _YES
    try:
        return _checked_verification(raw)
    except ValueError:
        raise ValueError(f"{name} must be 1, 0 or values, got {raw!r}") from None


def _checked_verification(value: Any) -> bool | str:
    """``value``; raises ValueError when it is none of True, False and ``"values"``."""
    if value != "values" and not isinstance(value, (bool, int)):
        raise ValueError(f'verify must be True, False or "values", got {value!r}')
    return value if value == "values" else bool(value)


def _gpus(name: str) -> int:
    if os.environ.get(name, "").strip().isdecimal():
        return _count(name, 0)
    return int(_flag(name, False))


def _share(name: str, default: float) -> float:
    raw = os.environ.get(name)
    if raw is None or not raw.strip():
        return default
    try:
        return _checked_share(float(raw))
    except ValueError:
        raise ValueError(f"{name} must be a number from 0 to 1, got {raw!r}") from None


def _checked_share(value: Any) -> float:
    """``value`` as a float; raises ValueError when it is no number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError(f"memory_budget must be a number from 0 to 1, got {value!r}")
    return float(value)


#: Settings that decide what a plan is, or what is done when one is made: plans that were made under
#: others are not used.
_OF_PLANS = (
    "any_size", "bands", "coalesce_collectives", "dump", "exact", "inline_reduce",
    "matrix_registers", "memory_budget", "tier", "verify",
)  # fmt: skip


class Config:
    """All settings of lazyt; ``lazyt.config`` is the only instance.

    A change holds for all that is computed after it. What decides how a plan is made
    (``any_size``, ``bands``, ``coalesce_collectives``, ``dump``, ``exact``, ``inline_reduce``,
    ``matrix_registers``, ``memory_budget``, ``tier``, ``verify``) is part of what plans, those of
    ``jit`` too, are found by: under other settings others are made. ``tune`` is for plans that are
    made while it is on.

    Attributes:
        cache_dir: folder of the disk cache (``LAZYT_CACHE_DIR``).
        disk_cache: whether compiled plans are kept on disk (``LAZYT_DISK_CACHE``, default on).
        cache_bytes: upper bound of the disk cache in bytes (``LAZYT_CACHE_BYTES``, 1 GiB).
        threads: threads per kernel, 0 for all cores (``LAZYT_THREADS``).
        eager: realize after every operation, with a plan for every node of the graph, so that
            nothing fuses; results are the same to the bit (``LAZYT_EAGER``).
        exact: results have the same bits on every machine, also where that costs speed: fused
            multiply-adds are emulated on CPUs without them, matrix registers and instructions that
            take subnormal numbers as zero are left out, and what is left to LAPACK raises
            ReproducibilityError (``LAZYT_EXACT``).
        interpret: run with the NumPy interpreter instead of compiled kernels (``LAZYT_INTERPRET``).
        load: files that are run when lazyt is imported, with ``:`` between their paths, to register
            passes, ops or targets; processes that lazyt starts load them, too (``LAZYT_LOAD``,
            default none).
        strict_laziness: raise instead of realizing implicitly (``LAZYT_STRICT_LAZINESS``).
        max_pending_nodes: pending graph nodes past which a graph realizes by itself
            (``LAZYT_MAX_PENDING_NODES``, default 4000): in equal parts where it repeats itself, as
            loops do, so that the parts have one plan.
        max_pending_bytes: bytes of pending values past which a graph realizes by itself
            (``LAZYT_MAX_PENDING_BYTES``, default 4 GiB).
        dump: folder that receives the IR after every pass, the kernels and the C of every plan that
            runs, whether it is on disk or not; a process that finds something there writes to a
            folder of its own inside (``LAZYT_DUMP``, default none).
        provenance: record the user's line of every node; read at import
            (``LAZYT_PROVENANCE``, default on).
        emulate_cuda: let the emulator stand for so many GPUs, 1 for yes (``LAZYT_EMULATE_CUDA``).
        emulator_seed: decides in which order the emulator lets warps run
            (``LAZYT_EMULATOR_SEED``, default 0).
        any_size: from the second size of a dimension on, kernels take sizes as arguments, and
            further sizes need no compiler (``LAZYT_ANY_SIZE``, default on).
        tier: what runs a plan: 0, generic kernels for any graph and size, which need no compiler;
            1, fused kernels, compiled before it runs; ``"auto"``, the first at once, and the second
            from when a process in the background has compiled them, for plans that run often or
            long. Results are the same to the bit (``LAZYT_TIER``, default auto).
        progress: say on standard error what is compiled when the program has to wait for it for
            more than a second (``LAZYT_PROGRESS``, default on).
        verify: verify the IR after every pass and every kernel's bounds, of plans that are on disk
            as well; with ``"values"``, also what each stage computes, on inputs of several kinds
            (``LAZYT_VERIFY``).
        inline_reduce: largest reduction unrolled into its consumer, of up to 1024 elements
            (``LAZYT_INLINE_REDUCE``, default 16).
        bands: run contractions and what reads their rows as one launch, some rows at a time, where
            what they hand on would not fit in cache (``LAZYT_BANDS``, default on).
        matrix_registers: multiply bfloat16 and int8 in the CPU's matrix registers, where it has
            them (AMX); sums of bfloat16 are then rounded in another order than fused steps are
            (``LAZYT_MATRIX_REGISTERS``, default on).
        coalesce_collectives: small collectives of a captured function that do not depend on each
            other are one, with the same bits. All ranks have to set it, and to run the function
            with inputs of the same shapes, so that all replay it at the same calls
            (``LAZYT_COALESCE_COLLECTIVES``).
        memory_budget: how much of the memory that computing values again could save a plan uses
            nevertheless: 1 keeps all values, 0 needs the least memory that is found within twice
            the time (``LAZYT_MEMORY_BUDGET``, default 1).
        rank_timeout: seconds after which a rank of several that is not heard of counts as stopped
            (``LAZYT_RANK_TIMEOUT``, default 30).
        tune: let every new plan try other forms of its kernels against the clock, the first time
            that it runs; winners are kept on disk (``LAZYT_TUNE``).
        tune_seconds: how long that may take for a plan (``LAZYT_TUNE_SECONDS``, default 20).
        tune_log: file that gets every form which is tried, with its times, as a line of JSON
            (``LAZYT_TUNE_LOG``, default none).
        tune_strategy: which forms are tried, and in which order: ``climb``, ``random`` or
            ``evolution`` (``LAZYT_TUNE_STRATEGY``, default climb).
    """

    __slots__ = (
        "_max_pending_bytes",
        "_max_pending_nodes",
        "_memory_budget",
        "_of_capture",
        "_of_extensions",
        "_of_plans",
        "_on_limits",
        "_on_threads",
        "_threads",
        "_tier",
        "_verify",
        "any_size",
        "bands",
        "cache_bytes",
        "cache_dir",
        "coalesce_collectives",
        "disk_cache",
        "dump",
        "eager",
        "emulate_cuda",
        "emulator_seed",
        "exact",
        "inline_reduce",
        "interpret",
        "load",
        "matrix_registers",
        "progress",
        "provenance",
        "rank_timeout",
        "strict_laziness",
        "tune",
        "tune_log",
        "tune_seconds",
        "tune_strategy",
    )

    _of_capture: object
    _of_plans: tuple[Any, ...]
    _of_extensions: object

    def __init__(self) -> None:
        object.__setattr__(self, "_of_capture", None)
        object.__setattr__(self, "_of_extensions", (0, 0))
        self._on_limits: list[Callable[[], None]] = []
        self._on_threads: list[Callable[[], None]] = []
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        if not os.path.isabs(home):  # a user without a home: not some folder of the current one
            home = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"cache-{os.getuid()}")
        self.cache_dir: str = os.environ.get("LAZYT_CACHE_DIR") or os.path.join(home, "lazyt")
        self.disk_cache: bool = _flag("LAZYT_DISK_CACHE", True)
        self.cache_bytes: int = _count("LAZYT_CACHE_BYTES", 1 << 30)
        self.threads = _count("LAZYT_THREADS", 0)
        self.eager: bool = _flag("LAZYT_EAGER", False)
        self.emulate_cuda: int = _gpus("LAZYT_EMULATE_CUDA")
        self.emulator_seed: int = _count("LAZYT_EMULATOR_SEED", 0)
        self.exact: bool = _flag("LAZYT_EXACT", False)
        self.interpret: bool = _flag("LAZYT_INTERPRET", False)
        self.load: str = os.environ.get("LAZYT_LOAD", "")
        self.strict_laziness: bool = _flag("LAZYT_STRICT_LAZINESS", False)
        self.max_pending_nodes = _count("LAZYT_MAX_PENDING_NODES", 4000)
        self.max_pending_bytes = _count("LAZYT_MAX_PENDING_BYTES", 4 << 30)
        self.dump: str | None = os.environ.get("LAZYT_DUMP") or None
        self.provenance: bool = _flag("LAZYT_PROVENANCE", True)
        self.rank_timeout: int = _count("LAZYT_RANK_TIMEOUT", 30)
        self.any_size: bool = _flag("LAZYT_ANY_SIZE", True)
        self.tune: bool = _flag("LAZYT_TUNE", False)
        self.tune_seconds: int = _count("LAZYT_TUNE_SECONDS", 20)
        self.tune_log: str | None = os.environ.get("LAZYT_TUNE_LOG") or None
        self.tune_strategy: str = os.environ.get("LAZYT_TUNE_STRATEGY") or "climb"
        self.bands: bool = _flag("LAZYT_BANDS", True)
        self.matrix_registers: bool = _flag("LAZYT_MATRIX_REGISTERS", True)
        self.tier = _tier("LAZYT_TIER")
        self.progress: bool = _flag("LAZYT_PROGRESS", True)
        self.verify = _verification("LAZYT_VERIFY")
        self.inline_reduce: int = _count("LAZYT_INLINE_REDUCE", 16)
        self.coalesce_collectives: bool = _flag("LAZYT_COALESCE_COLLECTIVES", False)
        self.memory_budget = _share("LAZYT_MEMORY_BUDGET", 1.0)

    if not TYPE_CHECKING:  # where type checkers see it, they let unknown names pass

        def __setattr__(self, name: str, value: Any) -> None:
            if name in _COUNTS and (not isinstance(value, int) or value < 0):
                raise ValueError(f"{name} must be a whole number, not negative, got {value!r}")
            if not hasattr(type(self), name):
                raise AttributeError(self._unknown(name))
            super().__setattr__(name, value)
            if name in _OF_PLANS:
                self._note_plans()

    def _note_plans(self) -> None:
        found = tuple([getattr(self, name, None) for name in _OF_PLANS])
        if self._of_capture is not None:
            found = (*found, self._of_capture)
        object.__setattr__(self, "_of_plans", (*found, self._of_extensions))

    def note_extensions(self, number: object) -> None:
        """Plans are found by this number of what programs add to the compiler, too
        (``lazyt/extensions/``)."""
        object.__setattr__(self, "_of_extensions", number)
        self._note_plans()

    def distinguish_plans(self, key: object) -> None:
        """Has ``key`` be part of what plans are found by from now on, as settings are; None for
        nothing more than these."""
        object.__setattr__(self, "_of_capture", key)
        self._note_plans()

    @property
    def of_plans(self) -> tuple[Any, ...]:
        """The settings that decide what a plan is. Whoever looks for a plan compares them."""
        return self._of_plans

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(name, _names(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"lazyt.config has no setting {name!r}{hint}"

    @property
    def max_pending_nodes(self) -> int:
        """Pending nodes past which a graph is computed."""
        return self._max_pending_nodes

    @max_pending_nodes.setter
    def max_pending_nodes(self, value: int) -> None:
        self._max_pending_nodes = value
        self._tell(self._on_limits)

    @property
    def max_pending_bytes(self) -> int:
        """Bytes of pending values past which a graph is computed."""
        return self._max_pending_bytes

    @max_pending_bytes.setter
    def max_pending_bytes(self, value: int) -> None:
        self._max_pending_bytes = value
        self._tell(self._on_limits)

    @property
    def threads(self) -> int:
        """Threads per kernel, 0 for all cores."""
        return self._threads

    @threads.setter
    def threads(self, value: int) -> None:
        self._threads: int = value
        self._tell(self._on_threads)

    @staticmethod
    def _tell(listeners: list[Callable[[], None]]) -> None:
        for listener in listeners:
            listener()

    @property
    def memory_budget(self) -> float:
        """From 1, keep everything, to 0, need the least memory."""
        return self._memory_budget

    @memory_budget.setter
    def memory_budget(self, value: float) -> None:
        self._memory_budget: float = _checked_share(value)

    @property
    def tier(self) -> int | str:
        """0, 1 or ``"auto"``: what runs a plan."""
        return self._tier

    @tier.setter
    def tier(self, value: int | str) -> None:
        self._tier: int | str = _checked_tier(value)

    @property
    def verify(self) -> bool | str:
        """Whether what each stage makes is verified; ``"values"``: with what it computes."""
        return self._verify

    @verify.setter
    def verify(self, value: bool | str) -> None:
        self._verify: bool | str = _checked_verification(value)

    def override(self, **settings: Any) -> AbstractContextManager[None]:
        """Change settings inside a ``with`` block; unknown names raise AttributeError at once."""
        for name in settings:
            if not hasattr(type(self), name):
                raise AttributeError(self._unknown(name))
        return self._overridden(settings)

    @contextmanager
    def _overridden(self, settings: dict[str, Any]) -> Iterator[None]:
        old = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in old.items():
                setattr(self, name, value)

    def __repr__(self) -> str:
        body = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names())
        return f"Config({body})"


def _names() -> list[str]:
    """The names of all settings."""
    return [name.lstrip("_") for name in Config.__slots__ if not name.startswith(("_on_", "_of_"))]


def misspelt(environment: Mapping[str, str]) -> list[str]:
    """What to say of variables that look like a setting's but are none."""
    known = {f"LAZYT_{name.upper()}" for name in _names()}
    found: list[str] = []
    for name in environment:
        if name.startswith("LAZYT_") and name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, sorted(known), 1, 0.85)
            found += [f"{name} is no setting; did you mean {near[0]}?"] if near else []
    return found


config = Config()

#: Whether plans that are made here are tuned, whatever ``config.tune`` says to the whole process.
tuned_here: ContextVar[bool] = ContextVar("tuned_here", default=False)

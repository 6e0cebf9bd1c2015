"""Which tests run in tier 0, by generic kernels, and which in tier 1, by fused ones; which need a
compiler, and which let it do less.

The reasons are in ``conftest.py``.
"""

from __future__ import annotations

import zlib
from typing import Literal

#: Folders with tests about what operations compute, whichever kernels do so.
COMPUTED = frozenset(
    f"tests/{name}"
    for name in (
        "amp", "array_api", "data", "distributions", "errors", "func", "functional", "fx",
        "index_sums", "integer_edges", "nn", "operator_programs", "optim", "overrides",
        "peer_modules", "peer_samples", "reported", "serialization", "signal", "tensor",
        "torch_cases", "transforms",
    )
)  # fmt: skip

#: Folders with tests about kernels, which have nothing to test where there is no compiler.
COMPILED = frozenset(
    f"tests/{name}"
    for name in (
        "bench",
        "captures",
        "codegen",
        "cuda",
        "end_to_end",
        "profiler",
        "runtime",
        "tuning",
    )
)

#: Folders whose fused tests are about graphs, plans and values, and not about what a C compiler
#: makes of a kernel or how long that takes: most of their files have kernels compiled quickly.
QUICKLY = frozenset(
    f"tests/{name}"
    for name in (
        "data", "differential", "end_to_end", "func", "functional", "fx", "nn", "optim",
        "overrides", "passes", "profiler", "reported", "serialization", "tensor", "test_docs.py",
        "transforms",
    )
)  # fmt: skip

#: Their files about compilers, time or memory.
WELL = frozenset(
    f"tests/{name}.py"
    for name in (
        "end_to_end/test_bad_input", "end_to_end/test_compile_progress", "end_to_end/test_faults",
        "end_to_end/test_flat_loops", "end_to_end/test_generic_library",
        "end_to_end/test_gpt_training", "end_to_end/test_interrupted_steps",
        "end_to_end/test_memory_use", "end_to_end/test_plan_settings",
        "end_to_end/test_speed_floor", "end_to_end/test_tiers", "tensor/test_jit_fast_paths",
    )
)  # fmt: skip

#: Tests marked ``turns`` are parts of many random programs; one part in so many runs.
TURNS = 6

#: One in so many of those about operations runs fused.
SHARES = 6


def folder_of(nodeid: str) -> str:
    """The folder that the two sets name."""
    return "/".join(nodeid.split("/")[:2])


def share_of(name: str) -> int:
    """Which share a test, or a part of one, belongs to: the same everywhere and always."""
    return zlib.crc32(name.encode()) % SHARES


def tier_of(nodeid: str, share: int) -> Literal[0, 1]:
    """The tier of a test that no marker decides, when ``share`` runs fused."""
    return 0 if folder_of(nodeid) in COMPUTED and share_of(nodeid) != share % SHARES else 1


def is_its_turn(name: str, share: int) -> bool:
    """Whether a test that takes turns runs now."""
    return zlib.crc32(name.encode()) % TURNS == share % TURNS


def is_compiled_quickly(nodeid: str, is_marked: bool, share: int) -> bool:
    """Whether the kernels of a test in tier 1 are compiled quickly: in all files but a share.

    Args:
        nodeid: of the test.
        is_marked: as fused or lazy; tests about operations that are not are there for values that
            users' kernels give.
        share: which one has users' kernels.
    """
    file = nodeid.partition("::")[0]
    folder = folder_of(file)
    if folder not in QUICKLY or file in WELL or (folder in COMPUTED and not is_marked):
        return False
    return share_of(file) != share % SHARES

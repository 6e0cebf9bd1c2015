"""Which tests run in tier 0, by generic kernels, and which in tier 1, by fused ones; which need a
compiler.

The reasons are in ``conftest.py``.
"""

from __future__ import annotations

import zlib
from typing import Literal

#: Folders with tests about what operations compute, whichever kernels do so.
COMPUTED = frozenset(
    f"tests/{name}"
    for name in (
        "amp", "array_api", "data", "distributions", "errors", "func", "functional", "index_sums",
        "integer_edges", "nn", "operator_programs", "optim", "overrides", "peer_modules",
        "peer_samples", "reported", "serialization", "signal", "tensor", "torch_cases",
        "transforms",
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

#: Tests marked ``turns`` are parts of many random programs; one part in so many runs.
TURNS = 3

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

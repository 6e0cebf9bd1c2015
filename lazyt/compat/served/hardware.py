"""What PyTorch tells of the machine."""

from __future__ import annotations

from lazyt.runtime.devices import cpu_features

__all__ = ["get_cpu_capability"]

#: From the widest vectors on: PyTorch's names, and the instructions that each needs.
_LEVELS = {
    "AVX512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"},
    "AVX2": {"avx2", "fma"},
}


def get_cpu_capability() -> str:
    """``"AVX512"``, ``"AVX2"`` or ``"DEFAULT"``, by what the CPU has, as PyTorch's kernels would be
    chosen. lazyt compiles for the machine whatever it has; packages choose ways to compute by it
    (torchvision resizes bytes as bytes from AVX2 on)."""
    there = set(cpu_features())
    return next((name for name, needed in _LEVELS.items() if needed <= there), "DEFAULT")

"""Switches of CUDA libraries that lazyt does not use. They can be set, as many programs do.

Products are compiled like everything else, in the dtype of their operands, so that a float32
product is one on every device: ``matmul.allow_tf32`` has no effect, on a GPU neither. Use
``autocast``, or tensors of float16 or bfloat16, for lower precision. Attention is one form: fused,
exact, without a choice of library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_switches = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduced": False}


def is_built() -> bool:
    """Whether tensors can be on a GPU: its packages and its driver are there."""
    from lazyt.accelerator import device_count

    return device_count() > 0


class _Products:
    """Switches of matrix products: noted, but without effect."""

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = False
        self.allow_bf16_reduced_precision_reduction = False
        self.allow_fp16_accumulation = False
        self.fp32_precision = "ieee"


class cuFFTPlanCache:
    """A cache of plans that never has any: there is no cuFFT."""

    size = 0
    max_size = 0

    def clear(self) -> None:
        """Nothing to do."""


matmul = _Products()
cufft_plan_cache = cuFFTPlanCache()


def preferred_linalg_library(backend: Any = None) -> str:
    """What factorizations call: kernels, or the CPU's library, whatever is preferred."""
    return "default"


preferred_blas_library = preferred_linalg_library


def flash_sdp_enabled() -> bool:
    """What ``enable_flash_sdp`` was told."""
    return _switches["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Noted, but without effect."""
    _switches["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What ``enable_mem_efficient_sdp`` was told."""
    return _switches["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Noted, but without effect."""
    _switches["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What ``enable_math_sdp`` was told."""
    return _switches["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Noted, but without effect."""
    _switches["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What ``enable_cudnn_sdp`` was told."""
    return _switches["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Noted, but without effect."""
    _switches["cudnn"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What ``allow_fp16_bf16_reduction_math_sdp`` was told."""
    return _switches["reduced"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Noted, but without effect: sums are those of float32."""
    _switches["reduced"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """Whether there is a library for attention: none is used."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Whether a library would be used for attention: none is."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Sets the switches of attention for a block; without effect on what is computed."""
    before = dict(_switches)
    _switches.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _switches.update(before)


def __getattr__(name: str) -> Any:
    reasons = {
        "SDPAParams": "attention is one form, without a choice of library",
        "blas_workspace_size": "cuBLAS is not used",
        "cublas_workspace_size": "cuBLAS is not used",
        "cublaslt_workspace_size": "cuBLAS is not used",
    }
    text = f"module 'lazyt.backends.cuda' has no attribute '{name}'"
    raise AttributeError(f"{text}: {reasons[name]}" if name in reasons else text, name=name)

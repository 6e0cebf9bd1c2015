"""Switches of PyTorch's compilers: programs set them, and nothing here asks them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

__all__ = [
    "TRITON", "activation_memory_budget", "assume_static_by_default", "automatic_dynamic_shapes",
    "cache_size_limit", "capture_dynamic_output_shape_ops", "capture_scalar_outputs",
    "conv_1x1_as_mm", "coordinate_descent_check_all_directions", "coordinate_descent_tuning",
    "donated_buffer", "dynamic_shapes", "epilogue_fusion", "force_fuse_int_mm_with_mul",
    "fx_graph_cache", "inline_inbuilt_nn_modules", "max_autotune", "max_autotune_gemm",
    "optimize_ddp", "patch", "recompile_limit",
    "skip_fwd_side_effects_in_bwd_under_checkpoint", "suppress_errors", "use_mixed_mm", "verbose",
]  # fmt: skip

TRITON = SimpleNamespace(cudagraphs=False, unique_kernel_names=True)
activation_memory_budget = 1.0
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = capture_scalar_outputs = False
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = coordinate_descent_tuning = False
donated_buffer = False
dynamic_shapes = True
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
fx_graph_cache = True
inline_inbuilt_nn_modules = True
max_autotune = max_autotune_gemm = False
optimize_ddp = True
skip_fwd_side_effects_in_bwd_under_checkpoint = False
suppress_errors = False
use_mixed_mm = False
verbose = False


@contextlib.contextmanager
def patch(*args: Any, **changes: Any) -> Iterator[None]:
    """A context, or a decorator, in which nothing is changed."""
    yield

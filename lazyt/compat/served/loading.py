"""What packages take from the private modules of PyTorch's loaders."""

from __future__ import annotations

import re

import numpy as np

__all__ = ["_generate_state", "np_str_obj_array_pattern"]

#: Kinds of NumPy's arrays that make no tensors: bytes, objects, texts.
np_str_obj_array_pattern = re.compile(r"[SaUO]")


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four words of 32 bits that seed NumPy in a worker: those of NumPy's ``SeedSequence``."""
    words = (worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0)
    return [int(word) for word in np.random.SeedSequence(words).generate_state(4)]

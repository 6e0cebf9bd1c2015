"""CUDA's switches can be set, as many programs do, and change nothing on the CPU."""


def is_built() -> bool:
    """Whether tensors can be on a GPU in this version."""
    return False


class _Products:
    """Switches of matrix products."""

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = False
        self.allow_bf16_reduced_precision_reduction = False


matmul = _Products()

"""OpenMP runs the threads of kernels."""


def is_available() -> bool:
    """Whether kernels use OpenMP."""
    return True

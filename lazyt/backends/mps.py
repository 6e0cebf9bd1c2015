"""Apple's GPUs: not supported."""


def is_available() -> bool:
    """Whether tensors can be put on an Apple GPU."""
    return False


def is_built() -> bool:
    """Whether support for Apple GPUs is part of this package."""
    return False

"""What registering a hook returns, by PyTorch's longer name."""

from lazyt.handle.tape import RemovableHandle

__all__ = ["RemovableHandle"]

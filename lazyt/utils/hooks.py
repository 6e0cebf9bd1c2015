"""What registering a hook returns, by PyTorch's longer name."""

from lazyt.autograd.handles import RemovableHandle

__all__ = ["RemovableHandle"]

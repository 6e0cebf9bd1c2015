"""What fake kernels are told: ``torch.library.get_ctx``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, NoReturn

from lazyt.errors import LazytError


class DynamicSizeError(LazytError):
    """A fake kernel says that the size of a result depends on values."""


class FakeImplCtx:
    """What a fake kernel can ask for.

    A size that depends on values is no number before they are computed, and lazyt's shapes are
    numbers: ``new_dynamic_size`` raises, and whoever called the fake kernel does without it.
    """

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> NoReturn:
        """Raises DynamicSizeError."""
        raise DynamicSizeError("the size of a result of this operator depends on values")

    create_unbacked_symint = new_dynamic_size


class _Open(local):
    """How many fake kernels this thread is in."""

    count = 0


_open = _Open()


def get_ctx() -> FakeImplCtx:
    """What a fake kernel can ask for; raises LazytError outside of one.

    Example:
        >>> @lazyt.library.custom_op("sizes::nonzero_rows", mutates_args=())
        ... def nonzero_rows(x: lazyt.Tensor) -> lazyt.Tensor:
        ...     return lazyt.nonzero(x)
        >>> @nonzero_rows.register_fake
        ... def _(x):
        ...     rows = lazyt.library.get_ctx().new_dynamic_size()
        ...     return x.new_empty((rows, x.dim()), dtype=lazyt.int64)
        >>> nonzero_rows(lazyt.tensor([0.0, 2.0])).tolist()
        [[1]]
    """
    if not _open.count:
        raise LazytError(
            "get_ctx() can only be called inside of a fake kernel, as register_fake takes it"
        )
    return FakeImplCtx()


@contextmanager
def in_fake() -> Iterator[Any]:
    """A block that is a fake kernel."""
    _open.count += 1
    try:
        yield
    finally:
        _open.count -= 1


__all__ = ["DynamicSizeError", "FakeImplCtx", "get_ctx", "in_fake"]

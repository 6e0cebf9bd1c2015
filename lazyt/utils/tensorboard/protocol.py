"""The messages of event files, from whichever package is installed that has them."""

from __future__ import annotations

import functools
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

__all__ = ["Protocol", "installed", "plugin"]


class Protocol(NamedTuple):
    """A package's messages and its writer of files.

    Attributes:
        summary: the module of ``Summary``.
        event: the module of ``Event``.
        tensor: the module of ``TensorProto``.
        shape: the module of ``TensorShapeProto``.
        writer: the class that writes events to a file.
    """

    summary: Any
    event: Any
    tensor: Any
    shape: Any
    writer: Any


#: Package of the messages, and module of the writer.
_PACKAGES = (
    ("tensorboard.compat.proto", "tensorboard.summary.writer.event_file_writer"),
    ("tensorboardX.proto", "tensorboardX.event_file_writer"),
)


@functools.cache
def installed() -> Protocol:
    """Of the first package that is there. Raises ModuleNotFoundError, which says what to install,
    where none is."""
    for package, writer in _PACKAGES:
        try:
            summary, event, tensor, shape = (
                import_module(f"{package}.{name}_pb2")
                for name in ("summary", "event", "tensor", "tensor_shape")
            )
            made = import_module(writer).EventFileWriter
            return Protocol(summary, event, tensor, shape, made)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(
        "SummaryWriter writes its files through the package tensorboard, or tensorboardX, and "
        "neither is installed: pip install tensorboard",
        name="tensorboard",
    )


def plugin(module: str, what: str) -> ModuleType:
    """A module of one of TensorBoard's plug-ins. Raises ModuleNotFoundError without tensorboard."""
    try:
        return import_module(f"tensorboard.plugins.{module}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs the package tensorboard: pip install tensorboard", name="tensorboard"
        ) from error

"""Every exception that lazyt raises on purpose, and how it warns.

The classes inherit from the built-in exceptions that PyTorch raises in the same place, so that
``except RuntimeError`` or ``except IndexError`` written for PyTorch keeps working.
"""

from __future__ import annotations

import sys
import warnings
from pickle import UnpicklingError


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warns as of the innermost line that is not lazyt's own: the user's, whatever lies between."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


class LazytError(RuntimeError):
    """Base of all errors that lazyt raises on purpose; PyTorch's own default is RuntimeError."""


class ShapeError(LazytError, ValueError, RuntimeError):
    """Shapes that do not fit together, or a view that cannot be made."""


class RankError(ShapeError, IndexError):
    """Fewer dimensions than a function looks at, where PyTorch raises IndexError."""


class ArgumentError(LazytError, ValueError):
    """A value of an argument that a function does not take, where PyTorch raises ValueError."""


class DTypeError(LazytError, TypeError, RuntimeError):
    """A data type that an operation does not take."""


class NumberError(LazytError, OverflowError):
    """A Python integer beyond 64 bits."""


class NoKernelError(DTypeError, NotImplementedError):
    """A data type for which PyTorch's function has no kernel ("not implemented for")."""


class DeviceError(LazytError, RuntimeError):
    """A device that does not exist, cannot be used, or differs from another operand's."""


class NoValuesError(DeviceError, NotImplementedError):
    """A program reads values of a tensor on the meta device, which has none."""


class BoundsError(LazytError, IndexError):
    """An index, or a dimension number, outside its range."""


class UnsupportedNameError(LazytError, NotImplementedError):
    """A name of PyTorch's that programs can import and lazyt has no function behind."""


class GradientError(LazytError, RuntimeError):
    """A gradient that does not exist, or a wrong request for one."""


class LazinessError(LazytError, RuntimeError):
    """An implicit realize under ``config.strict_laziness``."""


class ParseError(LazytError, ValueError):
    """IR text that cannot be read; names line and column."""


class SourceError(ParseError):
    """C text of a user's that lazyt cannot take; the message names line and column, and shows both.

    Attributes:
        line, column: where, counted from 1; 0 where the text as a whole is meant.
    """

    def __init__(self, text: str, line: int = 0, column: int = 0) -> None:
        super().__init__(text)
        self.line, self.column = line, column


class PassError(LazytError, TypeError):
    """A compiler pass of a program returned what is no graph, or no graph of the same values."""


class VerifyError(LazytError, ValueError):
    """IR that breaks a rule of its language; the IR is printed with the rule beside the line."""


class OutOfMemoryError(LazytError, MemoryError):
    """An allocation that the device refused."""


class LinAlgError(LazytError, RuntimeError):
    """A matrix for which a factorization or a solution does not exist."""


class CompileError(LazytError, RuntimeError):
    """A C or CUDA compiler that failed.

    Attributes:
        command: the command line that was run.
        stderr: what the compiler printed.
        source_path: where the source was kept; None when it could not be written, empty when it
            was an empty loop that was only tried.
    """

    def __init__(self, command: list[str], stderr: str, source_path: str | None) -> None:
        self.command = command
        self.stderr = stderr
        self.source_path = source_path
        kept = f"source kept in {source_path}" if source_path else "the source could not be kept"
        if source_path == "":
            kept = "It cannot compile an empty loop."
        super().__init__(
            f"the compiler failed: {' '.join(command)}\n{stderr.strip()}\n{kept}\n"
            "Set CC to another compiler, or run `python -m lazyt doctor` to check this one."
        )


class CheckpointError(LazytError, UnpicklingError):
    """A saved file that is damaged, of another format, or holds what may not be loaded."""


class ExchangeError(LazytError, BufferError):
    """Memory that cannot be shared with another library."""


class NoCompilerError(LazytError, RuntimeError):
    """No C compiler was found; the message says where it was looked for.

    Attributes:
        tried: a line for each compiler that was looked for, and what is wrong with it.
    """

    def __init__(self, text: str, tried: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.tried = tried


class ReproducibilityError(LazytError, RuntimeError):
    """Under ``config.exact``, something whose bits lazyt cannot promise on every machine."""


class DistributedError(LazytError, RuntimeError):
    """Ranks cannot be reached, have failed, or do not do the same."""


class InternalError(LazytError, RuntimeError):
    """A bug in lazyt itself. The message holds what a report needs."""

    def __init__(self, where: str, what: str, ir: str = "") -> None:
        text = f"internal error in {where}: {what}"
        if ir:
            text += f"\nIR:\n{ir}"
        super().__init__(text + "\nThis is a bug in lazyt. Please report it with the text above.")

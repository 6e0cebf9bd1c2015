"""Programs that are started again when a rank fails: what a rank tells its launcher.

``python -m lazyt.distributed.run --max-restarts N`` ends all ranks when one fails, says which was
the first and why, and starts them again by the same command. A program that writes checkpoints goes
on from its last one. Each rank has a file for its error, whose name is in
``TORCHELASTIC_ERROR_FILE``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

from lazyt.ir.source_lines import is_own_file
from lazyt.runtime.ranks.member import RankFailure

__all__ = ["record"]

F = TypeVar("F", bound=Callable[..., Any])
_FILE = "TORCHELASTIC_ERROR_FILE"


class Failure(NamedTuple):
    """Why a rank has ended.

    Attributes:
        text: the error, with the program's line that raised it.
        time: when, in seconds since 1970.
        follows: whether it ended because another one failed.
    """

    text: str
    time: float
    follows: bool


def is_launched() -> bool:
    """Whether a launcher wants to hear of errors."""
    return _FILE in os.environ


def write_failure(error: BaseException) -> None:
    """Tells the launcher of the first error of this process."""
    path = Path(os.environ.get(_FILE, ""))
    if not path.name or path.exists():
        return
    follows = isinstance(error, RankFailure)
    text = str(error) if follows else f"{type(error).__name__}: {error}"
    where = line_of(error.__traceback__)
    if where and where not in text:
        text += f", at {where}"
    found = Failure(text, time.time(), follows)
    with contextlib.suppress(OSError):  # the launcher still has the status
        part = path.with_suffix(".part")
        part.write_text(json.dumps(found._asdict()))
        part.replace(path)


def line_of(tb: TracebackType | None) -> str:
    """``file:line`` of the program's line that an error came from: below it there are only lines
    of this package. Empty where there is none."""
    frames = traceback.extract_tb(tb)
    while frames and is_own_file(frames[-1].filename):
        frames.pop()
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def read_failure(path: Path) -> Failure | None:
    """What a rank has told; None where it was ended before it could."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Failure(**json.loads(path.read_text()))
    return None


def record(function: F, error_handler: Any = None) -> F:
    """A decorator of a program's main function: the launcher hears of the exception that it raises.

    Args:
        function: what the program does.
        error_handler: accepted, nothing depends on it.

    >>> from lazyt.distributed.elastic import record
    >>> @record
    ... def main() -> int:
    ...     return 3
    >>> main()
    3

    Source: PyTorch's function of this name, ``torch.distributed.elastic.multiprocessing.errors``.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            write_failure(error)
            raise

    return cast("F", called)

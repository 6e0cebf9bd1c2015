"""NCCL, NVIDIA's library that moves values between GPUs, through ctypes.

Nothing is loaded before a program wants it. ``LAZYT_NCCL`` names a file; else the library of the
package ``nvidia-nccl-cu12`` is taken, else what the system's loader finds. The interface is that of
NCCL 2.18, which later versions have, too.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from lazyt.errors import DistributedError

#: What to install.
INSTALL = "pip install 'lazyt-compiler[nccl]'"
#: The file, as wheels and systems call it.
FILE = "libnccl.so.2"
#: The oldest version that has all that is called here (major, minor).
OLDEST = 2, 18

SUCCESS, IN_PROGRESS = 0, 7
#: What results are called in NCCL's header.
RESULTS = {
    1: "ncclUnhandledCudaError", 2: "ncclSystemError", 3: "ncclInternalError",
    4: "ncclInvalidArgument", 5: "ncclInvalidUsage", 6: "ncclRemoteError", 7: "ncclInProgress",
    8: "ncclTimeout",
}  # fmt: skip
#: ``ncclDataType_t`` of bytes: what is moved has no other type here.
UINT8 = 1
#: ``ncclCommSplit`` for a rank that is no member of the new group.
NO_COLOR = -1

_MAGIC = 0xCAFEBEEF
_UNDEFINED = -(1 << 31)  # INT_MIN


class UniqueId(ctypes.Structure):
    """What the ranks of a communicator know it by: 128 bytes."""

    _fields_ = (("internal", ctypes.c_char * 128),)


class Config(ctypes.Structure):
    """``ncclConfig_t`` of NCCL 2.18. A later NCCL reads its size and version, and has defaults for
    what came later."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
        ("cga_cluster_size", ctypes.c_int),
        ("min_ctas", ctypes.c_int),
        ("max_ctas", ctypes.c_int),
        ("net_name", ctypes.c_char_p),
        ("split_share", ctypes.c_int),
    )

    @staticmethod
    def nonblocking() -> Config:
        """Calls return at once and say ``ncclInProgress``, so that a rank that does not come can be
        given up."""
        return Config(
            ctypes.sizeof(Config), _MAGIC, version_code(*OLDEST, 0), 0,
            _UNDEFINED, _UNDEFINED, _UNDEFINED, None, _UNDEFINED,
        )  # fmt: skip


def version_code(major: int, minor: int, patch: int) -> int:
    """A version as NCCL counts from 2.9 on."""
    return major * 10000 + minor * 100 + patch


class NcclError(DistributedError):
    """A call of NCCL that failed.

    Attributes:
        code: its result.
    """

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_OUT, _INT_OUT = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int)
#: The functions that are called, with what they take; all give an ``ncclResult_t``.
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "ncclGetVersion": (_INT_OUT,),
    "ncclGetUniqueId": (ctypes.POINTER(UniqueId),),
    "ncclCommInitRankConfig": (_OUT, _INT, UniqueId, _INT, ctypes.POINTER(Config)),
    "ncclCommSplit": (_POINTER, _INT, _INT, _OUT, ctypes.POINTER(Config)),
    "ncclCommFinalize": (_POINTER,),
    "ncclCommDestroy": (_POINTER,),
    "ncclCommAbort": (_POINTER,),
    "ncclCommGetAsyncError": (_POINTER, _INT_OUT),
    "ncclAllGather": (_POINTER, _POINTER, _SIZE, _INT, _POINTER, _POINTER),
    "ncclBroadcast": (_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclSend": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclRecv": (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}


class Library:
    """A loaded NCCL.

    Args:
        path: its file.

    Attributes:
        version: as ``ncclGetVersion`` counts.

    Raises DistributedError for a file that is no NCCL, or one that is too old.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._functions = ctypes.CDLL(path)
        except OSError as error:
            raise DistributedError(f"NCCL cannot be loaded from {path} ({error})") from None
        try:
            for name in ("ncclGetErrorString", "ncclGetLastError"):
                getattr(self._functions, name).restype = ctypes.c_char_p
            self._functions.ncclGetErrorString.argtypes = (_INT,)
            self._functions.ncclGetLastError.argtypes = (_POINTER,)
            number = ctypes.c_int()
            self.call("ncclGetVersion", ctypes.byref(number))
            self.version = number.value
            if self.version < version_code(*OLDEST, 0):
                raise DistributedError(
                    f"NCCL {self.version_text} at {path} is too old: lazyt needs "
                    f"{'.'.join(map(str, OLDEST))} or later; {INSTALL}"
                )
            for name, types in SIGNATURES.items():
                getattr(self._functions, name).argtypes = types
        except AttributeError as error:
            raise DistributedError(f"{path} is no NCCL that lazyt can use: {error}") from None

    @property
    def version_text(self) -> str:
        """The version for people."""
        return ".".join(map(str, _parts(self.version)))

    def call(self, name: str, *arguments: Any, comm: Any = None) -> int:
        """Calls a function; SUCCESS or IN_PROGRESS. Raises NcclError with NCCL's own words; those
        about ``comm``, where there is one."""
        result = int(getattr(self._functions, name)(*arguments))
        if result in (SUCCESS, IN_PROGRESS):
            return result
        raise self.error(name, result, comm)

    def error(self, name: str, result: int, comm: Any = None) -> NcclError:
        """What a result of a function means."""
        said = self._functions.ncclGetErrorString(result) or b"an error without a text"
        more = self._functions.ncclGetLastError(comm) or b""
        text = f"NCCL: {name}: {said.decode(errors='replace')}"
        text += f" ({RESULTS.get(result, result)})"
        if more.strip():
            text += f": {more.decode(errors='replace').strip()}"
        return NcclError(text, result)

    def new_id(self) -> bytes:
        """What the ranks of a new communicator know it by."""
        made = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return ctypes.string_at(ctypes.byref(made), ctypes.sizeof(made))


def _parts(code: int) -> tuple[int, int, int]:
    if code < 10000:  # up to 2.8
        return code // 1000, code // 100 % 10, code % 100
    return code // 10000, code // 100 % 100, code % 100


def _candidates() -> Iterator[str]:
    """Files of NCCL, the one to take first."""
    named = os.environ.get("LAZYT_NCCL")
    if named:
        yield named
        return
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(folder, "nccl", "lib", FILE)
        if os.path.exists(path):
            yield path
    yield FILE


@cache
def find() -> str | None:
    """The file of NCCL; None where there is none."""
    for path in _candidates():
        if os.sep in path:
            if os.path.exists(path):
                return path
            continue
        try:
            ctypes.CDLL(path)
        except OSError:
            continue
        return path
    return None


@cache
def load() -> Library:
    """NCCL. Raises DistributedError with what to install."""
    path = find()
    if path is None:
        named = os.environ.get("LAZYT_NCCL")
        where = f"LAZYT_NCCL names {named}, which is not there" if named else f"no {FILE} is found"
        raise DistributedError(
            f"backend 'nccl' moves values between GPUs by NCCL, and {where}: {INSTALL}, or name "
            "the file by LAZYT_NCCL; 'gloo' and 'mpi' move values of GPUs through host memory"
        )
    return Library(path)

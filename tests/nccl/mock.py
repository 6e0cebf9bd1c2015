"""NCCL without GPUs: a library of its interface that moves bytes between a test's processes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import textwrap
from pathlib import Path

import pytest

from lazyt.errors import NoCompilerError
from lazyt.runtime.cuda import emulated
from tests.distributed.launching import Ended, finish, start

SOURCE = Path(__file__).with_name("mock_nccl.c")
#: What programs begin with: the emulator is each rank's GPU.
BEGIN = """
import os, sys
if os.environ.get("WITHOUT_MPI"):
    sys.modules["mpi4py"] = None
import lazyt
import lazyt.distributed as dist
from datetime import timedelta
there = "cuda:emu"
name = os.environ.get("DEVICE_ID")
dist.init_process_group({backend!r}, timeout=timedelta(seconds={seconds}), device_id=name)
rank, size = dist.get_rank(), dist.get_world_size()
"""


def library() -> str:
    """The library's file, compiled when it is first needed; skips where nothing compiles it."""
    try:
        compiler = emulated.find_compiler()
    except NoCompilerError:
        pytest.skip("needs a C++ compiler")
    text = SOURCE.read_bytes()
    key = hashlib.sha256(text).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"lazyt-mock-nccl-{os.getuid()}-{key}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")
        flags = ["-x", "c", "-shared", "-fPIC", "-O1", "-o", str(made), str(SOURCE)]
        names = [compiler[0].replace("clang++", "clang").replace("g++", "gcc"), *compiler[1:]]
        subprocess.run([*names, *flags], check=True)
        made.replace(path)
    return str(path)


def variables(folder: Path, **more: str) -> dict[str, str]:
    """What the environment says to a process that uses the library."""
    found = {"LAZYT_NCCL": library(), "MOCK_NCCL_DIR": str(folder)}
    return found | {"MOCK_NCCL_LOG": str(folder / "nccl.log")} | more


def ended(
    program: str, size: int, folder: Path, backend: str = "nccl", seconds: str = "60", **more: str
) -> list[Ended]:
    """How ranks with the library end. ``seconds``: how long a collective may take."""
    whole = BEGIN.format(backend=backend, seconds=seconds) + textwrap.dedent(program)
    return finish(start(whole, size, folder, **variables(folder, **more)))


def run(program: str, size: int, folder: Path, backend: str = "nccl", **more: str) -> list[str]:
    """The last line that each rank prints; fails where one does not end well."""
    found = ended(program, size, folder, backend, **more)
    for rank, (status, text) in enumerate(found):
        assert status == 0, f"rank {rank} of {size}: {status}\n{text}"
    return [text.splitlines()[-1] for _, text in found]


def calls(folder: Path, rank: int | None = None) -> list[str]:
    """What was called, as the library has written it down."""
    lines = (folder / "nccl.log").read_text().splitlines()
    assert not [line for line in lines if line.startswith("refused")], lines
    return [line for line in lines if rank is None or f" rank={rank} " in f"{line} "]

"""The beginning of a nursery: ``python launch.py FRAMEWORK THREADS DEVICE SOCKET TREE``.

It imports the framework and makes workers, as ``processes`` asks.

Only lazyt's own processes load lazyt: for the others the package is a mere place of modules, so
that neither its import nor its memory is part of what they need.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import socket
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
#: In the place of a folder: the lazyt that the interpreter finds by itself.
INSTALLED = "-"


class _AsProgram(importlib.machinery.SourceFileLoader):
    """Runs a module of ``lazyt.bench`` under a name outside of lazyt. ``lazyt.jit`` tells the
    user's code from its own by that, and must see in a benchmark what it sees in any program."""

    def exec_module(self, module: types.ModuleType) -> None:
        code: Any = self.get_code(self.name)
        if not self.is_package(self.name):
            module.__name__ = f"program.{self.name}"
            sys.modules[module.__name__] = module  # dataclasses look their module up
        exec(code, module.__dict__)


class _Finder:
    """Finds the modules of ``lazyt.bench``: this package's, whichever lazyt is timed."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        spec = None
        if name == "lazyt.bench":
            path = [str(PACKAGE)]
        if name == "lazyt.bench" or name.startswith("lazyt.bench."):
            spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.origin is not None:
            spec.loader = _AsProgram(name, spec.origin)
        return spec


#: What takes long to import. The others' imports read settings that differ between workers.
IMPORTS = {
    "torch": ("torch",),
    "compile": ("torch", "torch._dynamo", "torch._inductor.compile_fx"),
    "jax": ("jax",),
    "lazyt": ("lazyt",),
    "lazy": ("lazyt",),
    "exact": ("torch",),
}


def main() -> None:
    """Prepares the process, imports the framework and waits for requests until the line ends."""
    framework, threads, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    line, tree = socket.socket(fileno=int(sys.argv[4])), sys.argv[5] or str(PACKAGE.parent)
    if hasattr(os, "sched_setaffinity"):
        # The one limit that every framework respects.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    # The folder of this file is not a place to import from: its modules have everyday names.
    sys.path[:1] = [] if tree == INSTALLED else [tree]
    # Problems of a user's file are loaded with lazyt, and the reference has to know them.
    is_reference = framework == "reference" and bool(os.environ.get("LAZYT_LOAD"))
    # Networks have lazyt as their reference where there is no PyTorch.
    is_reference |= framework == "exact" and importlib.util.find_spec("torch") is None
    if framework not in ("lazyt", "lazy", "machine") and not is_reference:
        package = types.ModuleType("lazyt")
        package.__path__ = [str(PACKAGE)]
        package.__dict__["__getattr__"] = _name_of_lazyt
        sys.modules["lazyt"] = package
    sys.meta_path.insert(0, _Finder)
    if framework == "machine":
        os.environ.pop("LAZYT_LOAD", None)  # it runs nothing of a user's
    trouble = ""
    with contextlib.suppress(ImportError):  # the worker says so
        trouble = _import(("lazyt",) if is_reference else IMPORTS.get(framework, ()))
    worker: Any = importlib.import_module("lazyt.bench.worker")
    worker.load_error = trouble
    children: set[int] = set()
    while True:
        message, files, _, _ = socket.recv_fds(line, 1 << 16, 2)
        if not message:
            for child in children:  # those whose end nobody awaited; they may stand still
                os.kill(child, signal.SIGKILL)
            return
        request = json.loads(message)
        if "await" in request:
            children.discard(request["await"])
            line.sendall(
                str(os.waitstatus_to_exitcode(os.waitpid(request["await"], 0)[1])).encode()
            )
            continue
        child = os.fork() if request["fork"] else 0
        if child:
            children.add(child)
            for number in files:
                os.close(number)
            line.sendall(str(child).encode())
            continue
        if not request["fork"]:
            line.sendall(str(os.getpid()).encode())
        line.close()
        _work(worker, (framework, threads, device), files, Path(request["folder"]))
        sys.stdout.flush()
        if request["fork"]:
            os._exit(0)  # what frameworks do at their end may take seconds
        return


def _name_of_lazyt(name: str) -> object:
    """What files that lazyt is to load get of it where only a peer is."""
    return importlib.import_module("lazyt.bench.loading").name_of_lazyt(name)


def _import(names: Sequence[str]) -> str:
    """Imports these. Files that lazyt is to load may say ``import torch`` and get lazyt; returns
    why one of them cannot be loaded."""
    loads = os.environ.pop("LAZYT_LOAD", "") if names == ("lazyt",) else ""
    for name in names:
        importlib.import_module(name)
    if not loads:
        return ""
    importlib.import_module("lazyt.compat.torch_alias").install()
    extensions: Any = importlib.import_module("lazyt.extensions")
    try:
        extensions.load_all(loads.split(os.pathsep))
    except extensions.LoadError as error:
        return str(error)
    return ""


def _work(worker: Any, words: tuple[str, int, str], files: list[int], folder: Path) -> None:
    """Answers requests that come through the first file; what is printed goes to the second."""
    caches = {
        "LAZYT_CACHE_DIR": "lazyt",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "XDG_CACHE_HOME": "cache",
        "CACHEDB": "tinygrad.db",
    }
    os.environ.update({name: str(folder / place) for name, place in caches.items()})
    for stream in (1, 2):
        os.dup2(files[1], stream)
    with socket.socket(fileno=files[0]) as line, line.makefile("rw", encoding="utf-8") as talk:
        worker.main(*words, talk)


if __name__ == "__main__":
    main()

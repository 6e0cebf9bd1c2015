"""What the mock driver's library hands out: streams of work that waits, kernels, graphs."""

from __future__ import annotations

import ctypes
import functools
import re
from collections import deque
from collections.abc import Callable

from lazyt.codegen.cuda.target import device_helpers
from lazyt.runtime.cuda import emulated

Work = Callable[[], None]


class Event:
    """A mark; ``ready`` once its stream has come to it."""

    def __init__(self) -> None:
        self.ready = True
        self.stream: Stream | None = None


class Stream:
    """Work that waits."""

    def __init__(self) -> None:
        self.work: deque[Work] = deque()

    def __int__(self) -> int:
        return id(self)

    def add(self, work: Work) -> None:
        """To the queue."""
        self.work.append(work)

    def drain(self) -> None:
        """Do all of it."""
        while self.work:
            self.work.popleft()()


class Function:
    """A kernel of a module."""

    def __init__(self, library: ctypes.CDLL, name: str, arity: int) -> None:
        self.run = emulated.entry(library, name)
        self.name, self.arity = name, arity
        self.most_shared = 48 << 10


class Settings:
    """What a kernel's node is made of."""

    func: Function
    kernelParams: int
    gridDimX = blockDimX = gridDimY = gridDimZ = blockDimY = blockDimZ = sharedMemBytes = 0


class Node:
    """A launch in a graph."""

    def __init__(self, work: Work) -> None:
        self.work = work


class Executable:
    """A graph as it can be launched."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes, self.work = list(nodes), [node.work for node in nodes]


class _Place:
    type, id = "", -1


class Access:
    """Who may use a pool's memory."""

    def __init__(self) -> None:
        self.location, self.flags = _Place(), ""


class Module:
    """A loaded image: the source of a program."""

    def __init__(self, image: bytes) -> None:
        source = image.decode().removeprefix(device_helpers("cuda"))
        found = re.findall(r"__global__ void __launch_bounds__\([\d, ]+\) (\w+)\(([^)]*)\)", source)
        self.arity = {name: len(parameters.split(",")) for name, parameters in found}
        self.library = emulated.open_library(_built(source, tuple(self.arity)))


@functools.cache
def _built(source: str, names: tuple[str, ...]) -> bytes:
    """Kernels as a shared object: tests load the same ones again and again."""
    return emulated.build(device_helpers("emulator") + source, names)

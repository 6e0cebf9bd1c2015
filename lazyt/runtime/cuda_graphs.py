"""CUDA graphs of kernel launches: built node by node, so that nodes can be given other buffers.

A graph that was recorded from a stream would be tied to the addresses of that time. Here the
launches of a plan are added as nodes, and a plan that runs on other memory changes the nodes that
are concerned: about a microsecond each, where copies of inputs into fixed places would cost
their bytes and outputs could not be elsewhere at all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.runtime.cuda_driver import GraphLaunch

_POINTER = ctypes.sizeof(ctypes.c_void_p)


class Arguments:
    """A kernel's parameters, all pointers, in the form that the driver takes.

    Attributes:
        address: where the addresses of the parameters are; valid while the object lives.
    """

    __slots__ = ("_places", "_values", "address")

    def __init__(self, pointers: Sequence[int]) -> None:
        count = max(len(pointers), 1)
        self._values = (ctypes.c_void_p * count)(*pointers)
        start = ctypes.addressof(self._values)
        self._places = (ctypes.c_void_p * count)(*range(start, start + _POINTER * count, _POINTER))
        self.address = ctypes.addressof(self._places)

    def change(self, pointers: Sequence[int]) -> None:
        """Other pointers, as many as before."""
        for place, pointer in enumerate(pointers):
            self._values[place] = pointer


class LaunchGraph:
    """Launches that the driver makes as one.

    Args:
        lib: the bindings.
        call: calls a function of the driver by its name, and raises CudaError.
        launches: in their order; each waits for the one before.

    Attributes:
        executable: what can be launched.
    """

    def __init__(self, lib: Any, call: Callable[..., Any], launches: Sequence[GraphLaunch]) -> None:
        self._call = call
        self._nodes: list[Any] = []
        self._settings: list[Any] = []
        self._arguments: list[Arguments] = []
        self._graph = call("cuGraphCreate", 0)
        self.executable: Any = None
        try:
            for function, grid, pointers in launches:
                arguments = Arguments(pointers)
                settings = lib.CUDA_KERNEL_NODE_PARAMS()
                settings.func = function
                settings.gridDimX, settings.gridDimY, settings.gridDimZ = grid.blocks, 1, 1
                settings.blockDimX, settings.blockDimY, settings.blockDimZ = grid.threads, 1, 1
                settings.sharedMemBytes = grid.shared_bytes
                settings.kernelParams = arguments.address
                before = self._nodes[-1:]
                node = call("cuGraphAddKernelNode", self._graph, before, len(before), settings)
                self._nodes.append(node)
                self._settings.append(settings)
                self._arguments.append(arguments)
            self.executable = call("cuGraphInstantiate", self._graph, 0)
        except Exception:
            self.end()
            raise

    def change(self, number: int, pointers: Sequence[int]) -> None:
        """Give a launch other buffers, from the next run on."""
        self._arguments[number].change(pointers)
        self._call(
            "cuGraphExecKernelNodeSetParams",
            self.executable,
            self._nodes[number],
            self._settings[number],
        )

    def end(self) -> None:
        """Forget both forms of the graph: nodes are named by the first, so it lives as long."""
        if self.executable is not None:
            self._call("cuGraphExecDestroy", self.executable)
        self._call("cuGraphDestroy", self._graph)

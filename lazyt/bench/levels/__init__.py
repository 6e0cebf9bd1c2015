"""Problems in three levels: single functions, chains of them, and whole networks.

They are written after the titles of KernelBench (Stanford's benchmark of generated kernels), with
its numbers and its interface, so that whoever knows a problem there finds it here: a class of a
network, what it is made with, and what it is called with. The modules of this folder are plain
programs that say ``import torch``; ``lazyt.bench.networks`` reads their declarations and runs them
under PyTorch or under lazyt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def problem(
    level: int,
    number: int,
    title: str,
    inputs: str,
    init: tuple[object, ...] = (),
    tolerance: float = 1e-4,
    **sizes: int | tuple[int, int, int],
) -> Callable[[_Class], _Class]:
    """Declares a class to be a problem. All arguments are literals, read from the source text.

    Args:
        level: 1 for a function, 2 for a chain, 3 for a network.
        number: KernelBench's number of the problem of this title.
        title: its name, of lower-case words.
        inputs: descriptions of the tensors that it is called with, as in ``bench.problems``.
        init: what the class is made with; texts such as ``"2*n"`` are sizes.
        tolerance: largest error allowed, relative to the largest value of a result.
        sizes: what letters stand for: when tests run, on a CPU, and on a GPU.
    """
    return lambda declared: declared

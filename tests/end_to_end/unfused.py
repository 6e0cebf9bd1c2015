"""Kernels of single operations in the place of generic ones."""

from __future__ import annotations

from lazyt.codegen.choices import Fusing
from lazyt.making import Subject
from lazyt.runtime import execute
from lazyt.runtime.execute import Executable


def unfused(subject: Subject, where: str) -> tuple[Executable, None]:
    """What runs a graph one operation after the other."""
    program, _ = subject.reread().compile(None, Fusing(members=1))
    return execute.load_once(program), None

"""Random programs over PyTorch's API, and what they show: shapes, sharing, histories, values.

A program is a list of Python statements (``program``), made from a seed (``making``, by what the
modules ``making_...`` register with ``maker``). A ``machine`` runs it on any module with that API
and notes after every statement all that can be seen without computing (``observing``), and values
where the program looks. ``comparing`` finds the first difference between two runs, ``minimizing``
deletes what a difference does not need, ``settings`` runs programs under settings that must not
change anything, and ``captured`` makes functions of their statements for ``lazyt.jit``.

>>> from lazyt.testing.programs import difference, make_program
>>> difference(make_program(3), {"interpret": True}, {"tier": 0}) is None
True
"""

from lazyt.testing.programs.comparing import Difference, first_difference
from lazyt.testing.programs.making import make_program
from lazyt.testing.programs.minimizing import minimize
from lazyt.testing.programs.program import Program
from lazyt.testing.programs.settings import SETTINGS, difference, run

__all__ = [
    "SETTINGS",
    "Difference",
    "Program",
    "difference",
    "first_difference",
    "make_program",
    "minimize",
    "run",
]

"""Functions, chains of them and networks, after the titles of KernelBench's three levels."""

from __future__ import annotations

from lazyt.bench.networks.building import declared
from lazyt.bench.problems import PROBLEMS

for _problem in declared():
    if _problem.name in PROBLEMS:
        raise ValueError(f"there are two problems called {_problem.name}")
    PROBLEMS[_problem.name] = _problem

"""Scoring kernels of others, in C, CUDA C and Python.

Each runs in a process of its own, on inputs that are made for that one call and that nobody can
know. The clock and the expected results are in the judge's process; every call that is timed is
checked. ``python -m lazyt judge`` is the command, and ``docs/research/judge.md`` the page.
"""

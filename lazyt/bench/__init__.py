"""Timing lazyt beside other frameworks: problems, processes that run them, and reports.

``python -m lazyt bench`` is the command. ``problems`` says what a problem is, the modules of
``suites`` list them, ``frameworks`` runs one of them in one framework inside of ``worker``'s
process, ``session`` lets the processes take turns, and ``results`` and ``report`` show what came
out.
"""

from lazyt.bench.declare import workload as workload

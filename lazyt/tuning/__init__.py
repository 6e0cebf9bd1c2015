"""Tuning by the clock: other forms of a plan's kernels are tried on the plan's own data.

``found.py`` is what was found, ``kernels.py`` searches the forms of one kernel, ``tuning/plans.py``
goes through a plan, ``bench/session.py`` decides which plans have their turn and for how long.
"""

"""Tuning by the clock: other forms of a plan's kernels are tried on the plan's own data.

``found.py`` is what was found, ``kernels.py`` searches the forms of one kernel, ``plans.py`` goes
through a plan, ``session.py`` decides which plans have their turn and for how long.
"""

"""Digests of what programs compute, to compare machines by: ``python -m lazyt doctor --digests``.

``programs`` has the programs, ``golden`` their digests and the comparison, ``report`` what a person
on another machine can send.
"""

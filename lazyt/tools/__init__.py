"""Command line tools: ``python -m lazyt opt``, ``show`` and ``doctor``."""

"""Captures: all that compiling and running a program made, as a folder of text.

``capture`` writes one, and ``python -m lazyt capture``, ``replay``, ``diff`` and ``report`` work on
them. ``docs/research/capture.md`` says what is in a folder.
"""

from lazyt.tools.captures.recorder import capture as capture

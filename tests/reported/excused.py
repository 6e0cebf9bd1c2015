"""Values that are not PyTorch's, with the reasons."""

from __future__ import annotations

#: A case, a pattern that matches whole labels, and why lazyt's value is another one.
EXCUSED: list[tuple[str, str, str]] = []

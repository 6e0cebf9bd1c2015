"""Positions in the user's program."""

from __future__ import annotations

from lazyt.ir.positions import source_text


def test_equal_code_of_two_files_is_told_apart() -> None:
    first, second = (compile("x = 1\ny = 2\n", name, "exec") for name in ("a.py", "b.py"))
    last = len(first.co_code) - 2
    assert [source_text((code, last)) for code in (first, second)] == ["a.py:2", "b.py:2"]
    assert source_text((first, 0)).startswith("a.py:") and source_text(None) == "<unknown>"

"""Options of the test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes the files under tests/golden instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")

"""Options of the test suite, and a disk cache of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lazyt.config import config


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` writes the files under tests/golden instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Plans of the tests stay out of the user's cache, unless a folder was named."""
    if "LAZYT_CACHE_DIR" in os.environ:
        yield
        return
    folder = str(tmp_path_factory.mktemp("lazyt-cache"))
    os.environ["LAZYT_CACHE_DIR"] = folder  # for the processes that tests start
    with config.override(cache_dir=folder):
        yield
    del os.environ["LAZYT_CACHE_DIR"]

"""Settings that do not exist are named, with what they may have been meant to be."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import lazyt
from lazyt.config import misspelt


def test_unknown_settings_are_refused_at_once() -> None:
    with pytest.raises(AttributeError, match="no setting 'thread'; did you mean 'threads'"):
        setattr(lazyt.config, "thread", 3)  # noqa: B010
    with pytest.raises(AttributeError, match="did you mean 'threads'"):
        lazyt.config.override(thread=3)
    with pytest.raises(AttributeError, match=r"no setting 'zzz'$"):
        lazyt.config.override(threads=1, zzz=3)
    assert not hasattr(lazyt.config, "thread")


def test_misspelt_variables_are_named() -> None:
    (said,) = misspelt({"LAZYT_THREDS": "2"})
    assert said == "LAZYT_THREDS is no setting; did you mean LAZYT_THREADS?"
    assert not misspelt(
        {"LAZYT_THREADS": "2", "LAZYT_BENCH_PYTHON": "p", "LAZYT_TEST_RATE": "1", "PATH": ""}
    )
    program = [sys.executable, "-c", "import lazyt"]
    environment = {**os.environ, "LAZYT_THREDS": "2"}
    run = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert "UserWarning: LAZYT_THREDS is no setting" in run.stderr


def test_only_tensors_are_computed() -> None:
    with pytest.raises(TypeError, match="realize expects tensors, not int"):
        lazyt.realize(3)  # type: ignore[arg-type]

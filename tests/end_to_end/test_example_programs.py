"""The examples written for PyTorch: each runs, shortly, by ``python -m lazyt run``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


def run(folder: Path, name: str, *options: str) -> str:
    """What ``examples/<name>.py --short`` prints, run in ``folder`` on the tests' disk cache."""
    program = str(ROOT / "examples" / f"{name}.py")
    environment = {**os.environ, "PYTHONPATH": python_path(ROOT), "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-m", "lazyt", "run", program, *options],
        capture_output=True, text=True, timeout=500, env=environment, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "leaves" not in done.stderr, "a step was not captured: " + done.stderr
    return done.stdout


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found[1])


def check_picture(path: Path) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert not path.exists()
    else:
        assert path.read_bytes().startswith(PNG)


NAMES = sorted(
    path.stem
    for path in (ROOT / "examples").glob("*.py")
    if path.stem not in ("digits", "digit_images", "training_display")
)


def test_every_example_says_what_it_is(tmp_path: Path) -> None:
    assert len(NAMES) == 9
    for name in NAMES:
        text = (ROOT / "examples" / f"{name}.py").read_text()
        assert f"python -m lazyt run examples/{name}.py" in text
        assert "lazyt" not in text.split('"""')[2], "a PyTorch program would not name it"
    assert "--short" in run(tmp_path, "forces", "--help")


def test_convolutional_network(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    shown = run(tmp_path, "digits_cnn", "--short")
    assert number(r"test accuracy ([\d.]+)%", shown) > 75
    check_picture(tmp_path / "digits_cnn.png")


def test_character_gpt(tmp_path: Path) -> None:
    shown = run(tmp_path, "char_gpt", "--short")
    assert 2 < number(r"on other text: ([\d.]+) nats", shown) < 4.5


def test_autoencoder(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    shown = run(tmp_path, "autoencoder", "--short")
    assert number(r"test images: ([\d.]+) nats", shown) < 36  # an even grey gives 44
    check_picture(tmp_path / "digits_drawn.png")


def test_forces(tmp_path: Path) -> None:
    shown = run(tmp_path, "forces", "--short")
    assert (
        number(r"error of the forces ([\d.]+)", shown) < number(r"their size ([\d.]+)", shown) / 2
    )
    check_picture(tmp_path / "potential.png")


def test_mixed_precision(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    shown = run(tmp_path, "mixed_precision", "--short")
    rows = re.findall(r"^(b?float\d+) +([\d.]+) +([\d.]+)%", shown, re.MULTILINE)
    assert [name for name, *_ in rows] == ["float32", "bfloat16", "float16"]
    losses = [float(loss) for _, loss, _ in rows]
    assert max(losses) - min(losses) < 0.1 and losses[0] != losses[1]
    assert all(float(share) > 40 for *_, share in rows)


def test_gradient_accumulation(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    shown = run(tmp_path, "accumulation", "--short", "--parts", "4")
    assert number(r"difference: ([\d.e+-]+) of the losses", shown) < 1e-5
    assert number(r"losses, ([\d.e+-]+) of the weights", shown) < 1e-5


def test_custom_function(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    shown = run(tmp_path, "binary_weights", "--short")
    assert number(r"test accuracy ([\d.]+)%", shown) > 85
    check_picture(tmp_path / "weights.png")


def test_alignment(tmp_path: Path) -> None:
    shown = run(tmp_path, "alignment", "--short")
    assert number(r"off by ([\d.]+) degrees", shown) < 1.5
    assert number(r"([\d.]+) of them mirrored", shown) == 0
    assert abs(number(r"points ([\d.]+)", shown) - 0.05 * 3**0.5) < 0.01


def test_tracking(tmp_path: Path) -> None:
    shown = run(tmp_path, "tracking", "--short")
    error = number(r"the filter by ([\d.]+)", shown)
    assert error < 0.6 * number(r"measurements off by ([\d.]+)", shown)
    assert 0.8 < error / number(r"it expects: ([\d.]+)", shown) < 1.25

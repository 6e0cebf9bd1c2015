"""One file outside of the package adds a pass, an op and a scalar function; each of its edits is
seen by the next process, whatever is on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lazyt.runtime.cpu import compile
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "research" / "scaled_product.py"
pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")

#: What is compiled with the file: says what it computed, and what was compiled for it.
PROGRAM = """
import json, sys
import lazyt
from lazyt.runtime.cpu import compile
import scaled_product as mine

lazyt.config.tier = {tier}
run = lazyt.jit if {captured} else lambda f: f
x = lazyt.linspace(-1, 1, 12).reshape(3, 4).realize()
w = lazyt.ones(4, 2).realize()
product = run(lambda x: (x * 0.125) @ w)
other = run(lambda x: (0.125 * x) @ w)
step, triple = run(mine.soft_step), run(mine.triple)
for _ in range(3):
    found = [f(x).tolist() for f in (product, other, step, triple)]
ends = [lazyt.explain((x * 0.125) @ w).kernels[0].computes[-1]]
ends += [lazyt.explain((0.125 * x) @ w).kernels[0].computes[-1]]
print(json.dumps([found, ends, compile.started]))
"""


def run(folder: Path, tier: object = 1, captured: bool = False) -> Any:
    """What a new process finds, with a file of that folder."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(tier=repr(tier), captured=captured)],
        env={
            **os.environ, "LAZYT_LOAD": str(folder / "scaled_product.py"),
            "LAZYT_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": python_path(ROOT),
        },
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "NotCached" not in done.stderr
    return json.loads(done.stdout)


def edit(folder: Path, *changes: tuple[str, str]) -> None:
    """Writes the example with changes."""
    text = EXAMPLE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "scaled_product.py").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("tier", "captured"), [(1, False), (1, True), ("auto", False), (0, False), (0, True)]
)
def test_edits_are_seen_and_nothing_else_is_compiled(
    tmp_path: Path, tier: object, captured: bool
) -> None:
    row = [-1.0 + 2 * i / 11 for i in range(4)]
    usual = [r / (1 + abs(r)) for r in row]
    edit(tmp_path)
    (product, other, step, triple), ends, _ = run(tmp_path, tier, captured)
    assert product == other and step[0] == pytest.approx(usual, rel=1e-6)
    assert triple[0] == pytest.approx([3 * r for r in row], rel=1e-6)
    if tier != 0:  # generic kernels run the program's own graph
        assert ends == ["map float32[3, 2]"] * 2  # the pass moved the factor behind the product
        again = run(tmp_path, tier, captured)
        assert again[:2] == [[product, other, step, triple], ends]
        assert tier == "auto" or again[2] == 0  # all was on disk

    edit(tmp_path, ('c="x / (1 + lz_abs_@S(x))"', 'c="x / (2 + lz_abs_@S(x))"'))
    changed, _, _ = run(tmp_path, tier, captured)
    assert changed[2][0] == pytest.approx([r / (2 + abs(r)) for r in row], rel=1e-6)
    assert changed[3] == triple and changed[:2] == [product, other]

    edit(tmp_path, ("FACTOR = 3.0", "FACTOR = 5.0"))
    changed, _, _ = run(tmp_path, tier, captured)
    assert changed[3][0] == pytest.approx([5 * r for r in row], rel=1e-6) and changed[2] == step

    edit(tmp_path, ("ops.constant(c, node.dtype)", "ops.constant(2 * c, node.dtype)"))
    changed, _, _ = run(tmp_path, tier, captured)
    if tier != 0:
        assert changed[0] == changed[1] == [[2 * v for v in line] for line in product]

    edit(tmp_path)  # the first version's plans are there still
    before = run(tmp_path, tier, captured)
    assert before[0] == [product, other, step, triple]
    assert tier != 1 or before[2] == 0

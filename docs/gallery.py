"""Makes the pictures of docs/gallery.md anew: runs the examples, and draws a graph.

    python docs/gallery.py

That takes some minutes. The pictures are committed; each is below 100 kB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "gallery"
LIMIT = 100_000

#: What to run for each picture, with FILE for where it goes.
PICTURES = {
    "digits_cnn.png": "run examples/digits_cnn.py --out FILE",
    "autoencoder.png": "run examples/autoencoder.py --out FILE",
    "binary_weights.png": "run examples/binary_weights.py --out FILE",
    "forces.png": "run examples/forces.py --out FILE",
    "attention.svg": "show SCRIPT --name scores -o FILE",
}

SCRIPT = """
import lazyt

queries, keys, values = (lazyt.randn(2, 8, 4).realize() for _ in range(3))
scores = (queries @ keys.mT / 2).softmax(-1) @ values
"""


def make(name: str, command: str) -> None:
    """One picture."""
    path = FOLDER / name
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "attention.py"
        script.write_text(SCRIPT, encoding="utf-8")
        places = {"FILE": str(path), "SCRIPT": str(script)}
        words = [places.get(word, word) for word in command.split()]
        subprocess.run([sys.executable, "-m", "lazyt", *words], cwd=ROOT, check=True)
    size = path.stat().st_size
    if size > LIMIT:
        raise SystemExit(f"{name} has {size} bytes, more than {LIMIT}")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, command in PICTURES.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, command)

"""What sequences of many lengths cost: compilations, and the time of a new length.

python bench/sizes.py --json bench/results/DATE-MACHINE-sizes.json
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import lazyt
from lazyt import nn
from lazyt.plan import planning

lazyt.config.tier = 1  # kernels, before anything runs

COUNT, LEAST, MOST, WIDTH = 50, 16, 512, 256


def compilations() -> list[str]:
    """Why kernels were compiled so far; this file is named without its folders."""
    reasons = [event.reason for event in lazyt.why_compiled() if event.kind == "compile"]
    return [reason.replace(__file__, Path(__file__).name) for reason in reasons]


def measure(any_size: bool, count: int) -> dict[str, object]:
    """``count`` lengths through a jitted transformer block, each called three times."""
    lazyt.manual_seed(0)
    block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    captured = lazyt.jit(block)
    lengths = random.Random(0).sample(range(LEAST, MOST), count)
    first, later, compiled, reasons = [], [], [], []
    with lazyt.no_grad(), lazyt.config.override(any_size=any_size):
        for length in lengths:
            x = lazyt.ones(4, length, WIDTH).contiguous().realize()
            before = len(compilations())
            begin = time.perf_counter()
            captured(x).realize()
            first.append(time.perf_counter() - begin)
            captured(x).realize()
            begin = time.perf_counter()
            captured(x).realize()
            later.append((time.perf_counter() - begin) / length)
            new = compilations()[before:]
            compiled.append(len(new))
            reasons += new
    return {
        "lengths": lengths,
        "sizes that compiled": sum(map(bool, compiled)),
        "compilations": sum(compiled),
        "reasons": reasons,
        "first call, median s": round(statistics.median(first), 4),
        "later call, median us per position": round(1e6 * statistics.median(later), 3),
    }


def main() -> None:
    """Measures both ways, prints and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--count", type=int, default=COUNT)
    options = parser.parse_args()
    found = {}
    for any_size in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            lazyt.config.cache_dir = folder
            planning.clear()
            count = options.count if any_size else min(options.count, 6)
            found["any size" if any_size else "each size by itself"] = measure(any_size, count)
    text = json.dumps(found, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

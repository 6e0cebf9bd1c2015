"""Puts what the steps wrote into three files, however far they came.

    python bench/gpu/collect.py RESULTS OUT

``results.json`` and ``logs.tar.gz`` go to OUT; ``ceilings.sh``, which tells later steps what the
machine reaches, stays in RESULTS.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

#: Larger logs are left out.
MOST_BYTES = 50 << 20


def collect(results: Path, out: Path) -> None:
    """Write the three files, each whole at any moment."""
    merged: dict[str, Any] = {}
    for path in sorted(results.glob("*.json")):
        try:
            merged[path.stem] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            merged[path.stem] = {"unreadable": str(error)}
    partial = out / "results.json.part"
    partial.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    partial.replace(out / "results.json")
    archive = out / "logs.tar.gz.part"
    with tarfile.open(archive, "w:gz") as tar:
        for pattern in ("*.log", "*.lines", "*.csv"):
            for path in sorted(results.glob(pattern)):
                if path.stat().st_size < MOST_BYTES:
                    tar.add(path, path.name)
    archive.replace(out / "logs.tar.gz")
    found = merged.get("probe", {}).get("ceilings", {})
    names = {"COPY": "copy_bytes_per_s", "BF16": "bf16_flops", "FP32": "fp32_flops"}
    lines = [f"export GPU_{name}={found.get(key, 0)}\n" for name, key in names.items()]
    (results / "ceilings.sh").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    collect(Path(sys.argv[1]), Path(sys.argv[2]))

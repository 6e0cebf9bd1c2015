"""Conformance cells on the emulator: with it in the place of a GPU, and with it for all tensors.

    python -m tests.cuda.conformance FOLDER [--only PATTERN] [--timeout S] [--jobs N]

FOLDER has the cells' runner, `run.py`. It runs twice. First the emulator stands for two GPUs, so
that cells that need them run, too; all have to pass. Then new tensors are made there as well. Of
that run a cell may fail only if it is one of those that are about the CPU, and all of them have to.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: Cells that say what is so on the CPU alone: memory that NumPy shares, pinned memory, `cpu` as the
#: device that tensors are on, and `.to("cpu")` that copies nothing. Some print tensors of the CPU,
#: whose device shows where it is not the usual one.
ABOUT_THE_HOST = {
    "creation-from-flat-list", "devices-device-objects", "devices-moving-to-cpu-is-free",
    "devices-same-device-required", "devices-round-trip", "pinned-tensor-on-gpu-machine",
    "streams-async-copy", "training-module-to-device-and-dtype", "numpy-of-own-tensor-is-shared",
    "numpy-earlier-results-do-not-follow", "numpy-dtypes", "numpy-conversions-that-fail",
    "numpy-asarray", "numpy-same-results", "print-names-of-dtypes-devices-sizes",
    "print-dtype-suffix", "print-info-matrix", "numpy-round-trip",
    "views-every-kind-writes-through", "dataloader-pin-memory", "dataloader-workers-keep-order",
    "practical-optimised-training-pipeline",
}  # fmt: skip
#: New tensors are made on the emulator, and printed as those of the CPU are: without their device.
START = """
import lazyt
from lazyt.functional import operators as display

lazyt.set_default_device("cuda")
display.CPU = lazyt.empty(0).device
"""


def run(folder: Path, options: list[str], everything: bool) -> list[dict[str, str]]:
    """The results of all chosen cells: ``id``, ``status`` and ``reason`` of each."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {"LAZYT_EMULATE_CUDA": "2"}
        if everything:
            Path(scratch, "sitecustomize.py").write_text(START, encoding="utf-8")
        paths = [scratch, os.getcwd(), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        report = Path(scratch, "results.json")
        command = [sys.executable, str(folder / "run.py"), "--module", "lazyt", *options]
        subprocess.run([*command, "--json", str(report)], env=environment, check=False)
        cells: list[dict[str, str]] = json.loads(report.read_text(encoding="utf-8"))["cells"]
    return cells


def main() -> int:
    """Both runs; 1 when a cell failed that may not."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.conformance")
    parser.add_argument("folder", type=Path, help="where run.py and the cells are")
    parser.add_argument("--only", help="some cells, as run.py takes them")
    parser.add_argument("--timeout", default="1400", help="seconds that a cell may take")
    parser.add_argument("--jobs", default="1", help="processes")
    chosen = parser.parse_args()
    options = ["--timeout", chosen.timeout, "--jobs", chosen.jobs]
    options += ["--only", chosen.only] if chosen.only else []
    wrong = 0
    for everything in (False, True):
        cells = run(chosen.folder, options, everything)
        failed = [c for c in cells if c["status"] == "failed"]
        bad = [c for c in failed if not (everything and c["id"] in ABOUT_THE_HOST)]
        useless = [c["id"] for c in cells if c["status"] == "passed" and c["id"] in ABOUT_THE_HOST]
        wrong += len(bad) + len(useless) * everything
        passed = sum(c["status"] == "passed" for c in cells)
        where = "all tensors on the emulator" if everything else "the emulator as two GPUs"
        print(f"{where}: {passed} passed, {len(bad)} failed, "
              f"{len(failed) - len(bad)} of the host alone")  # fmt: skip
        for cell in bad:
            print(f"  {cell['id']}: {cell['reason']}")
        for name in useless if everything else ():
            print(f"  {name} passes, and need not be excused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

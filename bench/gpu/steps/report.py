"""What all steps share: a report that is on disk after every check, and small sizes for rehearsals.

Environment:
    GPU_OUT: folder for NAME.json.
    GPU_SMALL: 1 for sizes that suit the emulator.
    GPU_DEVICE: ``cuda`` by default; with LAZYT_EMULATE_CUDA=1 that is the emulator.
    GPU_STEP_SECONDS: how long the step may take.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

OUT = Path(os.environ.get("GPU_OUT") or Path(tempfile.gettempdir()) / "lazyt-gpu-out")
SMALL = os.environ.get("GPU_SMALL") == "1"
DEVICE = os.environ.get("GPU_DEVICE", "cuda")
EMULATED = os.environ.get("LAZYT_EMULATE_CUDA", "0") not in ("", "0")
BEGUN = time.monotonic()
LIMIT = float(os.environ.get("GPU_STEP_SECONDS", "3600"))


def left() -> float:
    """Seconds until the step should be at its end, a little before its limit."""
    return LIMIT - (time.monotonic() - BEGUN) - 3


class Report:
    """Results of a step, written whenever something is added: a killed step leaves them.

    Attributes:
        data: what NAME.json holds: ``passed``, ``failed``, ``skipped``, and what ``put`` added.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = OUT / f"{name}.json"
        self.failed: list[dict[str, str]] = []
        self.skipped: list[str] = []
        self.data: dict[str, Any] = {"step": name, "passed": 0}

    def put(self, key: str, value: Any) -> None:
        """Add a result."""
        self.data[key] = value
        self.write()

    def fail(self, name: str, error: str) -> None:
        """Add a failure."""
        self.failed.append({"name": name, "error": error[:2000]})

    def write(self) -> None:
        """The file, whole at any moment."""
        OUT.mkdir(parents=True, exist_ok=True)
        self.data |= {"failed": self.failed, "skipped": self.skipped}
        self.data["seconds"] = round(time.monotonic() - BEGUN, 1)
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(self.data, indent=1, default=str) + "\n", encoding="utf-8")
        partial.replace(self.path)

    def check(self, name: str, work: Callable[[], Any], needs: float = 0.0) -> Any:
        """Run ``work``, and give what it returns. An error is a failure of this check alone; a
        string that is returned is printed beside the name.

        Args:
            name: what is checked.
            work: the check.
            needs: seconds below which there is no point in beginning; the check is skipped then.
        """
        if left() < needs:
            self.skipped.append(name)
            return None
        begun = time.monotonic()
        try:
            found = work()
        except Exception as error:
            text = f"{type(error).__name__}: {error}".strip()
            print(f"FAILED {name}: {text[:600]}", flush=True)
            traceback.print_exc()
            self.fail(name, text)
            found = None
        else:
            self.data["passed"] += 1
            note = f" {found}" if isinstance(found, str) and found else ""
            print(f"ok {name} {time.monotonic() - begun:.2f}s{note}", flush=True)
        self.write()
        return found

    def end(self, note: str = "") -> NoReturn:
        """Print the line that ``on_device.sh`` repeats, and end the process: 1 after failures."""
        self.write()
        names = ", ".join(one["name"] for one in self.failed[:6])
        line = f"{self.data['passed']} ok, {len(self.failed)} failed"
        if names:
            line += f" ({names}{' ...' if len(self.failed) > 6 else ''})"
        if self.skipped:
            line += f", {len(self.skipped)} left out"
        print(f"SUMMARY {self.name}: {line}{'; ' + note if note else ''}", flush=True)
        sys.stderr.flush()
        os._exit(1 if self.failed else 0)  # what frameworks do at their end may hang


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return sorted(values)[len(values) // 2]

"""The environment without PyTorch that the programs run in, and the processes they run in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ecosystem.entries import FOLDER, ROOT, Entry

BUILD = ROOT / "build" / "ecosystem"
#: What a process may have, unless told otherwise.
MEMORY_GIB = 10


def site_packages(folder: Path) -> Path:
    """Where the environment in the folder has its packages."""
    found = sorted((folder / "lib").glob("python3*/site-packages"))
    if not found:
        raise FileNotFoundError(f"{folder} is no environment: run without --record first")
    return found[0]


def make(folder: Path) -> Path:
    """Makes the environment, or brings it up to date; gives its interpreter.

    Each distribution is installed without what it requires, so that nothing brings PyTorch along:
    requirements.txt names everything. Raises CalledProcessError where pip cannot.
    """
    python, wanted = folder / "bin" / "python", FOLDER / "requirements.txt"
    stamp = folder / "requirements.txt"
    text = wanted.read_text(encoding="utf-8")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == text:
        return python
    if not python.exists():
        print(f"making {folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    print("installing the packages of requirements.txt", file=sys.stderr, flush=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "-r", str(wanted)], check=True)
    there = [name for name in ("torch", "triton") if (site_packages(folder) / name).exists()]
    if there:
        raise RuntimeError(f"{folder} has {', '.join(there)}: the programs would not test lazyt")
    stamp.write_text(text, encoding="utf-8")
    return python


def fingerprint() -> str:
    """Of everything that a result depends on besides its own program: lazyt and this folder."""
    seen = hashlib.sha256()
    own = [p for p in FOLDER.glob("*.py") if p.name in ("child.py", "stages.py", "entries.py")]
    for path in sorted([*(ROOT / "lazyt").rglob("*.py"), *own, FOLDER / "requirements.txt"]):
        seen.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return seen.hexdigest()[:16]


@dataclass(frozen=True)
class Limits:
    """What each process may use."""

    memory_gib: float = MEMORY_GIB
    seconds: float | None = None  # else the entry's own

    def apply(self) -> None:
        """In the process itself, before its program begins."""
        size = int(self.memory_gib * (1 << 30))
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def run(
    entry: Entry, command: list[str], path: list[Path], limits: Limits, wanted: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Runs the entry's program, all its stages or those wanted; what each told, by name.

    A stage that had begun when the process ended has a reason that says how it ended.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONWARNINGS": "ignore",
        "LAZYT_CACHE_DIR": str(BUILD / "cache"),
        "HF_HUB_OFFLINE": "1",
        "MPLBACKEND": "Agg",
        **({"ECOSYSTEM_RECORDS": "1"} if wanted else {}),
    }
    with tempfile.TemporaryDirectory(prefix="ecosystem-") as folder:
        output, log = Path(folder) / "stages.jsonl", BUILD / "logs" / f"{entry.slug}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        with log.open("w", encoding="utf-8") as told:
            process = subprocess.Popen(
                [*command, str(FOLDER / "child.py"), entry.name, str(output), *wanted],
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=limits.apply,
            )
            ended = wait(process, limits.seconds or entry.seconds)
        stages = _read(output)
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    for stage in stages.values():
        if stage.pop("begun", False):
            stage["error"] = ended or f"ended with status {process.returncode}: {''.join(last)}"
    if not stages:
        stages["import"] = {"error": ended or f"did not start: {''.join(last)}"}
    stages["process"] = {"seconds": round(time.monotonic() - start, 1)}
    return stages


def wait(process: subprocess.Popen[bytes], seconds: float, stop: bool = True) -> str:
    """Why the process was stopped (or goes on, unless ``stop``), "" if it ended by itself.

    What it started ends with it.
    """
    ended = ""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        ended = f"took longer than {seconds:g} s"
        if not stop:
            return ended
    with contextlib.suppress(ProcessLookupError):  # nothing is left of its group
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return ended


def _read(output: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if output.exists():
        for line in output.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            found[told.pop("stage")] = told
    return found

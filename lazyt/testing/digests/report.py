"""What ``python -m lazyt doctor --report FILE`` writes: facts of a machine that another person
needs to see whether lazyt gives the same results there, and how fast."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

import lazyt
from lazyt.config import config
from lazyt.runtime import devices, doctor
from lazyt.runtime.cpu import compile
from lazyt.testing.digests import golden
from lazyt.testing.digests.programs import programs

#: Says what is done next, in a line.
Tell = Callable[[str], None]


def digests_here(tell: Tell, quick: bool = False) -> dict[str, Any]:
    """How many programs have the golden digests, and those that have others, with what they have.

    All (with ``quick`` some of each kind) run by kernels for any shape, then some of each kind by
    fused ones, which take a compiler longer.
    """
    wanted, begun = golden.golden(), time.monotonic()
    found: dict[str, Any] = {"programs": {}, "different": {}}
    some = golden.some_of_each_kind()
    for tier, chosen in ((0, some if quick else programs()), (1, some)):
        name = f"tier {tier}"
        with config.override(tier=tier, progress=False):  # the line of progress is here
            given = golden.digests(chosen, _counter(name, tell))
        found["programs"][name] = len(given)
        found["different"][name] = golden.differences(given, wanted)
    found["seconds"] = round(time.monotonic() - begun, 1)
    return found


def _counter(name: str, tell: Tell) -> golden.Progress:
    return lambda done, of: tell(f"digests, {name}: {done} of {of}")


def facts() -> dict[str, Any]:
    """The machine, the compiler, versions, and why bits may be others."""
    device = devices.cpu()
    traits = {name: sorted(kinds) for name, kinds in device.traits._asdict().items()}
    made: dict[str, Any] = {
        "lazyt": lazyt.__version__, "python": sys.version.split()[0], "numpy": np.__version__,
        "system": platform.platform(), "libc": " ".join(platform.libc_ver()).strip(),
        "cpu": devices.cpu_model(), "arch": device.arch, "cores": device.cores,
        "vector_bytes": device.vector_bytes, "caches": [device.l1, device.l2, device.l3],
        "memory": device.memory, "features": list(device.features), "traits": traits,
        "exact": config.exact,
        "findings": [asdict(finding) for finding in doctor.examine()],
        "deviations": [asdict(each) for each in doctor.deviations()],
    }  # fmt: skip
    try:
        compiler = compile.find()
    except lazyt.errors.LazytError as error:
        made["compiler"] = {"error": str(error)}
    else:
        made["compiler"] = {
            "command": list(compiler.command), "version": compiler.version,
            "target": compiler.target, "flags": list(compiler.flags), "openmp": compiler.openmp,
        }  # fmt: skip
    return made


def times(quick: bool, tell: Tell) -> dict[str, Any]:
    """Milliseconds of the everyday problems of ``lazyt bench``, of small sizes if ``quick``."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "times.json")
        command = [sys.executable, "-m", "lazyt", "bench", "--peers", "", "--json", path]
        command += ["--quick"] if quick else ["--rounds", "3"]
        # The package may be one of the current folder alone.
        near = os.path.dirname(os.path.dirname(os.path.abspath(lazyt.__file__)))
        paths = [near, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        running = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line.rstrip())
            if line.startswith("["):
                tell(f"times: {line.strip()}")
        if running.wait() != 0 or not os.path.exists(path):
            return {"error": "\n".join(said[-5:])}
        with open(path, encoding="utf-8") as file:
            raw: dict[str, Any] = json.load(file)
    return {"quick": quick, "results": raw.get("results", raw)}


def write(path: str, quick: bool, tell: Tell) -> dict[str, Any]:
    """Measures and compares everything, and writes it to a file as JSON; what it holds.

    Raises OSError where the file cannot be written, before anything takes long.
    """
    unfinished = f"{path}.unfinished"
    with open(unfinished, "w", encoding="utf-8") as file:
        tell("facts of this machine")
        made: dict[str, Any] = {"facts": facts()}
        made["digests"] = digests_here(tell, quick)
        made["times"] = times(quick, tell)
        made["text"] = summary(made).splitlines()
        json.dump(made, file, indent=1)
        file.write("\n")
    os.replace(unfinished, path)
    return made


def summary(made: dict[str, Any]) -> str:
    """A report in a few lines, for a person."""
    told, compared = made["facts"], made["digests"]
    compiler = told["compiler"].get("version") or told["compiler"]["error"].splitlines()[0]
    lines = [
        f"{told['cpu']} ({told['arch']}), {told['cores']} cores, vectors of "
        f"{told['vector_bytes']} bytes; {told['system']}",
        f"lazyt {told['lazyt']}, Python {told['python']}, NumPy {told['numpy']}, {compiler}",
    ]
    for tier, different in compared["different"].items():
        count = compared["programs"][tier]
        lines.append(f"{tier}: {count - len(different)} of {count} programs have golden digests")
        lines += [f"  other: {name}" for name in [*different][:10]]
        if len(different) > 10:
            lines.append(f"  and {len(different) - 10} more")
    lines += [f"may differ from other machines: {each['what']}" for each in told["deviations"]]
    lines += _of_times(made["times"])
    return "\n".join(lines) + "\n"


def _of_times(measured: dict[str, Any]) -> list[str]:
    if "error" in measured:
        return [f"times: none, {measured['error']}"]
    found = [
        f"{result['workload']} {result['median_s'] * 1e3:.3g} ms"
        for result in measured["results"]
        if result["framework"] == "lazyt" and result.get("median_s") is not None
    ]
    return [f"times{' (small sizes)' * measured['quick']}: {', '.join(found)}"] if found else []

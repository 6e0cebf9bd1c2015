"""Whether every machine gives the same results: ``make machines``, or ``python bench/machines.py``.

Runs the programs of ``lazyt/testing/digests`` and a hundred steps of ``examples/char_gpt.py`` as on
other processors and with other compilers, as far as this machine can, and compares digests. What
cannot run is said with its reason. ``--write FILE`` adds the table to a page.

* x86-64 levels: kernels are compiled for the level (v2: no FMA, v3: AVX2, v4: AVX-512), and a mount
  for the process alone hides what /proc/cpuinfo says beyond it. That takes root.
* CUDA: kernels for GPUs on the emulator, which is a C++ compiler. Only the GPT runs there.
* aarch64: Python, NumPy and kernels of aarch64 under qemu-user, the compiler a cross compiler. A
  folder (``--aarch64``, else LAZYT_AARCH64) holds ``root`` with a Debian of that architecture
  (``--prepare`` makes it: root, debootstrap and a package index) and ``site`` with NumPy, networkx
  and pycparser. Times under emulation say nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
PROJECT = HERE.parents[1]
GONE = {
    "v2": r"avx\S*|fma|f16c|bmi[12]|vaes|vpclmulqdq|gfni|amx\S*|movbe|abm",
    "v3": r"avx512\S*|avx_\S*|amx\S*",
    "v4": r"amx\S*|avx512_bf16|avx512_fp16|avx512_vnni|avx_\S*",
}
LEAST = {"v2": {"sse4_2"}, "v3": {"avx2", "fma"}, "v4": {"avx512f", "avx512bw", "avx512vl"}}
#: An Armv8.2 core, as the kernel would describe it.
ARM = """processor\t: 0
Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp asimdrdm lrcpc asimddp
CPU implementer\t: 0x41
CPU variant\t: 0x4
CPU part\t: 0xd0b
"""
PACKAGES = ("numpy", "pycparser", "networkx")
STEPS = 100


@dataclass(frozen=True)
class Machine:
    """One of the machines that programs run as.

    Attributes:
        name: for the table.
        compiler: ``gcc`` or ``clang``.
        level: of x86-64; empty for this processor, ``aarch64`` for that.
        exact: whether under ``config.exact``.
        openmp: whether the compiler may use OpenMP.
        device: where tensors are; the digests are those of programs on the CPU.
    """

    name: str
    compiler: str
    level: str = ""
    exact: bool = False
    openmp: bool = True
    device: str = "cpu"


MACHINES = (
    Machine("this processor, gcc", "gcc"),
    Machine("this processor, clang", "clang"),
    Machine("x86-64-v4 (AVX-512), gcc", "gcc", "v4"),
    Machine("x86-64-v3 (AVX2, FMA), gcc", "gcc", "v3"),
    Machine("x86-64-v3 (AVX2, FMA), clang", "clang", "v3"),
    Machine("x86-64-v2 (no FMA), gcc, exact", "gcc", "v2", True),
    Machine("x86-64-v2 (no FMA), clang, exact", "clang", "v2", True),
    Machine("x86-64-v2 (no FMA), gcc, not exact", "gcc", "v2"),
    Machine("aarch64 (Armv8.2, NEON), gcc", "gcc", "aarch64"),
    Machine("aarch64, clang without OpenMP", "clang", "aarch64", openmp=False),
    Machine("CUDA C on the emulator", "gcc", device="cuda:emu"),
)


def what_lacks(machine: Machine, folder: str) -> str:
    """Why a machine cannot be had here; empty where it can."""
    if machine.level == "aarch64":
        cross = "aarch64-linux-gnu-gcc" if machine.compiler == "gcc" else "clang"
        if not shutil.which(cross):
            return f"no {cross}"
        if not os.path.exists("/proc/sys/fs/binfmt_misc/qemu-aarch64"):
            return "qemu-user does not run programs of aarch64 here (binfmt_misc)"
        if not folder or not os.path.exists(os.path.join(folder, "root/usr/bin/python3")):
            return "no folder with an aarch64 Python (--aarch64 FOLDER, --prepare makes one)"
    elif not shutil.which(machine.compiler):
        return f"no {machine.compiler}"
    if machine.device != "cpu" and not (shutil.which("g++") or shutil.which("clang++")):
        return "no C++ compiler"
    if not machine.level:
        return ""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return "hiding what the processor has takes root and unshare"
    if machine.level == "aarch64":
        return ""
    if platform.machine() != "x86_64":
        return "this is no x86-64"
    flags = set(_flags())
    lacking = LEAST[machine.level] - flags
    return f"this processor lacks {', '.join(sorted(lacking))}" if lacking else ""


def _flags() -> list[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return line.partition(":")[2].split()
    return []


def run(machine: Machine, folder: str, tier: str, only: str, limit: int) -> dict[str, Any]:
    """What the programs give as on a machine: digests, losses and seconds, or an error."""
    import re

    with tempfile.TemporaryDirectory() as space:
        out, wrapper = os.path.join(space, "out.json"), os.path.join(space, "cc")
        is_arm = machine.level == "aarch64"
        target = {"": "-march=native", "aarch64": "-mcpu=cortex-a76"}.get(
            machine.level, f"-march=x86-64-{machine.level}"
        )
        command = machine.compiler
        if is_arm:
            cross = "clang --target=aarch64-linux-gnu"
            command = cross if machine.compiler == "clang" else "aarch64-linux-gnu-gcc"
        refused = "" if machine.openmp else '[ "$a" = -fopenmp ] && exit 1\n'
        Path(wrapper).write_text(
            '#!/bin/bash\nargs=()\nfor a in "$@"; do\n'
            f"{refused}[[ $a = -march=native || $a = -mcpu=native ]] && a={target}\n"
            f'args+=("$a")\ndone\nexec {command} "${{args[@]}}"\n'
        )
        os.chmod(wrapper, 0o755)
        environment = {
            **os.environ, "CC": wrapper, "LAZYT_CACHE_DIR": os.path.join(space, "cache"),
            "LAZYT_TIER": tier, "LAZYT_EXACT": str(int(machine.exact)), "LAZYT_PROGRESS": "0",
            "PYTHONPATH": str(PROJECT),
        }  # fmt: skip
        python, shown = sys.executable, os.path.join(space, "cpuinfo")
        if is_arm:
            folder = os.path.abspath(folder)
            python = os.path.join(folder, "root/usr/bin/python3")
            environment["QEMU_LD_PREFIX"] = os.path.join(folder, "root")
            environment["PYTHONPATH"] += os.pathsep + os.path.join(folder, "site")
            Path(shown).write_text(ARM)
        elif machine.level:
            pattern = re.compile(rf"(?<=[ \t])({GONE[machine.level]})(?=\s)")
            lines = Path("/proc/cpuinfo").read_text().splitlines(True)
            text = "".join(
                [pattern.sub("", line) if line.startswith("flags") else line for line in lines]
            )
            Path(shown).write_text(text)
        child = [python, "-m", "lazyt", "run", str(HERE), "--child", out, "--only", only]
        child += ["--device", machine.device]
        if machine.level:
            hide = 'mount --bind "$1" /proc/cpuinfo; shift; exec "$@"'
            child = ["unshare", "--mount", "bash", "-c", hide, "-", shown, *child]
        begun = time.monotonic()
        try:
            done = subprocess.run(
                child, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return {"error": f"not done after {limit} s"}
        if done.returncode or not os.path.exists(out):
            return {"error": (done.stderr or done.stdout).strip().splitlines()[-1][:200]}
        made: dict[str, Any] = json.loads(Path(out).read_text())
        return {**made, "seconds": round(time.monotonic() - begun)}


def child(out: str, only: str, device: str) -> None:
    """What runs as on the other machine."""
    import lazyt
    from lazyt.runtime.cpu import compile
    from lazyt.testing.digests import golden

    made: dict[str, Any] = {"compiler": compile.find().version}
    if only != "gpt" and device == "cpu":
        made["digests"] = golden.digests()
    if only != "digests":
        made["gpt"] = train_gpt(device)
    made["lazyt"] = lazyt.__version__
    Path(out).write_text(json.dumps(made))


def train_gpt(device: str) -> dict[str, str]:
    """Digests of the losses and weights of a small GPT, trained on this project's license."""
    sys.path.insert(0, str(PROJECT / "examples"))
    import char_gpt
    import torch

    torch.set_default_device(device)
    char_gpt.WIDTH, char_gpt.HEADS, char_gpt.CONTEXT, char_gpt.BATCH = 32, 4, 32, 4
    text = (PROJECT / "LICENSE").read_text(encoding="utf-8")
    letters = sorted(set(text))
    codes = torch.tensor([letters.index(letter) for letter in text])
    torch.manual_seed(0)
    net = char_gpt.GPT(len(letters), layers=2)
    optimizer, schedule = char_gpt.make_optimizer(net, STEPS)
    step = torch.compile(char_gpt.make_step(net, optimizer))
    losses = []
    for _ in range(STEPS):
        losses.append(step(char_gpt.draw_batch(codes)).item())
        schedule.step()
    return {
        "losses": char_gpt.digest(losses), "weights": char_gpt.digest(char_gpt.whole_weights(net)),
        "last": f"{losses[-1]:.4f}",
    }  # fmt: skip


def prepare(folder: str) -> None:
    """Makes the folder for aarch64. Raises CalledProcessError."""
    os.makedirs(os.path.join(folder, "site"), exist_ok=True)
    register = Path("/proc/sys/fs/binfmt_misc/register")
    if not register.exists():
        subprocess.run(["mount", "-t", "binfmt_misc", "none", str(register.parent)], check=True)
    if not (register.parent / "qemu-aarch64").exists():
        magic = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
        mask = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
        program = shutil.which("qemu-aarch64-static") or "/usr/bin/qemu-aarch64-static"
        register.write_text(f":qemu-aarch64:M::{magic}:{mask}:{program}:FP")
    root = os.path.join(folder, "root")
    subprocess.run(
        ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase",
         "--include=python3,libgomp1", "bookworm", root], check=True,
    )  # fmt: skip
    subprocess.run(["chroot", root, "/debootstrap/debootstrap", "--second-stage"], check=True)
    wheels = os.path.join(folder, "wheels")
    platforms = [f"--platform=manylinux{end}_aarch64" for end in ("2014", "_2_17", "_2_28")]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", *platforms, "--python-version", "3.11",
         "--only-binary=:all:", "-d", wheels, *PACKAGES], check=True,
    )  # fmt: skip
    for wheel in Path(wheels).glob("*.whl"):
        shutil.unpack_archive(wheel, os.path.join(folder, "site"), "zip")


def table(results: dict[str, dict[str, Any]], wanted: dict[str, str]) -> str:
    """The results as a table, and what differs."""
    lines = [
        "| machine | programs with the golden digests | losses, weights of a GPT | compiler |",
        "|---|---|---|---|",
    ]
    others: list[str] = []
    for name, made in results.items():
        if "error" in made:
            lines.append(f"| {name} | did not run: {made['error']} | | |")
            continue
        found = made.get("digests", {})
        wrong = [key for key, text in found.items() if wanted.get(key) != text]
        count = f"{len(found) - len(wrong)} of {len(found)}" if found else ""
        gpt = made.get("gpt", {})
        trained = f"`{gpt['losses'][:8]}`, `{gpt['weights'][:8]}`" if gpt else ""
        lines.append(f"| {name} | {count} | {trained} | {made['compiler']} |")
        if wrong:
            others.append(f"{name}: {', '.join(f'`{key}`' for key in wrong[:12])}")
            others[-1] += f" and {len(wrong) - 12} more" if len(wrong) > 12 else ""
    return "\n".join([*lines, "", *others]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cpu", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="digests or gpt (both)")
    parser.add_argument("--tier", default="0", help="0 or 1: kernels for any shape, or fused ones")
    parser.add_argument("--machines", default="", help="those with this text in their names")
    parser.add_argument("--aarch64", default=os.environ.get("LAZYT_AARCH64", ""), metavar="FOLDER")
    parser.add_argument("--prepare", action="store_true", help="make the folder of --aarch64")
    parser.add_argument("--limit", type=int, default=3600, help="seconds for each (%(default)s)")
    parser.add_argument("--json", default="", metavar="FILE", help="write what was found there")
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.child, chosen.only, chosen.device)
        return 0
    if chosen.prepare:
        prepare(chosen.aarch64)
    results: dict[str, dict[str, Any]] = {}
    for machine in MACHINES:
        if chosen.machines not in machine.name:
            continue
        lacks = what_lacks(machine, chosen.aarch64)
        print(f"{machine.name}: {lacks or 'running'}", file=sys.stderr, flush=True)
        results[machine.name] = {"error": lacks} if lacks else run(
            machine, chosen.aarch64, chosen.tier, chosen.only, chosen.limit
        )  # fmt: skip
    wanted = json.loads((PROJECT / "lazyt/testing/digests/golden.json").read_text())
    print(table(results, wanted))
    if chosen.json:
        told = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:12]
        Path(chosen.json).write_text(json.dumps({"golden": told, "results": results}, indent=1))
    promised = [made for name, made in results.items() if "not exact" not in name]
    wrong = [
        m for m in promised for key, text in m.get("digests", {}).items() if wanted[key] != text
    ]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

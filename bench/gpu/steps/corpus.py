"""Every generated kernel of the corpus (``tests/cuda/corpus.py``) on the device, against the
interpreter and, where there is a C++ compiler, bit for bit against the emulator.

    python -m bench.gpu.steps.corpus [--share N]        N: every N-th cell

A process of its own does the launches. One that dies (an illegal address ends all work of a
process) is replaced, and the plan that ended it is named.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.gpu.steps.report import OUT, Report, left
from lazyt.ir.program import KernelSource
from lazyt.runtime.cuda.device import CudaDevice, device_at
from tests.cuda import corpus
from tests.cuda import corpus_plans as plans

Bytes = npt.NDArray[np.uint8]

CACHE = Path(tempfile.gettempdir()) / "lazyt-gpu-corpus"
#: Bytes before and behind every buffer that nobody may write.
FENCE = 512
#: Processes that may die.
MOST_DEATHS = 12


def gathered(share: int) -> corpus.Corpus:
    """The plans of every ``share``-th cell."""
    return corpus.gather(share, 0, os.cpu_count() or 2)


def images(parts: Sequence[Sequence[KernelSource]], workers: int) -> list[tuple[list[str], bytes]]:
    """Names and images of all parts, from files of an earlier process where they are there."""
    driver = device_at("cuda:0").driver
    CACHE.mkdir(exist_ok=True)

    def one(part: Sequence[KernelSource]) -> tuple[list[str], bytes]:
        text, names = plans.program_text(part, driver.helpers), plans.functions(part)
        key = hashlib.sha256((driver.identity() + text).encode()).hexdigest()[:24]
        path = CACHE / key
        if path.exists():
            return names, path.read_bytes()
        image = driver.compile(text, names).data
        partial = CACHE / f"{key}.{os.getpid()}"
        partial.write_bytes(image)
        partial.replace(path)
        return names, image

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, parts))


def canonical(array: npt.NDArray[Any]) -> bytes:
    """Bytes in which every NaN is the same."""
    if array.dtype.kind == "f":
        array = array.copy()
        array[np.isnan(array)] = np.nan
    elif array.dtype.name == "bfloat16":
        array = array.copy()
        array[np.isnan(array.astype(np.float32))] = np.nan
    return array.tobytes()


def digests(arrays: Sequence[npt.NDArray[Any]]) -> list[str]:
    """What tells other bits."""
    return [hashlib.sha256(canonical(a)).hexdigest() for a in arrays]


class Memory:
    """Fenced buffers of one plan, on the device and as the host knows them."""

    def __init__(self, device: CudaDevice) -> None:
        self.driver = device.driver
        self.taken: list[tuple[int, Bytes]] = []

    def room(self, nbytes: int, content: bytes = b"") -> tuple[int, Bytes]:
        """A buffer of NaN, or of some content."""
        host = np.full(nbytes + 2 * FENCE, 0xFF, np.uint8)
        host[FENCE : FENCE + len(content)] = np.frombuffer(content, np.uint8)
        place = self.driver.allocate(host.nbytes, None)
        assert place, "no memory"
        self.taken.append((place, host))
        self.driver.copy_in(place, host.ctypes.data, host.nbytes, None)
        return place, host

    def read(self) -> None:
        """Bring everything back; what was written beside a buffer fails."""
        for place, host in self.taken:
            self.driver.copy_out(host.ctypes.data, place, host.nbytes, None)
        self.driver.synchronize()
        for _, host in self.taken:
            fences = (host[:FENCE] == 0xFF).all() and (host[-FENCE:] == 0xFF).all()
            assert fences, "something was written beside a buffer"

    def release(self) -> None:
        """Give it all back."""
        for place, _ in self.taken:
            self.driver.release(place, None)


def run_on_device(
    plan: plans.Plan, functions: dict[str, Any], device: CudaDevice
) -> list[npt.NDArray[Any]]:
    """As ``corpus_plans.run``, with memory of the device. Raises AssertionError."""
    program, memory = plan.program, Memory(device)
    given = [n.data.as_numpy(n.dtype, n.shape) for n in plan.inputs if n.data is not None]
    try:
        inputs = [memory.room(a.nbytes, a.tobytes()) for a in given]
        outputs: dict[int, tuple[int, Bytes]] = {}
        arena, _ = memory.room(program.arena_bytes)
        pointers = []
        for slot in program.slots:
            if slot.kind == "arena":
                pointers.append(arena + FENCE + slot.offset)
                continue
            if slot.kind == "output" and slot.index not in outputs:
                outputs[slot.index] = memory.room(slot.nbytes)
            place, _ = (inputs if slot.kind == "input" else outputs)[slot.index]
            pointers.append(place + FENCE)
        device.driver.synchronize()  # the host's memory was pageable
        before = [host.copy() for _, host in inputs]
        for launch in program.launches:
            arguments = [pointers[n] for n in launch.slots]
            for grid in plan.grids[launch.kernel]:
                device.driver.launch(functions[grid.function], grid, arguments, None)
        memory.read()
        for (_, host), was in zip(inputs, before):
            assert (host == was).all(), "an input was written"
        found = []
        for root, number in zip(plan.roots, program.results):
            _, host = outputs[number] if number >= 0 else inputs[-1 - number]
            size = int(np.prod(root.shape, dtype=np.int64)) * root.dtype.itemsize
            stored = host[FENCE : FENCE + size].view(root.dtype.numpy)
            found.append(stored.reshape(root.shape))
        return found
    finally:
        memory.release()


def work(share: int, first: int, answer: Path) -> None:
    """Run plans from number ``first`` on; appends a line to ``answer`` before and after each."""
    made, device = gathered(share), device_at("cuda:0")
    shared = {g.function: g.shared_bytes for k in made.kernels.values() for g in k.grids}
    functions: dict[str, Any] = {}
    for names, image in images(made.parts, made.workers):
        functions |= device.driver.load(image, {name: shared[name] for name in names})
    with answer.open("a", encoding="utf-8") as file:

        def say(*words: object) -> None:
            file.write(json.dumps(words) + "\n")
            file.flush()

        say("ready", len(made.plans))
        for number in range(first, len(made.plans)):
            plan = made.plans[number]
            say("begin", number, plan.cell.name)
            if os.environ.get("GPU_KILL_AT") == str(number):  # to try this out
                os.abort()
            try:
                got = run_on_device(plan, functions, device)
            except AssertionError as error:
                say("wrong", number, plan.cell.name, str(error))
                continue
            fault = plans.difference(plan, got, plans.wanted(plan))
            if fault:
                say("wrong", number, plan.cell.name, fault)
            say("bits", number, digests(got))
        say("end", len(made.plans))


def emulate(share: int, answer: Path) -> None:
    """Write the bits of all plans on the emulator, under its schedule 1."""
    made = gathered(share)
    machines = made.emulators()
    with answer.open("w", encoding="utf-8") as file:
        for number, plan in enumerate(made.plans):
            found = digests(plans.run(plan, machines, 1))
            file.write(json.dumps([number, plan.cell.name, found]) + "\n")


def run_all(report: Report, share: int) -> list[list[Any]]:
    """What the working processes told, one after the other until all plans ran."""
    answer = OUT / "corpus.lines"
    answer.unlink(missing_ok=True)
    first, lines = 0, list[list[Any]]()
    for _ in range(MOST_DEATHS):
        if left() < 5:
            break
        command = [sys.executable, "-m", "bench.gpu.steps.corpus", "--share", str(share)]
        command += ["--work", str(first), str(answer)]
        said = ""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=max(5.0, left() - 2)
            )
            said = done.stderr[-1500:]
        except subprocess.TimeoutExpired:
            report.put("timed_out", True)
            first = -1
        text = answer.read_text(encoding="utf-8") if answer.exists() else ""
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        if first < 0 or (lines and lines[-1][0] == "end"):
            break
        at = next((line for line in reversed(lines) if line[0] == "begin"), None)
        if at is None:
            report.fail("start", said)
            break
        report.fail(at[2], f"ended the process: {said}")
        first = at[1] + 1
    return lines


def compare(bits: dict[int, list[str]], emulated: Path) -> dict[str, str]:
    """Plans whose bits are not the emulator's."""
    other = {}
    for line in emulated.read_text(encoding="utf-8").splitlines():
        number, name, found = json.loads(line)
        if bits.get(number, found) != found:
            other[name] = "bits differ from the emulator's"
    return other


def judge(share: int) -> None:
    """Both ways of running all plans, and what differs."""
    report, begun = Report("corpus"), time.monotonic()
    OUT.mkdir(parents=True, exist_ok=True)
    emulated, beside = CACHE.with_suffix(".emulated"), None
    if shutil.which("g++") or shutil.which("clang++"):
        command = [sys.executable, "-m", "bench.gpu.steps.corpus", "--share", str(share)]
        beside = subprocess.Popen([*command, "--emulate", str(emulated)])
    lines = run_all(report, share)
    total = next((line[1] for line in lines if line[0] == "ready"), None)
    wrong = {line[2]: line[3] for line in lines if line[0] == "wrong"}
    bits = {line[1]: line[2] for line in lines if line[0] == "bits"}
    deaths = len(report.failed)
    for name, error in wrong.items():
        report.fail(name, error)
    report.data |= {"plans": total, "ran": len(bits), "device_seconds": time.monotonic() - begun}
    other: dict[str, str] = {}
    if beside is not None:
        try:
            beside.wait(max(1.0, left()))
            other = compare(bits, emulated)
        except (subprocess.TimeoutExpired, OSError, ValueError) as error:
            beside.kill()
            report.put("emulator", f"not compared: {type(error).__name__}")
    for name in other.keys() - wrong.keys():
        report.fail(name, other[name])
    report.data["other_bits"] = sorted(other)
    report.data["passed"] = max(0, len(bits) - len(wrong) - len(other))
    report.end(
        f"{len(bits)} of {total} plans ran, {len(wrong)} wrong values, {len(other)} other bits, "
        f"{deaths} ended a process"
    )


def main() -> None:
    """The whole, or one of the processes that it starts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--work", nargs=2)
    parser.add_argument("--emulate")
    given = parser.parse_args()
    if given.work:
        work(given.share, int(given.work[0]), Path(given.work[1]))
    elif given.emulate:
        emulate(given.share, Path(given.emulate))
    else:
        judge(given.share)


if __name__ == "__main__":
    main()

"""The process of Python code: ``python child.py IN OUT MEMORY``.

It obeys lines of JSON that come by the descriptor IN and answers each by a line on OUT. The first
one says what to load (see ``_LOADERS``), the others which arrays of MEMORY the next calls get;
``go`` makes the calls. The code that is judged runs in this process, so nothing that happens here
is believed: the judge takes the time by its own clock and looks at the memory itself.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import importlib
import importlib.util
import json
import mmap
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Call = Callable[..., Any]
_WATCHED = {
    "time": ("time", "perf_counter", "perf_counter_ns", "monotonic", "process_time", "time_ns"),
    "os": ("read", "write"),
    "numpy": ("copyto", "allclose", "array_equal", "frombuffer"),
}
_WATCHED_TORCH = (
    "allclose", "equal", "isclose", "from_numpy", "manual_seed", "Tensor.numpy", "Tensor.detach",
    "Tensor.allclose", "Tensor.equal", "testing.assert_close", "cuda.synchronize", "cuda.Event",
    "Tensor.__eq__", "Tensor.__sub__", "Tensor.cpu",
)  # fmt: skip


class _Refused(Exception):
    """A reason to refuse, of a kind that the judge knows."""

    def __init__(self, kind: str, evidence: str) -> None:
        super().__init__(f"refuse {kind} {evidence}")


def load_module(name: str) -> Any:
    """PyTorch, or lazyt under its name."""
    if name == "lazyt":
        importlib.import_module("lazyt.compat.torch_alias").install()
    return importlib.import_module("torch")


def _candidate_path() -> str:
    return os.path.join(os.environ["HOME"], "candidate.py")


def _fallback_module() -> Any:
    """``fallback.py``, which lies beside this file: where PyTorch is, lazyt may not be."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fallback.py")
    spec = importlib.util.spec_from_file_location("judge_fallback", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _candidate(source: str) -> Any:
    """A module of the submission's text."""
    path = _candidate_path()
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise _Refused("compile", f"line {error.lineno}: {error.msg}") from None
    return module


def seeded(torch: Any, seed: int) -> None:
    """Starts all sources of random numbers anew."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.manual_seed(seed)


def _pair(torch: Any, settings: dict[str, Any]) -> Call:
    """A class of a KernelBench file, made as the reference is."""
    module = _candidate(settings["source"])
    name = settings["class"]
    if not hasattr(module, name):
        raise _Refused("compile", f"the file has no class {name}")
    seeded(torch, settings["seed"])
    made = getattr(module, name)(*settings["init"])
    if not callable(made):
        raise _Refused("compile", f"{name} cannot be called")
    return made  # type: ignore[no-any-return]


def _function(torch: Any, settings: dict[str, Any]) -> Call:
    """A function of a file."""
    module = _candidate(settings["source"])
    found = getattr(module, settings["name"], None)
    if not callable(found):
        raise _Refused("compile", f"the file has no function {settings['name']}")
    return found  # type: ignore[no-any-return]


def _task(torch: Any, settings: dict[str, Any]) -> Call:
    """The reference of a task in a framework, as the baseline."""
    if settings["load"]:
        importlib.import_module("lazyt.extensions").load_all(settings["load"])
    tasks: Any = importlib.import_module("lazyt.bench.judge.tasks")
    frameworks: Any = importlib.import_module("lazyt.bench.frameworks")
    made = tasks.find(settings["task"], settings["quick"])
    # Calls on memory that others write to cannot be replayed, so that capturing only costs.
    name = "lazy" if settings["framework"] == "lazyt" else settings["framework"]
    framework = frameworks.FRAMEWORKS[name](settings["threads"])
    return framework.prepare(made.reference)  # type: ignore[no-any-return]


def _cuda(torch: Any, settings: dict[str, Any]) -> Call:
    """A kernel in CUDA C on the emulator."""
    emulated: Any = importlib.import_module("lazyt.bench.judge.emulation")
    return emulated.prepare(settings, _Refused)  # type: ignore[no-any-return]


def _null(torch: Any, settings: dict[str, Any]) -> Call:
    """Results that were there before: what a call costs without a computation."""
    known: dict[Any, Any] = {}

    def call(*tensors: Any, like: Any = ()) -> Any:
        key = tuple((array.shape, str(array.dtype)) for array in like)
        if key not in known:
            known[key] = tuple(torch.from_numpy(np.zeros_like(array)) for array in like)
        return known[key]

    return call


_LOADERS: dict[str, Callable[[Any, dict[str, Any]], Call]] = {
    "pair": _pair, "model": _pair, "function": _function, "task": _task, "cuda": _cuda,
    "null": _null,
}  # fmt: skip
#: Those whose code is somebody else's.
_STRANGERS = ("pair", "function")


class _Watch:
    """What the judged code must not put something else in the place of."""

    def __init__(self, torch: Any) -> None:
        places = [(importlib.import_module(m), n) for m, names in _WATCHED.items() for n in names]
        places += [(builtins, n) for n in ("abs", "max", "isinstance", "type", "all", "any")]
        for path in _WATCHED_TORCH:
            owner, name = torch, path
            while "." in name and owner is not None:
                first, _, name = name.partition(".")
                owner = getattr(owner, first, None)
            if owner is not None and hasattr(owner, name):
                places.append((owner, name))
        self._known = [(o, n, _plain(getattr(o, n))) for o, n in places]

    def require_unchanged(self) -> None:
        for owner, name, known in self._known:
            if _plain(getattr(owner, name, None)) is not known:
                place = getattr(owner, "__name__", str(owner))
                raise _Refused("tampered", f"it replaced {place}.{name}")


def _plain(value: Any) -> Any:
    return getattr(value, "__func__", value)


def _restrict(out: int, forbidden: Sequence[Sequence[int]]) -> None:
    """Ends the process when the code opens what it must not; Python code cannot undo that."""
    own = f"/proc/{os.getpid()}"
    files, stat, write, leave = {tuple(pair) for pair in forbidden}, os.stat, os.write, os._exit
    realpath, pid = os.path.realpath, os.getpid()

    def end(evidence: str) -> None:
        write(out, f"refuse forbidden {evidence}\n".encode())
        leave(3)

    def hook(event: str, given: Any) -> None:
        if event == "open" and isinstance(given[0], (str, bytes)):
            path = given[0] if isinstance(given[0], str) else given[0].decode("utf-8", "replace")
            with contextlib.suppress(OSError):
                found = stat(path)
                if (found.st_dev, found.st_ino) in files:
                    end("it opens the reference's file")
            place = realpath(path) if path.startswith(("/proc", "/dev")) else ""
            if (
                place.startswith("/proc/")
                and place[6:7].isdigit()
                and not (place + "/").startswith(own + "/")
            ):
                end(f"it opens {path}")
        elif event == "import" and str(given[0]).startswith("lazyt.bench"):
            end(f"it imports {given[0]}")
        elif event == "socket.connect":
            end("it connects to a network address")
        elif event == "os.kill" and given[0] != pid:
            end("it sends signals to other processes")

    sys.addaudithook(hook)


class _Worker:
    """The computation and the arrays of its next calls."""

    def __init__(self, memory: int, settings: dict[str, Any], out: int) -> None:
        self.torch = load_module(settings["module"])
        self._tensor_type = self.torch.Tensor
        self._parameter_type = self.torch.nn.Parameter
        self.memory, self.knows_results = memory, settings["kind"] in ("null", "cuda")
        with contextlib.suppress(AttributeError):
            self.torch.set_num_threads(settings["threads"])
        if settings["module"] == "torch" and settings["kind"] in _STRANGERS:
            # It wraps functions of PyTorch's, so that has to happen before they are watched.
            with contextlib.suppress(ImportError):
                importlib.import_module("torch._dynamo")
        self.watch = _Watch(self.torch) if settings["kind"] in _STRANGERS else None
        self.fallback: Any = None
        if settings.get("watched"):
            make = _fallback_module().watch
            self.fallback = make(settings["module"], self.torch, _candidate_path())
        if settings["kind"] in _STRANGERS:
            _restrict(out, settings.get("forbidden", ()))
        self.call = _LOADERS[settings["kind"]](self.torch, settings)
        if self.watch is not None:
            self.watch.require_unchanged()
        self.calls: list[tuple[list[Any], list[Any], list[float]]] = []

    def prepare(self, calls: Any) -> None:
        """Finds the arrays of the next calls."""
        self.calls.clear()
        size = os.fstat(self.memory).st_size
        data = mmap.mmap(self.memory, size)
        for described, inputs, numbers in calls:
            arrays = []
            for offset, shape, dtype in described:
                count = int(np.prod(shape, dtype=np.int64))
                arrays.append(np.frombuffer(data, dtype, count, offset).reshape(shape))
            self.calls.append((arrays[:inputs], arrays[inputs:], numbers))

    def go(self) -> None:
        """Makes the calls."""
        watched = self.fallback
        if watched is None:
            self._make_calls()
            return
        try:
            with watched.calls():
                self._make_calls()
        except BaseException:
            if not watched.found:
                raise
        if watched.found:
            raise _Refused("fallback", watched.found)
        if watched.replaced:
            raise _Refused("tampered", f"it replaced {watched.replaced}")

    def _make_calls(self) -> None:
        torch = self.torch
        with torch.no_grad():
            for inputs, outputs, numbers in self.calls:
                tensors = [torch.from_numpy(array) for array in inputs]
                more = {"like": outputs} if self.knows_results else {}
                result = self.call(*tensors, *numbers, **more)
                parts = list(result) if isinstance(result, (tuple, list)) else [result]
                if len(parts) != len(outputs):
                    raise _Refused("type", f"{len(parts)} results instead of {len(outputs)}")
                for part, out in zip(parts, outputs):
                    self._copy(part, out)
        if self.watch is not None:
            self.watch.require_unchanged()

    def _copy(self, part: Any, out: Any) -> None:
        if type(part) not in (self._tensor_type, self._parameter_type):
            raise _Refused("type", f"a result is a {type(part).__name__}, not a plain tensor")
        values = part.detach().cpu().numpy()
        if type(values) is not np.ndarray or values.shape != out.shape:
            shape = tuple(getattr(values, "shape", ()))
            raise _Refused("type", f"a result has shape {shape}, not {out.shape}")
        if values.dtype != out.dtype and not (values.dtype == bool and out.dtype == np.uint8):
            raise _Refused("type", f"a result is of {values.dtype}, not {out.dtype}")
        np.copyto(out, values)


def main() -> None:
    """Answers until there are no more lines."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    taken, out, memory = (int(word) for word in sys.argv[1:4])
    lines = os.fdopen(taken, "r", encoding="utf-8")
    worker: _Worker | None = None
    write = os.write
    for line in lines:
        try:
            if line == "go\n" and worker is not None:
                worker.go()
                reply = "done"
            elif worker is None:
                worker = _Worker(memory, json.loads(line), out)
                reply = "ready"
            else:
                worker.prepare(json.loads(line)["calls"])
                reply = "set"
        except _Refused as refused:
            reply = str(refused)
        except MemoryError:
            reply = "refuse memory it asks for more memory than allowed"
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            reply = f"error {type(error).__name__}: {text}"
        write(out, reply.encode() + b"\n")


if __name__ == "__main__":
    main()

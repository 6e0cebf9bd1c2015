"""The frameworks that are timed, behind one face. Each imports its framework when it is made.

``prepare`` gives a call that computes and waits for the result; ``training`` one that makes a step.
"""

from __future__ import annotations

import importlib
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from lazyt.bench.names import NotOffered, jax_names, numpy_names, tinygrad_names, torch_names
from lazyt.bench.networks.building import build
from lazyt.bench.problems import RULES, Array, Dims, Function, Problem, Rule

# What every framework has to offer to be timed.


#: Computes; on the CPU it waits, too. The arguments are tensors.
Call = Callable[..., Any]


def tensors_of(result: Any) -> list[Any]:
    """The tensors of a result, which is one or several."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Framework(ABC):
    """What a framework has to offer.

    Attributes:
        version: as its package says.
        names: PyTorch's functions, by whatever the framework has for them.
        keeps: whether it keeps what it compiled on disk, for the next process.
        prepares: whether it also keeps there what every first call needs: this is then made once
            in a run, and not counted against all but the first workload.
    """

    version: str
    names: Any
    #: Whose functions it runs, of those that users declare.
    runs = "torch"
    keeps = False
    prepares = False
    device = ""

    def use(self, device: str) -> None:
        """Tensors are to be on this device. Raises NotOffered where that cannot be."""
        if device:
            raise NotOffered(f"the device {device}")

    def clock(self, call: Callable[[], Any], repeats: int) -> float:
        """Seconds of so many calls; a device's are waited for once, by its own clock."""
        begun = time.perf_counter()
        for _ in range(repeats):
            result = call()
        seconds = time.perf_counter() - begun
        del result  # freeing the last one is not timed
        return seconds

    @abstractmethod
    def tensor(self, array: Array, dtype: str) -> Any:
        """A tensor with the array's values. Raises NotOffered for a dtype that it lacks."""

    @abstractmethod
    def prepare(self, function: Function) -> Call:
        """A call of the function with the names and the call's arguments."""

    def training(self, problem: Problem, tensors: Sequence[Any]) -> Call:
        """A call without arguments that makes a step and returns the loss."""
        raise NotOffered("training")

    def values(self, result: Any) -> list[Array]:
        """A result's tensors as arrays."""
        return [np.asarray(tensor) for tensor in tensors_of(result)]

    def function(self, problem: Problem, dims: Dims) -> Function:
        """What computes a problem; that of a network has its parameters and buffers inside. Raises
        NotOffered where the framework has no function for this."""
        found = problem.function_for(self.runs)
        if found is None:
            raise NotOffered(f"a function for {self.runs}, only for {problem.only_for()}")
        return found

    def kernels(self, function: Function, tensors: Sequence[Any]) -> tuple[int, float] | None:
        """How many kernels a call launches and how many operations they do, where the framework
        can say."""
        return None

    def note(self) -> str:
        """What a user should know about how the last computation ran; empty if all is well."""
        return ""


EMULATOR = "cuda:emu"


class _Torch(Framework):
    """PyTorch, one kernel at a time."""

    module = "torch"

    def __init__(self, threads: int) -> None:
        self.torch: Any = importlib.import_module(self.module)
        self.version = self.torch.__version__
        self.names = torch_names(self.torch)
        self.torch.set_num_threads(threads)
        #: Of a network: batch normalization writes them in each call.
        self.buffers: list[Any] = []

    def tensor(self, array: Array, dtype: str) -> Any:
        made = self.torch.tensor(array).to(getattr(self.torch, dtype))
        return self.settled(made.to(self.device)) if self.device else made

    def use(self, device: str) -> None:
        if device:
            try:
                self.torch.zeros(1, device=device).cpu()
            except (RuntimeError, AssertionError) as error:
                text = str(error).strip().partition("\n")[0]
                raise NotOffered(f"the device {device} ({text})") from None
        self.device = device

    def settled(self, tensor: Any) -> Any:
        """A tensor that is computed."""
        return tensor

    def clock(self, call: Callable[[], Any], repeats: int) -> float:
        if not self.device:
            return super().clock(call, repeats)
        cuda = self.torch.cuda
        with cuda.device(self.device) if self.device != EMULATOR else nullcontext():
            start, end = (cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(repeats):
                result = call()
            end.record()
            end.synchronize()
        del result
        return float(start.elapsed_time(end)) / 1e3

    def function(self, problem: Problem, dims: Dims) -> Function:
        if problem.network is None:
            return super().function(problem, dims)
        model = build(problem, self.torch, dims)
        if self.device:
            model.to(self.device)
        for parameter in model.parameters():
            self.settled(parameter.requires_grad_(False))
        self.buffers = list(model.buffers())
        return lambda names, *tensors: model(*tensors)

    def whole(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A computation without gradients, compiled or not."""
        return function

    def step(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A step of training, compiled or not."""
        return function

    def part(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The loss inside of a step that is not compiled itself."""
        return function

    def optimizer(self, rule: Rule, weights: list[Any]) -> Any:
        """An optimizer of the weights."""
        return getattr(self.torch.optim, rule.name)(weights, **rule.options)

    def finish(self, tensors: Sequence[Any]) -> None:
        """Waits for results; PyTorch on the CPU has them already."""

    def prepare(self, function: Function) -> Call:
        names, finish, buffers = self.names, self.finish, self.buffers
        compute = self.whole(lambda *tensors: function(names, *tensors))

        def call(*tensors: Any) -> Any:
            result = compute(*tensors)
            finish([*tensors_of(result), *buffers])
            return result

        return call

    def training(self, problem: Problem, tensors: Sequence[Any]) -> Call:
        how = problem.training
        assert how is not None
        data = [tensor.clone() for tensor in tensors[: how.data]]
        weights = [tensor.clone().requires_grad_() for tensor in tensors[how.data :]]
        optimizer = self.optimizer(RULES[how.optimizer], weights)
        names = self.names
        loss_of = self.part(lambda *tensors: problem.function(names, *tensors))
        if how.gradients:
            for weight, gradient in zip(weights, data):
                weight.grad = gradient

        def step() -> Any:
            if how.gradients:
                optimizer.step()
                return None
            optimizer.zero_grad()
            loss = loss_of(*data, *weights)
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled = self.step(step)

        def call() -> Any:
            loss = compiled()
            result = weights[0] if loss is None else loss
            self.finish([result, *weights])
            return result

        return call

    def values(self, result: Any) -> list[Array]:
        # Copies: a weight that shares its memory with NumPy would be in jit's way from then on.
        found = [tensor.detach().clone().cpu() for tensor in tensors_of(result)]
        wide = [t.to(self.torch.float32) if t.dtype.itemsize == 2 else t for t in found]
        return [np.asarray(tensor.numpy()) for tensor in wide]


class _Compile(_Torch):
    """torch.compile. Its first call of all precompiles a header and tries the processor out."""

    keeps = prepares = True

    def whole(self, function: Callable[..., Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = self.torch.compile(function, dynamic=False)
        return made

    part = whole

    def optimizer(self, rule: Rule, weights: list[Any]) -> Any:
        made = super().optimizer(rule, weights)
        made.step = self.whole(made.step)
        return made


class _Lazy(_Torch):
    """This project, through the very code that PyTorch runs, with ``realize`` at the end."""

    module = "lazyt"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        from lazyt.version import __version__

        self.version = str(__version__)
        self.torch.config.tier = 1  # what is timed are its kernels
        # Imported before this process had a folder of its own.
        self.torch.config.cache_dir = os.environ.get("LAZYT_CACHE_DIR", self.torch.config.cache_dir)

    def use(self, device: str) -> None:
        super().use(device)
        if device == EMULATOR:
            self.torch.set_default_device(device)

    def settled(self, tensor: Any) -> Any:
        return tensor.realize()

    def finish(self, tensors: Sequence[Any]) -> None:
        self.torch.realize(*tensors)

    def kernels(self, function: Function, tensors: Sequence[Any]) -> tuple[int, float] | None:
        found = tensors_of(function(self.names, *tensors))
        kernels = self.torch.explain(*found).kernels
        return len(kernels), float(sum(kernel.flops for kernel in kernels))


class _Lazyt(_Lazy):
    """The same under ``lazyt.jit``."""

    keeps = True

    def whole(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self._captured = self.torch.jit(function)
        made: Callable[..., Any] = self._captured
        return made

    step = whole

    def note(self) -> str:
        lines = [line for line in self._captured.why() if line.startswith("not captured")]
        return lines[0] if lines else ""


class _Numpy(Framework):
    """NumPy."""

    runs = "numpy"

    def __init__(self, threads: int) -> None:
        self.version = np.__version__
        self.names = numpy_names()

    def tensor(self, array: Array, dtype: str) -> Any:
        if dtype == "bfloat16":
            raise NotOffered(dtype)
        return array

    def prepare(self, function: Function) -> Call:
        return lambda *tensors: function(self.names, *tensors)


class _Jax(Framework):
    """JAX under ``jit``."""

    runs = "jax"

    def __init__(self, threads: int) -> None:
        self.jax: Any = importlib.import_module("jax")
        self.version = self.jax.__version__
        self.names = jax_names(self.jax)

    def tensor(self, array: Array, dtype: str) -> Any:
        if dtype == "float64":
            self.jax.config.update("jax_enable_x64", True)
        # Labels in the integers that JAX uses by default.
        return self.jax.numpy.asarray(array, "int32" if dtype == "int64" else dtype)

    def prepare(self, function: Function) -> Call:
        names, wait = self.names, self.jax.block_until_ready
        compiled = self.jax.jit(lambda *tensors: function(names, *tensors))
        return lambda *tensors: wait(compiled(*tensors))

    def training(self, problem: Problem, tensors: Sequence[Any]) -> Call:
        how, names = problem.training, self.names
        assert how is not None
        rule, data = RULES[how.optimizer], list(tensors[: how.data])

        def update(data: list[Any], number: Any, weights: list[Any], states: Any) -> Any:
            def loss_of(weights: list[Any]) -> Any:
                return problem.function(names, *data, *weights)

            if how.gradients:
                loss, slopes = None, data
            else:
                loss, slopes = self.jax.value_and_grad(loss_of)(weights)
            number = number + 1
            new = _updated(rule, names, weights, slopes, states, number)
            return loss, number, [w for w, _ in new], [s for _, s in new]

        compiled = self.jax.jit(update, donate_argnums=(1, 2, 3))
        numpy = self.jax.numpy
        weights = [weight + 0 for weight in tensors[how.data :]]
        states = [[numpy.zeros_like(weight) for _ in range(rule.state)] for weight in weights]
        now = [numpy.zeros((), "float32"), weights, states]

        def step() -> Any:
            loss, *now[:] = compiled(data, *now)
            self.jax.block_until_ready((loss, now))
            return now[1][0] if how.gradients else loss

        return step

    def values(self, result: Any) -> list[Array]:
        found = [np.asarray(tensor) for tensor in tensors_of(result)]
        return [a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in found]


def _updated(
    rule: Rule, names: Any, weights: list[Any], slopes: list[Any], states: Any, number: Any
) -> list[tuple[Any, list[Any]]]:
    pairs = zip(weights, slopes, states)
    return [rule.formula(names, w, slope, state, number) for w, slope, state in pairs]


class _Tinygrad(Framework):
    """tinygrad on the CPU, under ``TinyJit``."""

    keeps = True
    runs = "tinygrad"

    def __init__(self, threads: int) -> None:
        from importlib.metadata import version

        os.environ.setdefault("DEV", "CPU")
        os.environ["NUM_CPU_THREADS"] = str(threads)
        compiler = os.environ.get("CC", "clang")
        if shutil.which(compiler) is None:
            raise ImportError(f"its compiler, {compiler}, is not installed")
        self.tinygrad: Any = importlib.import_module("tinygrad")
        self.version = version("tinygrad")
        self.names = tinygrad_names(self.tinygrad)

    def tensor(self, array: Array, dtype: str) -> Any:
        made = self.tinygrad.Tensor(array, device="CPU")
        return (made.cast(dtype) if dtype == "bfloat16" else made).realize()

    def _finished(self, function: Callable[..., Any]) -> Call:
        jitted = self.tinygrad.TinyJit(function)
        device = self.tinygrad.Device["CPU"]

        def call(*tensors: Any) -> Any:
            result = jitted(*tensors)
            device.synchronize()
            return result

        return call

    def prepare(self, function: Function) -> Call:
        def compute(*tensors: Any) -> Any:
            found = tensors_of(function(self.names, *tensors))
            return found[0].realize(*found[1:]) if len(found) == 1 else _realized(found)

        return self._finished(compute)

    def training(self, problem: Problem, tensors: Sequence[Any]) -> Call:
        how = problem.training
        assert how is not None
        rule, data = RULES[how.optimizer], list(tensors[: how.data])
        weights = list(tensors[how.data :])
        make = self.tinygrad.Tensor
        number = make([0.0], device="CPU").realize()
        states = [
            [make.zeros(*w.shape, device="CPU").contiguous().realize() for _ in range(rule.state)]
            for w in weights
        ]

        def update() -> Any:
            loss = None if how.gradients else problem.function(self.names, *data, *weights)
            slopes = data if loss is None else loss.gradient(*weights)
            new = _updated(rule, self.names, weights, slopes, states, number + 1)
            changed = [number.assign(number + 1)]
            for weight, state, (later, kept) in zip(weights, states, new):
                changed += [weight.assign(later), *(s.assign(k) for s, k in zip(state, kept))]
            first = weights[0] if loss is None else loss
            return first.realize(*changed)

        return self._finished(update)

    def values(self, result: Any) -> list[Array]:
        found = [t.float() if t.dtype.itemsize == 2 else t for t in tensors_of(result)]
        return [np.asarray(tensor.numpy()) for tensor in found]


def _realized(tensors: list[Any]) -> tuple[Any, ...]:
    tensors[0].realize(*tensors[1:])
    return tuple(tensors)


#: ``lazy`` is lazyt without ``jit``.
OWN = ("lazyt", "lazy")
PEERS = ("torch", "compile", "jax", "tinygrad", "numpy")
FRAMEWORKS: dict[str, Callable[[int], Framework]] = {
    "lazyt": _Lazyt,
    "lazy": _Lazy,
    "torch": _Torch,
    "compile": _Compile,
    "jax": _Jax,
    "tinygrad": _Tinygrad,
    "numpy": _Numpy,
}

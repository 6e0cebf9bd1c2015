"""The frameworks that are timed, behind one face. Each imports its framework when it is made."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from gpt import jax_step, torch_step
from workloads import LEARNING_RATE, Array, compute_loss

Call = Callable[[], Any]


class Framework:
    """What a framework has to offer.

    Attributes:
        version: as its package says.
        operators: the functions that workloads use.
    """

    version: str
    operators: Any

    def tensor(self, array: Array) -> Any:
        """A tensor with the array's values."""
        raise NotImplementedError

    def prepare(self, compute: Callable[..., Any], inputs: list[Any]) -> Call:
        """A call that computes, and returns when the result is there."""
        raise NotImplementedError

    def train(self, inputs: list[Any]) -> Call:
        """A call that makes one step of gradient descent and returns the loss."""
        raise NotImplementedError

    def train_gpt(self, inputs: list[Any]) -> Call:
        """A call that makes one step of ``gpt.py`` and returns the loss."""
        raise NotImplementedError

    def values(self, result: Any) -> Array:
        """A result as an array."""
        return np.asarray(result)

    def kernels(self, compute: Callable[..., Any], inputs: list[Any]) -> int | None:
        """How many kernels a call launches, where the framework can say."""
        return None


def torch_operators(module: Any) -> Any:
    """The operators in PyTorch's API."""
    return SimpleNamespace(
        sigmoid=module.sigmoid,
        tanh=module.tanh,
        sqrt=module.sqrt,
        relu=module.relu,
        softmax=lambda x: module.softmax(x, -1),
        row_mean=lambda x: x.mean(-1, keepdim=True),
        sum_all=lambda x: x.sum(),
        sum_last=lambda x: x.sum(-1),
        sum_first=lambda x: x.sum(0),
        sort=lambda x: module.sort(x).values,
        rows=lambda table, index: table[index],
        cumsum=lambda x: x.cumsum(0),
        cross_entropy=module.nn.functional.cross_entropy,
    )


class Torch(Framework):
    """PyTorch, one kernel at a time."""

    def __init__(self) -> None:
        import torch

        self.module: Any = torch
        self.version = torch.__version__
        self.operators = torch_operators(torch)

    def tensor(self, array: Array) -> Any:
        return self.module.tensor(array)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def finish(self, *results: Any) -> None:
        """Waits for results; PyTorch on the CPU has them already."""

    def prepare(self, compute: Callable[..., Any], inputs: list[Any]) -> Call:
        function = self.compiled(lambda *tensors: compute(self.operators, *tensors))

        def call() -> Any:
            result = function(*inputs)
            self.finish(result)
            return result

        return call

    def train(self, inputs: list[Any]) -> Call:
        x, labels, *weights = [i.clone() for i in inputs]
        for weight in weights:
            weight.requires_grad_()
        loss_of = self.compiled(lambda *tensors: compute_loss(self.operators, *tensors))

        def step() -> Any:
            loss = loss_of(x, labels, *weights)
            slopes = self.module.autograd.grad(loss, weights)
            with self.module.no_grad():
                for weight, slope in zip(weights, slopes, strict=True):
                    weight.sub_(LEARNING_RATE * slope)
            self.finish(loss, *weights)
            return loss.detach()

        return step

    def train_gpt(self, inputs: list[Any]) -> Call:
        compiled = self.compiled
        return torch_step(self.module, inputs, compiled, whole=False, finish=self.finish)

    def values(self, result: Any) -> Array:
        return np.asarray(result.detach().numpy())


class Compile(Torch):
    """torch.compile."""

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        made: Callable[..., Any] = self.module.compile(function)
        return made


class Lazyt(Torch):
    """This project, through the very code that PyTorch runs, with ``realize`` at the end."""

    def __init__(self) -> None:
        from importlib.metadata import PackageNotFoundError, version

        import lazyt
        import lazyt.nn.functional

        self.module = lazyt
        try:
            self.version = version("lazyt")
        except PackageNotFoundError:
            self.version = "not installed, from its folder"
        self.operators = torch_operators(lazyt)

    def finish(self, *results: Any) -> None:
        self.module.realize(*results)

    def train_gpt(self, inputs: list[Any]) -> Call:
        compiled = self.module.compile
        return torch_step(self.module, inputs, compiled, whole=True, finish=self.finish)

    def kernels(self, compute: Callable[..., Any], inputs: list[Any]) -> int | None:
        return len(self.module.explain(compute(self.operators, *inputs)).kernels)


class Numpy(Framework):
    """NumPy."""

    def __init__(self) -> None:
        import workloads

        self.version = np.__version__
        self.operators = SimpleNamespace(
            sigmoid=workloads.sigmoid,
            tanh=np.tanh,
            sqrt=np.sqrt,
            softmax=workloads.softmax,
            row_mean=lambda x: x.mean(-1, keepdims=True),
            sum_all=lambda x: x.sum(),
            sum_last=lambda x: x.sum(-1),
            sum_first=lambda x: x.sum(0),
            sort=np.sort,
            rows=lambda table, index: table[index],
            cumsum=np.cumsum,
        )

    def tensor(self, array: Array) -> Any:
        return array

    def prepare(self, compute: Callable[..., Any], inputs: list[Any]) -> Call:
        return lambda: compute(self.operators, *inputs)


class Jax(Framework):
    """JAX under ``jit``."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.jax: Any = jax
        self.version = jax.__version__

        def cross_entropy(scores: Any, labels: Any) -> Any:
            logs = jax.nn.log_softmax(scores)
            return -jnp.take_along_axis(logs, labels[:, None], 1).mean()

        self.operators = SimpleNamespace(
            sigmoid=jax.nn.sigmoid,
            tanh=jnp.tanh,
            sqrt=jnp.sqrt,
            relu=jax.nn.relu,
            softmax=jax.nn.softmax,
            row_mean=lambda x: x.mean(-1, keepdims=True),
            sum_all=lambda x: x.sum(),
            sum_last=lambda x: x.sum(-1),
            sum_first=lambda x: x.sum(0),
            sort=jnp.sort,
            rows=lambda table, index: table[index],
            cumsum=jnp.cumsum,
            cross_entropy=cross_entropy,
        )

    def tensor(self, array: Array) -> Any:
        return self.jax.numpy.asarray(array)

    def prepare(self, compute: Callable[..., Any], inputs: list[Any]) -> Call:
        function = self.jax.jit(lambda *tensors: compute(self.operators, *tensors))
        return lambda: function(*inputs).block_until_ready()

    def train(self, inputs: list[Any]) -> Call:
        x, labels, *weights = inputs

        def update(weights: list[Any]) -> Any:
            loss, slopes = self.jax.value_and_grad(
                lambda w: compute_loss(self.operators, x, labels, *w)
            )(weights)
            return loss, [w - LEARNING_RATE * s for w, s in zip(weights, slopes, strict=True)]

        compiled = self.jax.jit(update)
        state = [weights]

        def step() -> Any:
            loss, state[0] = compiled(state[0])
            return self.jax.block_until_ready((loss, state[0]))[0]

        return step

    def train_gpt(self, inputs: list[Any]) -> Call:
        return jax_step(self.jax, inputs)


class Tinygrad(Framework):
    """tinygrad on the CPU, under ``TinyJit``."""

    def __init__(self) -> None:
        from importlib.metadata import version

        os.environ.setdefault("CPU", "1")
        import tinygrad

        self.tinygrad: Any = tinygrad
        self.version = version("tinygrad")
        tensor = tinygrad.Tensor
        self.operators = SimpleNamespace(
            sigmoid=tensor.sigmoid,
            tanh=tensor.tanh,
            sqrt=tensor.sqrt,
            relu=tensor.relu,
            softmax=lambda x: x.softmax(-1),
            row_mean=lambda x: x.mean(-1, keepdim=True),
            sum_all=lambda x: x.sum(),
            sum_last=lambda x: x.sum(-1),
            sum_first=lambda x: x.sum(0),
            sort=lambda x: x.sort()[0],
            rows=lambda table, index: table[index],
            cumsum=lambda x: x.cumsum(0),
            cross_entropy=lambda scores, labels: scores.cross_entropy(labels),
        )

    def tensor(self, array: Array) -> Any:
        return self.tinygrad.Tensor(array, device="CPU").realize()

    def finished(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The jitted function, waited for."""
        jitted = self.tinygrad.TinyJit(function)
        device = self.tinygrad.Device["CPU"]

        def call(*tensors: Any) -> Any:
            result = jitted(*tensors)
            device.synchronize()
            return result

        return call

    def prepare(self, compute: Callable[..., Any], inputs: list[Any]) -> Call:
        function = self.finished(lambda *tensors: compute(self.operators, *tensors).realize())
        return lambda: function(*inputs)

    def train(self, inputs: list[Any]) -> Call:
        x, labels, *weights = inputs

        def update(x: Any, labels: Any) -> Any:
            for weight in weights:
                weight.requires_grad = True
            loss = compute_loss(self.operators, x, labels, *weights)
            for weight, slope in zip(weights, loss.gradient(*weights), strict=True):
                weight.assign(weight.detach() - LEARNING_RATE * slope)
            return loss.realize(*weights)

        function = self.finished(update)
        return lambda: function(x, labels)

    def values(self, result: Any) -> Array:
        return np.asarray(result.numpy())


AXPY = """
void axpy(const float *restrict x, const float *restrict y, float *restrict out, long n) {
    #pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) out[i] = x[i] * 2.5f + y[i];
}
"""


class HandwrittenC(Framework):
    """axpy as a C programmer writes it, into a buffer that is there: what the memory can do."""

    def __init__(self) -> None:
        command = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-fopenmp", "-shared"]
        with tempfile.TemporaryDirectory() as folder:
            source, library = os.path.join(folder, "axpy.c"), os.path.join(folder, "axpy.so")
            with open(source, "w", encoding="utf-8") as file:
                file.write(AXPY)
            subprocess.run([*command, "-fPIC", source, "-o", library], check=True)
            self.axpy = ctypes.CDLL(library).axpy
        self.axpy.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long]
        self.version = " ".join(command)
        self.operators = None

    def tensor(self, array: Array) -> Any:
        return array

    def prepare(self, compute: Callable[..., Any], inputs: list[Any]) -> Call:
        x, y = inputs
        out = np.zeros_like(x)
        pointers = (x.ctypes.data, y.ctypes.data, out.ctypes.data, x.size)

        def call() -> Any:
            self.axpy(*pointers)
            return out

        return call


FRAMEWORKS: dict[str, type[Framework]] = {
    "lazyt": Lazyt,
    "C": HandwrittenC,
    "numpy": Numpy,
    "torch": Torch,
    "compile": Compile,
    "jax": Jax,
    "tinygrad": Tinygrad,
}

#: Workloads that a framework cannot do; every other pair is run.
ONLY: dict[str, tuple[str, ...]] = {"C": ("axpy",)}
WITHOUT: dict[str, tuple[str, ...]] = {"numpy": ("train", "gpt"), "tinygrad": ("gpt",)}

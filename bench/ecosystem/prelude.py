"""Runs a script as it is, with the same numbers in both frameworks: ``prelude.py FILE STOP ...``.

Random generators of frameworks differ, so numbers are drawn by NumPy: parameters are filled when a
module is first called, dropout is switched off, and what the script draws itself comes from NumPy's
generators. FILE gets, as JSON, the first losses (what ``backward`` was called on). Where STOP is
"stop" the script ends with the last of them. Its name and its arguments follow.

Where the variable SCRIPT_IN_DOUBLE is set, float32 is float64 to the script. Of networks that blow
up the last bits, two runs of one framework differ in float32 after a few steps.
"""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import random
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

#: Losses that are written down.
MOST = 20


class Numbers:
    """What is drawn in place of the framework's own random numbers.

    Args:
        torch: the framework.
        stop: whether the script ends once there are losses enough.
    """

    def __init__(self, torch: Any, stop: bool) -> None:
        self.torch, self.stop = torch, stop
        self.source = np.random.RandomState(0)
        self.filled: set[int] = set()
        self.losses: list[float] = []

    def tensor(self, values: Any, options: dict[str, Any]) -> Any:
        """A tensor of the default dtype or the one that was asked for."""
        dtype = options.get("dtype") or self.torch.get_default_dtype()
        found = self.torch.tensor(np.asarray(values)).to(dtype)
        return found.requires_grad_() if options.get("requires_grad") else found

    def rand(self, *size: Any, **options: Any) -> Any:
        """Uniform numbers."""
        return self.tensor(self.source.random_sample(_shape(size, options)), options)

    def randn(self, *size: Any, **options: Any) -> Any:
        """Normal numbers."""
        return self.tensor(self.source.standard_normal(_shape(size, options)), options)

    def randint(self, low: int, high: Any = None, size: Any = None, **options: Any) -> Any:
        """Integers."""
        if size is None and not isinstance(high, int):
            low, high, size = 0, low, high
        if high is None:
            low, high = 0, low
        values = self.source.randint(low, high, tuple(size))
        return self.tensor(values, {"dtype": self.torch.int64, **options})

    def randperm(self, n: int, **options: Any) -> Any:
        """An order."""
        return self.tensor(self.source.permutation(n), {"dtype": self.torch.int64, **options})

    def randn_like(self, other: Any, **options: Any) -> Any:
        """Normal numbers of the shape and dtype of another tensor."""
        return self.randn(*other.shape, **{"dtype": other.dtype, **options})

    def rand_like(self, other: Any, **options: Any) -> Any:
        """Uniform numbers of the shape and dtype of another tensor."""
        return self.rand(*other.shape, **{"dtype": other.dtype, **options})

    def order(self, sampler: Any) -> Iterator[int]:
        """The order in which a loader goes through a data set."""
        yield from self.source.permutation(len(sampler.data_source)).tolist()

    def choose(self, distribution: Any, sample_shape: Any = ()) -> Any:
        """A sample of a categorical distribution."""
        chances = distribution.probs.detach().numpy()
        drawn = self.source.random_sample((*sample_shape, *chances.shape[:-1], 1))
        found = (np.cumsum(chances, -1) < drawn).sum(-1).clip(0, chances.shape[-1] - 1)
        return self.torch.tensor(found.astype(np.int64))

    def fill(self, module: Any) -> None:
        """Gives parameters that were not filled yet numbers that depend on their order alone."""
        with self.torch.no_grad():
            for parameter in module.parameters():
                if id(parameter) in self.filled:
                    continue
                self.filled.add(id(parameter))
                shape = tuple(parameter.shape)
                values = np.random.RandomState(len(self.filled)).standard_normal(shape)
                values *= 0.5 / math.sqrt(max(1, math.prod(shape[1:])))
                values += 1.0 if parameter.ndim < 2 and bool((parameter == 1).all()) else 0.0
                parameter.copy_(self.torch.tensor(values).to(parameter.dtype))
        for part in module.modules():
            if "Dropout" in type(part).__name__:
                part.p = 0.0
            elif isinstance(getattr(part, "dropout", None), float):
                part.dropout = 0.0

    def install(self, output: Path) -> None:
        """Puts all that in place of what the framework has."""
        torch = self.torch
        for name in ("rand", "randn", "randint", "randperm", "randn_like", "rand_like"):
            setattr(torch, name, getattr(self, name))
        torch.utils.data.RandomSampler.__iter__ = lambda sampler: self.order(sampler)
        torch.distributions.Categorical.sample = lambda found, shape=(): self.choose(found, shape)
        call, backward = torch.nn.Module.__call__, torch.Tensor.backward

        @functools.wraps(call)
        def filled(module: Any, *args: Any, **kwargs: Any) -> Any:
            if id(module) not in self.filled:
                self.filled.add(id(module))
                self.fill(module)
            return call(module, *args, **kwargs)

        @functools.wraps(backward)
        def noted(loss: Any, *args: Any, **kwargs: Any) -> Any:
            if loss.numel() == 1 and len(self.losses) < MOST:
                self.losses.append(float(loss.detach()))
            if self.stop and len(self.losses) == MOST:
                raise SystemExit
            return backward(loss, *args, **kwargs)

        torch.nn.Module.__call__, torch.Tensor.backward = filled, noted
        atexit.register(lambda: output.write_text(json.dumps(self.losses), encoding="utf-8"))


def _shape(size: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, ...]:
    if "size" in options:
        size = options["size"]
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)


def main(arguments: list[str]) -> None:
    """Runs the script as ``__main__`` with its own arguments."""
    output, stop, script, *rest = arguments
    random.seed(0)
    np.random.seed(0)
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    import torch
    import torch.distributions
    import torch.utils.data

    if os.environ.get("ECOSYSTEM_RECORDS"):
        runpy.run_path(str(Path(__file__).with_name("under_torch.py")))["install"](False)
    Numbers(torch, stop == "stop").install(Path(output).resolve())
    if os.environ.get("SCRIPT_IN_DOUBLE"):
        torch.set_default_dtype(torch.float64)
        torch.float = torch.float64
        torch.Tensor.float = torch.Tensor.double
    sys.argv = [script, *rest]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])

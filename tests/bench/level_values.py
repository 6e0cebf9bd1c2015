"""What problems of the levels compute: results, gradients, and what they depend on.

``python -m tests.bench.level_values --record`` writes ``level_values.json`` under PyTorch, with
which lazyt is compared; ``--compare FOLDER`` compares every element with what ``--save FOLDER``
wrote under PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lazyt.bench.networks.building import build, declared, dims_of
from lazyt.bench.problems import Array, Problem, Workload

RECORD = Path(__file__).with_name("level_values.json")
#: Values of each result that are recorded.
SAMPLES = 4


@dataclass(frozen=True)
class Observed:
    """What a network computed.

    Attributes:
        outputs: its results.
        gradients: of the sum of all results, weighted by fixed numbers, with respect to what the
            name says: ``input 0`` or a parameter. Empty where no result has a gradient.
    """

    outputs: list[Array]
    gradients: dict[str, Array]

    def arrays(self) -> dict[str, Array]:
        """All of them by name."""
        outputs = {f"output {number}": array for number, array in enumerate(self.outputs)}
        return {**outputs, **{f"gradient {name}": a for name, a in self.gradients.items()}}


def weights(shape: tuple[int, ...]) -> Array:
    """The weights of a result's elements in what is differentiated."""
    count = int(np.prod(shape))
    return np.asarray((1 + 0.5 * np.cos(np.arange(count) * 1.7)).reshape(shape))


def inputs_of(problem: Problem, size: str, seed: int = 0) -> list[Array]:
    """The arrays that the problem is called with."""
    return Workload(problem, "cpu" if size == "quick" else size).inputs(seed, size == "quick")


def observe(problem: Problem, torch: Any, dtype: str = "float32", size: str = "quick") -> Observed:
    """Runs a problem and differentiates it, under PyTorch or lazyt."""
    model = build(problem, torch, dims_of(problem, size)).to(getattr(torch, dtype))
    tensors = [torch.from_numpy(array) for array in inputs_of(problem, size)]
    tensors = [
        t.to(getattr(torch, dtype)).requires_grad_() if t.is_floating_point() else t
        for t in tensors
    ]
    result = model(*tensors)
    outputs = list(result) if isinstance(result, tuple) else [result]
    terms = [
        (part * torch.from_numpy(weights(tuple(part.shape))).to(part.dtype)).sum()
        for part in outputs
        if part.requires_grad
    ]
    gradients: dict[str, Array] = {}
    if terms:
        sum(terms[1:], terms[0]).backward()
        named = {f"input {number}": tensor for number, tensor in enumerate(tensors)}
        named.update(model.named_parameters())
        for name, tensor in named.items():
            if tensor.requires_grad:
                missing = tensor.grad is None
                gradients[name] = np.zeros(tensor.shape) if missing else tensor.grad.numpy()
    return Observed([np.asarray(part.detach().numpy()) for part in outputs], gradients)


def summary(observed: Observed) -> dict[str, list[float]]:
    """Some numbers that say all the same: of each result its shape, sampled values and the sum of
    all sizes; of all gradients together the sum of sizes and a weighted sum."""
    found = {}
    for name, array in observed.arrays().items():
        if name.startswith("output"):
            flat = array.reshape(-1).astype(np.float64)
            samples = flat[:: max(1, flat.size // SAMPLES)][:SAMPLES]
            found[name] = [*map(float, array.shape), *samples, float(np.abs(flat).sum())]
    if observed.gradients:
        values = [a.reshape(-1).astype(np.float64) for a in observed.gradients.values()]
        sizes = sum(float(np.abs(v).sum()) for v in values)
        found["gradients"] = [sizes, sum(float(v @ weights(v.shape)) for v in values)]
    return {name: [float(f"{number:.7g}") for number in numbers] for name, numbers in found.items()}


def error_of(found: Array, want: Array) -> float:
    """The largest difference, relative to the largest value; infinite for another shape or dtype,
    and where one of the two alone is no number."""
    if found.shape != want.shape or found.dtype != want.dtype:
        return float("inf")
    if not np.array_equal(np.isfinite(found), np.isfinite(want)):
        return float("inf")
    difference = np.abs(found.astype(np.float64) - want.astype(np.float64)).max(initial=0.0)
    return float(difference / max(1e-30, np.abs(want).max(initial=0.0)))


def compare(observed: Observed, path: Path) -> tuple[float, str]:
    """The largest error of all results and gradients beside those of a file, and whose it is."""
    with np.load(path) as file:
        want = {name: file[name] for name in file.files}
    got = observed.arrays()
    if different := got.keys() ^ want.keys():
        return float("inf"), ", ".join(sorted(different))
    return max((error_of(array, want[name]), name) for name, array in got.items())


def file_of(problem: Problem, folder: Path) -> Path:
    """Where a folder has the values of a problem."""
    return folder / f"{problem.name.replace('/', '_')}.npz"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--size", choices=["quick", "cpu"], default="quick")
    given = parser.parse_args()
    torch: Any = importlib.import_module("lazyt" if given.compare else "torch")
    recorded = {}
    for problem in declared():
        if given.only not in problem.name:
            continue
        observed = observe(problem, torch, given.dtype, given.size)
        recorded[problem.name] = summary(observed)
        if given.save:
            given.save.mkdir(parents=True, exist_ok=True)
            np.savez(file_of(problem, given.save), **observed.arrays())  # type: ignore[arg-type]
        if given.compare:
            error, name = compare(observed, file_of(problem, given.compare))
            print(f"{error:8.1e} {problem.name}: {name}", flush=True)
    if given.record:
        lines = [f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in recorded.items()]
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

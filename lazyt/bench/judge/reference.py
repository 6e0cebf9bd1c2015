"""The process of a KernelBench reference: ``python -m lazyt.bench.judge.reference IN OUT MEMORY``.

It has the file that says what is right, makes inputs by its ``get_inputs``, and computes results by
its ``Model``, in the declared dtype and in float64. No submission ever runs here.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.bench.judge.child import load_module, seeded
from lazyt.bench.judge.tasks import noise_of, spread_out
from lazyt.bench.problems import Array


class Reference:
    """A model and its inputs.

    Args:
        settings: ``path`` of the file, ``module`` (lazyt or torch), ``threads`` and ``seed``.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.torch = load_module(settings["module"])
        self.torch.set_num_threads(settings["threads"])
        spec = importlib.util.spec_from_file_location("reference_file", settings["path"])
        assert spec is not None and spec.loader is not None
        self.file: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.file)
        for name in ("Model", "get_inputs"):
            if not hasattr(self.file, name):
                raise ValueError(f"the reference has no {name}")
        make = getattr(self.file, "get_init_inputs", list)
        self.init: Any = make()
        json.dumps(self.init)  # raises TypeError for what no other process can be told
        seeded(self.torch, settings["seed"])
        self.model = self.file.Model(*self.init)
        self.exact = copy.deepcopy(self.model)
        if hasattr(self.exact, "double"):
            self.exact = self.exact.double()

    def draw(self, seed: int, spread: str, path: str) -> None:
        """Writes a set of inputs with both kinds of results."""
        torch, source = self.torch, np.random.default_rng(seed)
        seeded(torch, seed % (1 << 31))
        given = [t.detach().numpy() for t in self.file.get_inputs()]
        inputs = []
        for array in given:
            mixed = array.dtype.kind == "f" and array.size and array.min() < 0 < array.max()
            if spread != "usual" and mixed:
                spread_array = spread_out(array.astype(np.float64), False, spread, source)
                array = spread_array.astype(array.dtype)
            inputs.append(np.ascontiguousarray(array))
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in inputs]
        kept = {f"input{n}": array for n, array in enumerate(inputs)}
        for name, model, arrays in (
            ("rounded", self.model, inputs), ("exact", self.exact, wide),
        ):  # fmt: skip
            found = self._computed(model, arrays)
            kept.update({f"{name}{n}": part for n, part in enumerate(found)})
        # the results of the last ones, the exact
        noise = noise_of(inputs, found, source, lambda off: self._computed(self.exact, off))
        kept.update({f"noise{n}": part for n, part in enumerate(noise)})
        self._save(path, kept)

    def _computed(self, model: Any, arrays: Sequence[Array]) -> list[Array]:
        torch = self.torch
        with torch.no_grad():
            result = model(*[torch.from_numpy(np.array(array)) for array in arrays])
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        return [part.detach().numpy() for part in parts]

    @staticmethod
    def _save(path: str, kept: dict[str, Array]) -> None:
        save: Any = np.savez  # its types forbid names that are not known beforehand
        save(path, **kept)


def main() -> None:
    """Answers until there are no more lines."""
    taken, out = int(sys.argv[1]), int(sys.argv[2])
    reference: Reference | None = None
    with os.fdopen(taken, "r", encoding="utf-8") as lines:
        for line in lines:
            request = json.loads(line)
            try:
                if reference is None:
                    reference = Reference(request)
                    reply = "ready " + json.dumps(reference.init)
                else:
                    reference.draw(request["seed"], request["spread"], request["path"])
                    reply = "drawn"
            except Exception as error:
                text = " ".join(str(error).split())[:300]
                reply = f"error {type(error).__name__}: {text}"
            os.write(out, reply.encode() + b"\n")


if __name__ == "__main__":
    main()

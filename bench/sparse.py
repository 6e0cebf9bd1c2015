"""Times products with sparse matrices, a graph convolution and steps of sparse embeddings.

    python bench/sparse.py [python of PyTorch]

The cases run in processes of lazyt and, where a Python with PyTorch is given, of PyTorch in turn,
three times each; what counts is the best time of each case.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3
REPEATS = 12


def graph(torch: Any, nodes: int, edges: int) -> Any:
    """A coalesced matrix of ``edges`` elements at random."""
    torch.manual_seed(0)
    places = torch.randint(0, nodes, (2, edges))
    return torch.sparse_coo_tensor(places, torch.rand(edges), (nodes, nodes)).coalesce()


def products(torch: Any) -> dict[str, Callable[[], Any]]:
    """A matrix of 100,000 rows and a million elements times 64 columns, and times a vector."""
    s = graph(torch, 100_000, 1_000_000)
    c = s.to_sparse_csr()
    b, v = torch.randn(100_000, 64), torch.randn(100_000)
    d = b.clone().requires_grad_()
    small = graph(torch, 1_000, 20_000)

    def backward() -> Any:
        d.grad = None
        loss = torch.sparse.mm(s, d).square().sum()
        loss.backward()
        return loss.detach(), d.grad

    return {
        "COO, 64 columns": lambda: torch.sparse.mm(s, b), "CSR, 64 columns": lambda: c @ b,
        "CSR, vector": lambda: c @ v, "COO, 64 columns, forward and backward": backward,
        "COO to dense, 1,000 rows": small.to_dense,
        "coalesce, a million": lambda: torch.sparse_coo_tensor(
            s.indices().flip(1), s.values(), s.shape
        ).coalesce().values(),
    }  # fmt: skip


def convolution(torch: Any) -> dict[str, Callable[[], Any]]:
    """Two graph convolutions of 10,000 nodes and 100,000 edges: a training step."""
    adjacency = graph(torch, 10_000, 100_000)
    x, target = torch.randn(10_000, 64), torch.randint(0, 16, (10_000,))
    first, second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 16)
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad()
        hidden = torch.relu(torch.sparse.mm(adjacency, first(x)))
        out = torch.sparse.mm(adjacency, second(hidden))
        loss = torch.nn.functional.cross_entropy(out, target)
        loss.backward()
        optimizer.step()
        return loss

    return {"two graph convolutions, training step": step}


def embeddings(torch: Any) -> dict[str, Callable[[], Any]]:
    """Steps of a table of 500,000 rows of 64, of which 2,048 are used."""
    found: dict[str, Callable[[], Any]] = {}
    numbers = torch.randint(0, 500_000, (2048,))
    for name in ("SGD", "Adagrad", "SparseAdam"):
        table = torch.nn.Embedding(500_000, 64, sparse=True)
        optimizer = getattr(torch.optim, name)(table.parameters(), lr=0.01)

        def step(table: Any = table, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = table(numbers).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        found[f"embedding of 500,000 rows, {name}"] = step
    return found


def measure(name: str) -> None:
    """Prints the best times of all cases in milliseconds."""
    torch = importlib.import_module(name)
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    times: dict[str, float] = {}
    for cases in (products, convolution, embeddings):
        for title, run in cases(torch).items():
            best = float("inf")
            for turn in range(REPEATS):
                start = time.perf_counter()
                result = run()
                if name == "lazyt":
                    torch.realize(*result if isinstance(result, tuple) else (result,))
                best = min(best, time.perf_counter() - start)
                del result  # which would be found again
                if name == "lazyt" and turn in (2, 4):
                    torch.wait_for_compiler()
            times[title] = best * 1e3
    print(json.dumps(times))


def main() -> None:
    """Runs the processes in turn and prints a table."""
    pythons = [("lazyt", sys.executable)]
    pythons += [("torch", python) for python in sys.argv[1:2]]
    best: dict[str, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for name, python in pythons:
            done = subprocess.run(
                [python, "-W", "ignore", __file__, "--measure", name],
                capture_output=True, text=True, check=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            for title, value in json.loads(done.stdout.splitlines()[-1]).items():
                known = best.setdefault(title, {})
                known[name] = min(value, known.get(name, value))
    for title, values in best.items():
        ours, peer = values["lazyt"], values.get("torch")
        beside = "" if peer is None else f" | {peer:.2f} | {ours / peer:.2f}"
        print(f"| {title} | {ours:.2f}{beside} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        main()

"""How the time to compile grows with the graph: ``python bench/compile_time.py [NODES ...]``.

Steps of training ever deeper networks (norm, product, gelu, product, residual; momentum) are made
from graph to C text, on one thread, in seconds of CPU. One line each: nodes, launches, kernels,
seconds until groups are formed and in all, microseconds a node. Last the slope between the two
largest, which is that of the others where time is linear in nodes. The C compiler is left out: it
takes what the different kernels take, and deeper networks have no more of these.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import lazyt
from lazyt.compiler import compile_graph, group_graph
from lazyt.ir.graph import Node, topological
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.nn import functional
from lazyt.ops.registry import OPS

lazyt.config.tier = 1  # kernels, before anything runs

SIZES = (625, 1250, 2500, 5000, 10000, 20000)
#: Nodes that one layer adds, by experience.
_LAYER = 78


def step_of(layers: int, width: int = 64) -> tuple[list[Node], list[Node]]:
    """Leaves and results of a step of training: the loss, parameters and momenta."""
    x = lazyt.rand(32, width).realize()
    shapes = [(width,), (width,), (2 * width, width), (width, 2 * width)]
    weights = [lazyt.rand(*s).realize().requires_grad_() for _ in range(layers) for s in shapes]
    momenta = [lazyt.rand(*w.shape).realize() for w in weights]
    y = x
    for number in range(0, len(weights), 4):
        gain, shift, up, down = weights[number : number + 4]
        inside = functional.gelu(functional.layer_norm(y, (width,), gain, shift) @ up.T)
        y = y + inside @ down.T
    loss = (y * y).mean()
    loss.backward()
    results = [loss]
    with lazyt.no_grad():
        for weight, momentum in zip(weights, momenta, strict=True):
            assert weight.grad is not None
            momentum = momentum * 0.9 + weight.grad
            results += [momentum, weight - 0.1 * momentum]
    return parse_graph(print_graph([result.node for result in results]), OPS)


def measure(size: int) -> tuple[int, float]:
    """Nodes of a graph of about that size and the seconds to compile it; prints both."""
    leaves, roots = step_of(max(1, size // _LAYER))
    nodes = len(topological(roots))
    begun = time.process_time()
    group_graph(roots)
    grouped = time.process_time() - begun
    begun = time.process_time()
    program, _ = compile_graph(roots, leaves)
    whole = time.process_time() - begun
    print(
        f"{nodes:6} nodes {len(program.launches):6} launches {len(program.kernels):4} kernels "
        f"{grouped:7.3f} s {whole:7.3f} s {1e6 * whole / nodes:6.0f} us a node",
        flush=True,
    )
    return nodes, whole


def main(sizes: Sequence[int]) -> None:
    """Measures and prints all sizes."""
    measure(sizes[0])  # imports, and code that is new to the interpreter
    found = [measure(size) for size in sizes]
    if len(found) > 1:
        (fewer, less), (more, longer) = found[-2:]
        print(f"slope: {1e6 * (longer - less) / (more - fewer):.0f} us a node")


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or SIZES)

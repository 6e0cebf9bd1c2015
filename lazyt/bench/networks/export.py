"""Problems of the levels as single files in KernelBench's form, for programs that read that.

Such a file has a class ``Model``, ``get_inputs()`` and ``get_init_inputs()``, and needs nothing but
PyTorch, or ``lazyt run``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from lazyt.bench.networks.building import dims_of, network_of, source
from lazyt.bench.problems import Dims, Network, Problem, described

#: What makes an input of each kind; ``{}`` is its shape.
_MAKERS = {
    "normal": "torch.randn({})",
    "positive": "torch.rand({}) + 0.1",
    "probs": "torch.softmax(torch.randn({}), dim=-1)",
    "factors": "torch.exp(0.05 * torch.randn({}))",
    "signs": "torch.sign(torch.rand({}) - 0.5)",
    "mask": "torch.rand({}) < 0.5",
    "lower": "torch.tril(torch.randn({}))",
    "upper": "torch.triu(torch.randn({}))",
    "symmetric": "symmetric(torch.randn({}))",
    "labels": "torch.randint(0, {limit}, ({},))",
}
_SYMMETRIC = """

def symmetric(matrix):
    return (matrix + matrix.T) / 2
"""


def to_text(problem: Problem, size: str = "full") -> str:
    """The file of a problem at ``quick``, ``cpu`` or ``full`` size.

    Raises ValueError for another size.
    """
    if size not in ("quick", *problem.sizes):
        raise ValueError(f"there is no size {size}; there are quick, {', '.join(problem.sizes)}")
    network, dims = network_of(problem), dims_of(problem, size)
    inputs = [_maker(text) for text in problem.arrays]
    init = ", ".join(_expression(word) if isinstance(word, str) else repr(word)
                     for word in network.init)  # fmt: skip
    sizes = "".join(f"{name} = {extent}\n" for name, extent in _used(problem, dims).items())
    helper = _SYMMETRIC if any(text.startswith("symmetric(") for text in inputs) else ""
    title = f"Level {network.level}, problem {network.number}: {network.title.replace('_', ' ')}."
    returned = ", ".join(inputs)
    parts = [f'"""{title}"""', _program(network), *([sizes.rstrip()] if sizes else [])]
    text = "\n\n".join(parts) + f"\n{helper}\n\ndef get_inputs():\n    return [{returned}]\n"
    return f"{text}\n\ndef get_init_inputs():\n    return [{init}]\n"


def write(problems: Sequence[Problem], folder: Path, size: str = "full") -> list[Path]:
    """Writes a file for each problem into a folder of its level, under ``NUMBER_TITLE.py``.

    Raises OSError where that cannot be done, and ValueError for an unknown size.
    """
    written = []
    for problem in problems:
        path = folder / f"{problem.name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_text(problem, size), encoding="utf-8")
        written.append(path)
    return written


def _expression(word: str) -> str:
    return word.replace("*", " * ")


def _maker(text: str) -> str:
    kind, _, extents, limit = described(text)
    shape = ", ".join(_expression(word) for word in extents)
    return _MAKERS[kind].format(shape, limit=limit)


def _used(problem: Problem, dims: Dims) -> Dims:
    """The sizes that inputs or arguments name."""
    texts = [*problem.arrays, *(word for word in network_of(problem).init if isinstance(word, str))]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return {name: extent for name, extent in dims.items() if name in words}


# The part of a module that a class needs.


def _names_in(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _program(network: Network) -> str:
    """Imports, what the class uses, and the class under the name ``Model``."""
    text = source(network.module)
    tree = ast.parse(text)
    defined = {
        node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    }
    needed, waiting = {network.class_name}, [network.class_name]
    while waiting:
        node = defined[waiting.pop()]
        for part in (*node.body, *(node.bases if isinstance(node, ast.ClassDef) else ())):
            more = (_names_in(part) & defined.keys()) - needed
            needed |= more
            waiting += more
    lines = text.splitlines()
    chosen = [node for name, node in defined.items() if name in needed]
    blocks = ["\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in chosen]
    pattern = rf"(?<![\w.]){network.class_name}\b"  # but not the layer of that name in torch.nn
    blocks = [re.sub(pattern, "Model", block) for block in blocks]
    return "\n\n\n".join([_imports(tree, chosen), *blocks]) + "\n"


def _imports(tree: ast.Module, chosen: Sequence[ast.AST]) -> str:
    used = {name for node in chosen for name in _names_in(node)} | {"torch"}
    lines = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.asname or alias.name for alias in node.names}
            is_problem = isinstance(node, ast.ImportFrom) and node.module == "lazyt.bench.levels"
            if names & used and not is_problem:
                lines.append(ast.unparse(node))
    if "import torch" not in lines:
        lines.insert(0, "import torch")
    others = [line for line in lines if "torch" not in line]
    torch = [line for line in lines if "torch" in line]
    return "\n".join([*others, *([""] if others else []), *torch])

"""``python -m lazyt show``: a picture of a graph, from IR text or from a Python script's tensor,
or of kernels, from their text.

``show broadcast`` is about shapes instead; a file of that name is ``./broadcast``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lazyt.tools.arguments import Parser, UsageError, read_input, write_output

if TYPE_CHECKING:
    from lazyt.ir.graph import Node
    from lazyt.ir.kernel import Kernel


def _arguments(argv: Sequence[str]) -> dict[str, Any]:
    parser = Parser(
        loads=True,
        prog="lazyt show",
        description="Draw a graph or kernels; `show broadcast 8,1,6 1,5` explains shapes.",
    )
    parser.add_argument("file", help="IR text, a Python script (.py), or - for standard input")
    parser.add_argument("--name", help="the script's tensor; default: its only pending one")
    parser.add_argument("-o", "--output", default="-", help=".svg or .html, - for standard output")
    parser.add_argument("--format", choices=("svg", "html"), help="default: by the output's name")
    given: dict[str, Any] = vars(parser.parse_args(argv))
    return given


def _format(options: dict[str, Any]) -> str:
    if options["format"]:
        return str(options["format"])
    name = str(options["output"]).lower()
    if name == "-" or name.endswith((".html", ".htm")):
        return "html"
    if name.endswith(".svg"):
        return "svg"
    raise UsageError(f"{options['output']} ends in neither .svg nor .html; say --format")


def tensors_of(path: str) -> dict[str, Any]:
    """The module-level tensors of a script, which is run as ``lazyt run`` would.

    Raises UsageError when it fails.
    """
    import runpy

    from lazyt.compat import torch_alias
    from lazyt.handle.tensor import Tensor

    read_input(path)  # a clear error for a file that cannot be read
    try:
        with torch_alias.standing_in():  # a script may say `import torch`
            names = runpy.run_path(path, run_name="__main__")
    except SystemExit as stop:
        raise UsageError(f"{path} ended itself with exit code {stop.code}") from None
    except Exception as error:  # whatever the user's script raises
        raise UsageError(f"{path} failed: {type(error).__name__}: {error}") from error
    return {name: value for name, value in names.items() if isinstance(value, Tensor)}


def choose_tensor(found: dict[str, Any], name: str | None, path: str) -> tuple[str, Any]:
    """The tensor to draw, with its name. Raises UsageError when that is not clear."""
    if name is not None:
        if name not in found:
            known = ", ".join(found) or "none"
            raise UsageError(f"{path} has no tensor '{name}'; its tensors: {known}")
        return name, found[name]
    pending = {n: t for n, t in found.items() if t.node.data is None}
    if len(pending) == 1:
        return next(iter(pending.items()))
    if not pending:
        raise UsageError(f"{path} leaves no pending tensor; draw it before it is realized")
    raise UsageError(f"{path} has several pending tensors; say --name {'|'.join(pending)}")


def pending_part(root: Node) -> Node:
    """The graph of ``root`` with values that are computed already as inputs."""
    from lazyt import ops
    from lazyt.ir.graph import rebuild, remake

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.data is None:
            return remake(node, inputs)
        leaf = ops.input_(node.shape, node.dtype)
        leaf.source = node.source
        return leaf

    return rebuild([root], change, lambda node: node.data is not None)[0]


def read_graph(options: dict[str, Any]) -> tuple[str, list[Node] | list[Kernel]]:
    """A title and what to draw: the roots of a graph, or kernels."""
    path = str(options["file"])
    if path.endswith(".py"):
        name, tensor = choose_tensor(tensors_of(path), options["name"], path)
        return name, [pending_part(tensor.node)]
    if options["name"]:
        raise UsageError("--name goes with a Python script")
    from lazyt.ir.parser import parse_graph, parse_kernels
    from lazyt.ir.printer import Reader
    from lazyt.ops import OPS

    text = read_input(path)
    if Reader(text).text == "kernel":
        return "kernels" if path == "-" else path, parse_kernels(text)
    _, roots = parse_graph(text, OPS)
    return "graph" if path == "-" else path, roots


def picture(title: str, found: list[Node] | list[Kernel], form: str) -> str:
    """The picture of a graph or of kernels, as ``svg`` or ``html``."""
    from lazyt.ir.kernel import Kernel
    from lazyt.tools.kernel_picture import draw_kernels, draw_kernels_page
    from lazyt.tools.picture import draw_html, draw_svg

    kernels = [one for one in found if isinstance(one, Kernel)]
    if kernels:
        return draw_kernels(kernels) if form == "svg" else draw_kernels_page(kernels, title)
    roots = [one for one in found if not isinstance(one, Kernel)]
    return draw_svg(roots) if form == "svg" else draw_html(roots, title)


def run(argv: Sequence[str]) -> int:
    """The command; returns the exit code."""
    if argv and argv[0] == "broadcast":
        from lazyt.tools import show_broadcast

        return show_broadcast.run(argv[1:])
    options = _arguments(argv)
    form = _format(options)
    title, found = read_graph(options)
    write_output(str(options["output"]), picture(title, found, form))
    return 0

"""``python -m lazyt opt``: IR text in, passes, IR text out.

Graph text goes through the passes of the recipe, or those named by ``--passes``, and is verified
after each. Of a golden file of the tests, the graph before its line ``---- PASSES`` is read.
``--emit stablehlo`` and ``--emit linalg`` write that graph for compilers of MLIR. ``--emit
kernels`` goes on to kernel IR, ``--emit`` and a target to the text of the plan that computes the
graph, in C or CUDA C: as this machine has it, or the one that ``--machine`` names. A graph of a
capture says what its plan depends on beside it (settings, tuning, inputs that may be written over),
and its text is that of the plan that ran. Kernel text is verified, its indices are proved in
bounds, and it is printed again in the requested form. ``--forms`` notes in kernels how their loops
are laid out; text with such a line gets that form back.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lazyt.runtime import devices
from lazyt.tools.arguments import Parser, UsageError, read_input
from lazyt.tools.machines import HELP, machine

if TYPE_CHECKING:
    from lazyt.codegen.plan.choices import Choices
    from lazyt.compiler import Pass
    from lazyt.ir.graph import Node
    from lazyt.ir.kernel import Kernel
    from lazyt.ir.program import Program


#: Forms of graphs, which any passes may precede.
_GRAPHS = ("graph", "stablehlo", "linalg")


def _arguments(argv: Sequence[str]) -> dict[str, object]:
    parser = Parser(loads=True, prog="lazyt opt", description="Run compiler passes over IR text.")
    parser.add_argument("file", nargs="?", default="-", help="IR text, - for standard input")
    parser.add_argument("--passes", help="comma-separated names, default: the whole recipe")
    parser.add_argument("--list", action="store_true", help="list the passes, with their reasons")
    parser.add_argument(
        "--print-after-all", action="store_true", help="print the IR after each pass to stderr"
    )
    parser.add_argument(
        "--verify-values",
        action="store_true",
        help="interpret the graph before and after each pass, on inputs of several kinds",
    )
    parser.add_argument(
        "--emit",
        default="graph",
        help="graph (default), stablehlo, linalg, kernels, or a target: c, cuda",
    )
    parser.add_argument(
        "--forms", action="store_true", help="kernels with the forms that they have"
    )
    parser.add_argument("--machine", default="native", help=HELP)
    given: dict[str, object] = vars(parser.parse_args(argv))
    from lazyt.extensions import targets

    forms = (*_GRAPHS, "kernels", *targets.known())
    if given["emit"] not in forms:
        raise UsageError(f"nothing is called '{given['emit']}'; --emit takes {', '.join(forms)}")
    return given


def _choose_passes(names: object) -> list[Pass]:
    """The named passes in the order given; all of the recipe for None."""
    from lazyt.compiler import PASSES

    if names is None:
        return list(PASSES)
    known = {step.name: step for step in PASSES}
    chosen: list[Pass] = []
    for name in (n.strip() for n in str(names).split(",")):
        if name and name not in known:
            raise UsageError(f"no pass is called '{name}'; there are {', '.join(known)}")
        if name:
            chosen.append(known[name])
    return chosen


def run_passes(
    roots: Sequence[Node], passes: Sequence[Pass], loud: bool, values: bool = False
) -> list[Node]:
    """The graph after ``passes``, verified after each, with ``values`` what it computes, too.
    Raises VerifyError naming the pass."""
    from lazyt.compiler import apply_pass
    from lazyt.ir.printer import print_graph
    from lazyt.runtime.value_checks import GraphChecker

    current = list(roots)
    checker = GraphChecker(current, values)
    for step in passes:
        current = apply_pass(step, current)
        if loud:
            print(f"# after {step.name}\n{print_graph(current)}", file=sys.stderr)
        checker.check(step.name, current, 0.0 if step.exact else step.tolerance)
    return current


def check_kernels(kernels: Sequence[Kernel]) -> None:
    """Verifies kernels, proves their indices in bounds, and reads the forms that they ask for."""
    from lazyt.codegen.plan.choices import noted_form
    from lazyt.ir.verifier import check_bounds, verify_kernel

    for kernel in kernels:
        verify_kernel(kernel)
        check_bounds(kernel)
        noted_form(kernel)


def warn_of(kernels: Sequence[Kernel]) -> None:
    """Says on standard error what could not be proved about kernels that somebody wrote."""
    from lazyt.ir.proofs.stores import unproved

    for kernel in kernels:
        for text in unproved(kernel):
            print(f"# kernel {kernel.name}: it is not proved {text}", file=sys.stderr)


def kernels_text(kernels: Sequence[Kernel], emit: str, forms: bool = False) -> str:
    """Kernels as kernel IR (``forms``: with their forms), or as the C or CUDA C of plans of this
    machine."""
    if emit == "cuda":
        from lazyt.codegen.loops.flat import split_segments
        from lazyt.compiler import print_kernels

        return print_kernels([one for kernel in kernels for one in split_segments(kernel)], "cuda")
    if emit != "kernels":
        from lazyt.compiler import print_kernels

        return print_kernels(kernels, emit)
    from lazyt.ir.printer import print_kernel

    return "".join(print_kernel(kernel, forms) for kernel in kernels)


def graph_before(text: str) -> str:
    """``text`` up to a line ``---- PASSES``, behind which a golden file has the graph after them.

    Raises UsageError where nothing stands before that line.
    """
    before, mark, _ = f"\n{text}".partition("\n---- ")
    if mark and not before.strip():
        raise UsageError(
            "nothing stands before the line '---- ', where the graph to read should be"
        )
    return before[1:] if mark else text


def transform(
    text: str, names: object, emit: str, loud: bool, values: bool = False, forms: bool = False
) -> str:
    """What ``opt`` prints for ``text``. Raises ParseError, VerifyError or UsageError."""
    from lazyt.ir.parser import parse_graph, parse_kernels
    from lazyt.ir.printer import Reader, print_graph
    from lazyt.ops import OPS

    if Reader(text).text == "kernel":
        if names is not None:
            raise UsageError("--passes takes graph text, this is kernel text")
        if emit in _GRAPHS[1:]:
            raise UsageError(f"--emit {emit} takes graph text, this is kernel text")
        kernels = parse_kernels(text)
        check_kernels(kernels)
        warn_of(kernels)
        return kernels_text(kernels, "kernels" if emit == "graph" else emit, True)
    if forms and emit != "kernels":
        raise UsageError("--forms is for --emit kernels")
    if names is not None and emit not in _GRAPHS:
        raise UsageError(
            f"--emit {emit} runs the whole recipe; --passes needs --emit {', '.join(_GRAPHS)}"
        )
    leaves, roots = parse_graph(text, OPS)
    current = run_passes(roots, _choose_passes(names), loud, values)
    if emit == "graph":
        return print_graph(current)
    if emit in _GRAPHS:
        from lazyt.compiler import mlir_text

        return mlir_text(current, leaves, emit)
    from lazyt.compiler import program_text, using, with_forms

    with using(target=None if emit in ("kernels", "cuda") else emit):
        program, kernels, choices = compile_text(text, leaves, roots, emit == "cuda")
        noted = with_forms(kernels, choices) if forms else kernels
    check_kernels(kernels)
    return program_text(program) if emit != "kernels" else kernels_text(noted, emit, forms)


def compile_text(
    text: str, leaves: Sequence[Node], roots: Sequence[Node], is_cuda: bool
) -> tuple[Program, list[Kernel], Choices | None]:
    """The plan of a graph that was read from ``text``, as what the first line says of it decides,
    or else as this process would make it, and what was chosen for its kernels. Raises CaptureError
    where that line is damaged."""
    from lazyt.codegen.plan.choices import ChoiceError, Choices, Fusing, Tuned
    from lazyt.config import config
    from lazyt.plan.build import Subject
    from lazyt.tools.captures.files import CaptureError, facts_of

    facts = facts_of(text, "the graph")
    place = "cuda:0" if is_cuda else ""
    if facts is None:
        subject = Subject(list(roots), list(leaves), (), place)
        choices = subject.choices()
        chosen = choices.graphs.get(subject.name) if choices else None
        return *subject.compile(choices, chosen), choices
    order, count = facts["order"], len(leaves)
    if sorted(order) != list(range(count)):
        raise CaptureError(f"the graph, line 1: 'order' does not number its {count} inputs")
    if any(not (0 <= i < count and -1 <= r < len(roots)) for i, r in facts["donated"]):
        raise CaptureError("the graph, line 1: 'donated' has numbers of no input or result")
    inputs = [leaf for _, leaf in sorted(zip(order, leaves), key=lambda pair: pair[0])]
    donated = tuple([(i, r) for i, r in facts["donated"]])
    tuned = facts["tuned"]
    try:
        forms = {name: Tuned.from_dict(raw) for name, raw in tuned.get("kernels", {}).items()}
        fusing = Fusing.from_dict(tuned["fusing"]) if tuned.get("fusing") else None
    except (ChoiceError, AttributeError) as error:
        raise CaptureError(f"the graph, line 1: 'tuned': {error}") from None
    subject = Subject(list(roots), inputs, donated, place)
    with config.override(**checked_settings(facts["settings"])):
        return *subject.compile(Choices(forms), fusing), Choices(forms)


def checked_settings(raw: dict[str, Any]) -> dict[str, Any]:
    """The settings of a captured graph. Raises CaptureError."""
    from lazyt.config import config
    from lazyt.tools.captures.files import SETTINGS, CaptureError

    for name, value in raw.items():
        if name not in SETTINGS:
            raise CaptureError(f"the graph, line 1: there is no setting {name!r} of plans")
        kind = type(getattr(config, name))
        fits = type(value) is kind or (kind is float and type(value) is int)
        if not fits or (kind is int and value < 0) or (kind is float and not 0 <= value <= 1):
            raise CaptureError(f"the graph, line 1: the setting {name!r} cannot be {value!r}")
    return raw


def run(argv: Sequence[str]) -> int:
    """The command; returns the exit code."""
    options = _arguments(argv)
    if options["list"]:
        from lazyt.compiler import PASSES

        width = max(len(step.name) for step in PASSES)
        for step in PASSES:
            print(f"{step.name:{width}}  {step.reason}")
        return 0
    text = graph_before(read_input(str(options["file"])))
    loud = bool(options["print_after_all"])
    values = bool(options["verify_values"])
    forms = bool(options["forms"])
    with devices.standing_for(machine(str(options["machine"]))):
        made = transform(text, options["passes"], str(options["emit"]), loud, values, forms)
    sys.stdout.write(made)
    return 0

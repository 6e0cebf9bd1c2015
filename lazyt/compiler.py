"""The recipe: how a graph becomes a plan that runs. Read this first.

    graph --PASSES--> normal form --fuse, order, recompute--> groups
          --lower--> kernel IR --print--> C --> Program

Everything here is pure: ``plan/planning.py`` finds or makes the plan of a graph, and runs it. Each
pass and stage is a function of its own in the room named after it; this file only says the order
and the reasons.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from lazyt.config import config
from lazyt.ir.graph import Node, ages_left

if TYPE_CHECKING:
    from lazyt.codegen.lower.groups import Lowered
    from lazyt.codegen.plan.choices import Choices, Fusing
    from lazyt.codegen.plan.printed import Announce, PrintedKernel
    from lazyt.ir.group import Group
    from lazyt.ir.kernel import Kernel
    from lazyt.ir.program import Program
    from lazyt.runtime.value_checks import GraphChecker


@dataclass(frozen=True)
class Pass:
    """One step from graph to graph.

    Attributes:
        name: what it is called where it is listed, and in errors.
        run: makes new roots of roots.
        reason: why it stands where it stands.
        exact: whether no bit of a result changes. Else the pass reorders sums or the like, and
            verification allows for ``tolerance``.
        tolerance: how far results may be off then, relative to the largest value of each.
    """

    name: str
    run: Callable[[Sequence[Node]], list[Node]]
    reason: str
    exact: bool = True
    tolerance: float = 0.0


class Watch(Protocol):
    """Is told what becomes of a graph while it is compiled, step by step."""

    def passed(self, name: str, roots: Sequence[Node]) -> None:
        """The graph after a pass."""

    def grouped(self, groups: Sequence[Group]) -> None:
        """The groups, in the order of launches."""

    def launched(self, groups: Sequence[Sequence[Group]], lowered: Sequence[Lowered]) -> None:
        """The groups of each launch, and its kernel with what its buffers hold."""


@cache
def _passes() -> tuple[Pass, ...]:
    from lazyt.passes.markers import strip_markers
    from lazyt.passes.simplify import simplify
    from lazyt.passes.split_reductions import split_reductions
    from lazyt.passes.store_pieces import store_pieces
    from lazyt.passes.transpose_shared import transpose_shared

    return (
        Pass("strip_markers", strip_markers, "gradients are done; markers hide equal values"),
        Pass("simplify", simplify, "fewer nodes for everything that follows"),
        Pass("split_reductions", split_reductions, "fusion knows one reduced axis"),
        Pass("simplify_again", simplify, "splitting leaves reshapes behind"),
        Pass("store_pieces", store_pieces, "no choice among many pieces for every element"),
        Pass("transpose_shared", transpose_shared, "one copy that many products read in place"),
    )


#: Functions that forget what was compiled: whoever keeps plans registers one.
on_change: list[Callable[[], None]] = []
#: The passes that ``using_passes`` was given, None for the recipe's own.
own_passes: tuple[Pass, ...] | None = None


def __getattr__(name: str) -> tuple[Pass, ...]:
    # Imported when first asked for: `import lazyt` must stay cheap.
    if name == "PASSES":
        return _passes() if own_passes is None else own_passes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextlib.contextmanager
def using_passes(passes: Sequence[Pass]) -> Iterator[None]:
    """A context in which all threads compile with ``passes``, instead of ``PASSES``.

    Plans that this process has are forgotten on both sides of it, and inside plans are neither
    taken from disk nor kept there, as nobody knows which passes made them. What ``jit`` captured
    before keeps its plans.
    """
    global own_passes
    outer, own_passes = own_passes, tuple(passes)
    _forget()
    try:
        yield
    finally:
        own_passes = outer
        _forget()


def _forget() -> None:
    for function in on_change:
        function()


def run_passes(roots: Sequence[Node], watch: Watch | None = None) -> list[Node]:
    """The graph in normal form; dumps and verifies after every pass when asked to."""
    current = list(roots)
    _dump_graph("0_input", current)
    passes = _passes() if own_passes is None else own_passes
    checker = _graph_checker(current)
    for number, step in enumerate(passes, 1):
        current = apply_pass(step, current)
        _dump_graph(f"{number}_{step.name}", current)
        if checker is not None:
            checker.check(step.name, current, 0.0 if step.exact else step.tolerance)
        if watch is not None:
            watch.passed(step.name, current)
    return current


def apply_pass(step: Pass, roots: Sequence[Node]) -> list[Node]:
    """The graph after a pass. An exception that the pass raises names it in a note."""
    try:
        return list(step.run(roots))
    except Exception as error:
        error.add_note(f"in pass {step.name}")
        raise


def _graph_checker(roots: Sequence[Node]) -> GraphChecker | None:
    if not config.verify:
        return None
    from lazyt.runtime.value_checks import GraphChecker

    return GraphChecker(roots, config.verify == "values")


@ages_left()
def group_graph(
    roots: Sequence[Node],
    fusing: Fusing | None = None,
    cache: int = 0,
    watch: Watch | None = None,
) -> tuple[list[Node], list[Group]]:
    """The roots in normal form, and the fused groups that compute them, in the order of launches.

    Some groups occur twice, and are launched once more, where the memory budget is below 1 or
    the graph has checkpoints. ``fusing`` says how much may become one group. ``cache``: the bytes
    of it that a band of rows has, 0 for a target without bands.
    """
    from lazyt.passes.bands import join_bands
    from lazyt.passes.fuse import fuse
    from lazyt.passes.markers import take_checkpoints
    from lazyt.passes.ordering import order_groups
    from lazyt.passes.recompute import recompute
    from lazyt.passes.splitting import split_sums

    normal, checkpoints = take_checkpoints(run_passes(roots, watch))
    if watch is not None:
        watch.passed("take_checkpoints", normal)
    members = fusing.members if fusing is not None else 0
    fused = fuse(normal, members) if members else fuse(normal)
    groups = split_sums(fused)
    groups = order_groups(join_bands(groups, normal, cache) if cache else groups, normal)
    return normal, recompute(groups, normal, config.memory_budget, checkpoints)


@ages_left()
def compile_graph(
    roots: Sequence[Node],
    inputs: Sequence[Node],
    donated: Mapping[Node, int] = MappingProxyType({}),
    target: str = "c",
    any_size: bool = False,
    choices: Choices | None = None,
    fusing: Fusing | None = None,
    announce: Announce | None = None,
    watch: Watch | None = None,
) -> tuple[Program, list[Kernel]]:
    """The plan of a graph whose only leaves are ``inputs``, as text, and its kernels as IR.

    ``donated`` inputs may be overwritten, by the root of that number where it is not negative.
    ``Program.results`` says where each root will be.
    ``target`` is ``c`` or ``cuda``; ``any_size`` as in ``print_kernel_c``, for C. ``choices`` are
    the forms of kernels that tuning found, ``fusing`` how much becomes one kernel. ``announce`` is
    called with each kernel of the program, and the helpers that it calls, as soon as it is known.
    ``watch`` is told of the steps in between.
    """
    from lazyt.codegen.plan.assemble import assemble
    from lazyt.passes.ordering import read_first
    from lazyt.runtime import devices

    bands = config.bands and target == "c" and not any_size
    normal, groups = group_graph(roots, fusing, devices.cpu().l2 if bands else 0, watch)
    if donated:
        groups = read_first(groups, normal, donated)
    if watch is not None:
        watch.grouped(groups)
    inline = fusing.inline if fusing is not None and fusing.inline >= 0 else config.inline_reduce

    def check(kernel: Kernel) -> None:
        from lazyt.ir.verifier import check_bounds, verify_kernel

        verify_kernel(kernel)
        check_bounds(kernel)

    program, kernels = assemble(
        groups,
        normal,
        inputs,
        _print_cuda if target == "cuda" else partial(_print_c, any_size=any_size, choices=choices),
        inline,
        check if config.verify else None,
        donated,
        target,
        not any_size,
        announce,
        None if watch is None else watch.launched,
    )
    return program, kernels


def _print_c(
    kernel: Kernel,
    names: Mapping[int, str] | None,
    any_size: bool = False,
    choices: Choices | None = None,
) -> PrintedKernel:
    from lazyt.codegen.c.target import print_kernel_c
    from lazyt.runtime import devices

    device = devices.cpu()
    caches = (device.l1, device.l2, device.l3)
    tuned = choices.of(kernel) if choices else None
    made = print_kernel_c(
        kernel, device.vector_bytes, caches, names, any_size, tuned, max(device.cores, 2),
        devices.traits(),
    )  # fmt: skip
    if config.verify and names != {}:
        from lazyt.codegen.proof.c_bounds import argument_bytes, require_in_bounds

        sizes = argument_bytes(kernel, made.workspace, made.offsets)
        require_in_bounds(made.proof or made.source.text, sizes)
    return made


def print_kernels(kernels: Sequence[Kernel], target: str = "c") -> str:
    """Kernels as text in the form that plans of this machine have, with the helpers they call.

    A plan may have further text for them: numbers in which kernels differ become arguments, and a
    tuned one has the form that was found to be fastest.
    """
    from lazyt.codegen.plan.assemble import gather_sections, name_after_text

    printer = _print_cuda if target == "cuda" else _print_c
    kinds = [str(kernel.notes.get("kind", "kernel")) for kernel in kernels]
    made = [name_after_text(printer(k, None), kind) for k, kind in zip(kernels, kinds, strict=True)]
    parts = [text for _, text in gather_sections(made)]
    return "\n".join([*parts, *dict.fromkeys(one.source.text for one in made)]) + "\n"


def program_text(program: Program) -> str:
    """All text of a plan; in C, as compilers get it."""
    if program.target == "c":
        from lazyt.runtime.cpu.compile import split_units

        return "".join(split_units(program, 1))
    parts = [text for _, text in program.sections]
    return "\n".join([*parts, *(k.text for k in program.kernels), program.entry])


def _print_cuda(kernel: Kernel, names: Mapping[int, str] | None) -> PrintedKernel:
    from lazyt.codegen.cuda.target import print_for_plan

    return print_for_plan(kernel)


_dumps = itertools.count()


def _dump(name: str, text: str) -> None:
    assert config.dump is not None
    os.makedirs(config.dump, exist_ok=True)
    path = os.path.join(config.dump, f"{next(_dumps):05d}_{name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _dump_graph(name: str, roots: Sequence[Node]) -> None:
    if config.dump is not None:
        from lazyt.ir.printer import print_graph

        _dump(f"{name}.ir", print_graph(roots))


def dump_program(program: Program) -> None:
    """Writes the text of a plan that is going to run, where ``config.dump`` asks for it."""
    if config.dump is not None:
        _dump("plan.cu" if program.target == "cuda" else "plan.c", program_text(program))

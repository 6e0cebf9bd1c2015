"""The recipe: how a graph becomes a plan that runs. Read this first.

    graph --PASSES--> normal form --fuse, order, recompute--> groups
          --lower--> kernel IR --print--> C --> Program

Everything here is pure: ``plan/planning.py`` finds or makes the plan of a graph, and runs it. Each
pass and stage is a function of its own in the room named after it; this file only says the order
and the reasons.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from lazyt import extensions
from lazyt.config import config
from lazyt.errors import ArgumentError, PassError, VerifyError
from lazyt.extensions import Handle as Handle
from lazyt.extensions import LoadError as LoadError
from lazyt.extensions import load as load
from lazyt.ir.graph import Node, ages_left
from lazyt.ops.registry import define_op as define_op

if TYPE_CHECKING:
    from lazyt.codegen.lower.groups import Lowered
    from lazyt.codegen.mlir.emit import mlir_arguments as mlir_arguments
    from lazyt.codegen.mlir.emit import mlir_text as mlir_text
    from lazyt.codegen.plan.choices import Choices, Fusing
    from lazyt.codegen.plan.policies import FusionPolicy as FusionPolicy
    from lazyt.codegen.plan.policies import Tuner as Tuner
    from lazyt.codegen.plan.printed import Announce
    from lazyt.codegen.plan.target import Target as Target
    from lazyt.codegen.scalar_functions import define_scalar as define_scalar
    from lazyt.ir.group import Group
    from lazyt.ir.kernel import Kernel
    from lazyt.ir.program import Program
    from lazyt.runtime.value_checks import GraphChecker


@dataclass(frozen=True)
class Pass:
    """One step from graph to graph.

    Attributes:
        name: what it is called in lists, in errors, and on the command line.
        run: takes the nodes that are wanted, and returns as many, of the same values.
        reason: why it stands where it stands.
        exact: whether no bit of a result changes. Else the pass reorders sums or the like, and
            verification allows for ``tolerance``.
        tolerance: how far results may be off then, relative to the largest value of each.
        needs_constants: whether it has to see the numbers of a program. Those that differ from call
            to call are made inputs of plans, but not of plans that it takes part in: each number
            is compiled for.
    """

    name: str
    run: Callable[[Sequence[Node]], list[Node]]
    reason: str
    exact: bool = True
    tolerance: float = 0.0
    needs_constants: bool = False


@dataclass(frozen=True)
class KernelPass:
    """One step from kernel to kernel, after lowering and before a target prints the kernel.

    Attributes:
        name, reason, exact, tolerance: as of ``Pass``.
        run: takes a kernel and returns one with the same buffers.
    """

    name: str
    run: Callable[[Kernel], Kernel]
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


#: What is imported on first use: `import lazyt` must stay cheap.
_LATER = {
    "define_scalar": "lazyt.codegen.scalar_functions",
    "mlir_arguments": "lazyt.codegen.mlir.emit",
    "mlir_text": "lazyt.codegen.mlir.emit",
    "FusionPolicy": "lazyt.codegen.plan.policies",
    "Target": "lazyt.codegen.plan.target",
    "Tuner": "lazyt.codegen.plan.policies",
}


def __getattr__(name: str) -> Any:
    if name == "PASSES":
        return extensions.arranged(_passes())
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# ------------------------------------------------------------- what programs add


def register_pass(step: Pass, after: str | None = None, before: str | None = None) -> Handle:
    """Has all programs compiled with one more pass, in all threads, until ``remove()``.

    Args:
        step: the pass.
        after, before: the name of the pass that it stands right behind, or before; of those at the
            same place, the one that was registered first comes first. Without either, it is last.

    Returns a handle, which as a context removes the pass at the end::

        with register_pass(Pass("mine", run, "why"), after="simplify"):
            y = model(x)

    Raises ArgumentError where both places are given, no pass has that name, or one is called like
    this one, TypeError for anything but a Pass.
    """
    if not isinstance(step, Pass):
        raise TypeError(f"register_pass takes a compiler.Pass, not a {type(step).__name__}")
    _require_takes(step.run, 1, f"pass {step.name}")
    names = [other.name for other in extensions.arranged(_passes())]
    if step.name in names:
        raise ArgumentError(f"there is a pass called '{step.name}' already")
    if after is not None and before is not None:
        raise ArgumentError(f"pass {step.name}: give after or before, not both")
    for name in (after, before):
        if name is not None and name not in names:
            raise ArgumentError(f"no pass is called '{name}'; there are {', '.join(names)}")
    return extensions.place_pass(step, after, before)


def register_kernel_pass(step: KernelPass) -> Handle:
    """Has the kernels of all programs go through one more step, after lowering and before they
    are printed, in all threads, until the handle's ``remove()``, or its end as a context.

    Raises ArgumentError where a kernel pass has that name, TypeError for anything but a KernelPass.
    """
    if not isinstance(step, KernelPass):
        given = type(step).__name__
        raise TypeError(f"register_kernel_pass takes a compiler.KernelPass, not a {given}")
    _require_takes(step.run, 1, f"kernel pass {step.name}")
    if step.name in [other.name for other in extensions.force.kernel_passes]:
        raise ArgumentError(f"there is a kernel pass called '{step.name}' already")
    return extensions.add_kernel_pass(step)


def register_target(name: str, target: Target) -> Handle:
    """Gives a target a name, by which ``using(target=name)`` has programs compiled for it.

    Args:
        name: a word; the package's own are ``c`` and ``cuda``.
        target: has ``print_kernel`` and ``load``, see ``Target``.

    Returns a handle; ``remove()`` takes the name away.

    Raises ArgumentError where the name is taken or no word, TypeError where a method is missing.
    """
    known = _targets()
    if not name.isidentifier():
        raise ArgumentError(f"the name of a target has to be a word, not {name!r}")
    if name in known:
        raise ArgumentError(f"there is a target called '{name}' already")
    for method in ("print_kernel", "load"):
        if not callable(getattr(target, method, None)):
            raise TypeError(f"target {name}: {type(target).__name__} has no method {method}")
        _require_takes(getattr(target, method), 1, f"{method} of target {name}")
    return extensions.add_target(name, target)


def _targets() -> Mapping[str, object]:
    from lazyt.extensions import targets

    return targets.known()


def _require_takes(function: object, count: int, what: str) -> None:
    """Raises TypeError, with file and line, where a function cannot be called with so many
    arguments."""
    if not callable(function):
        raise TypeError(f"{what}: {function!r} is no function")
    try:
        inspect.signature(function).bind(*[None] * count)
    except ValueError:  # of a compiled function nobody knows
        return
    except TypeError as error:
        code = getattr(function, "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
        raise TypeError(f"{where}{what} is called with {count} argument(s): {error}") from None


@contextlib.contextmanager
def using(
    *,
    passes: Sequence[Pass] | None = None,
    kernel_passes: Sequence[KernelPass] | None = None,
    fuse: FusionPolicy | None = None,
    tuner: Tuner | None = None,
    target: str | None = None,
) -> Iterator[None]:
    """A context in which all threads compile with what is given; what is not stays as it was.

    Plans made in it are told apart from all others, in memory and on disk, by the code of what is
    given and all that it calls: they are found again when the same comes back, in another process,
    too. Functions that ``jit`` has captured are captured again.

    Args:
        passes: the whole list, in the place of ``PASSES``.
        kernel_passes: the whole list of steps from kernel to kernel.
        fuse: which values may be computed in one kernel.
        tuner: the forms of kernels.
        target: the name of a target, for tensors on the CPU.

    Raises ArgumentError for a target that nobody registered, TypeError for passes of other types.
    """
    given: dict[str, Any] = {}
    for name, steps, kind in (
        ("passes", passes, Pass), ("kernel_passes", kernel_passes, KernelPass),
    ):  # fmt: skip
        if steps is not None:
            given[name] = tuple(steps)
            for step in given[name]:
                if not isinstance(step, kind):
                    raise TypeError(f"{name} takes {kind.__name__}es, not {step!r}")
    for name, policy, method in (("fuse", fuse, "may_join"), ("tuner", tuner, "form")):
        if policy is not None:
            if not callable(getattr(policy, method, None)):
                raise TypeError(f"{name}: {type(policy).__name__} has no method {method}")
            given[name] = policy
    if target is not None:
        if target == "cuda" or target not in _targets():
            names = ", ".join(name for name in _targets() if name != "cuda")
            raise ArgumentError(f"no target for the CPU is called '{target}'; there are {names}")
        given["target"] = target
    outer = {name: getattr(extensions.force, name) for name in given}
    extensions.put_in_force(extensions.force._replace(**given))
    try:
        yield
    finally:
        extensions.put_in_force(extensions.force._replace(**outer))


def using_passes(passes: Sequence[Pass]) -> contextlib.AbstractContextManager[None]:
    """A context in which all threads compile with ``passes``, instead of ``PASSES``: see
    ``using``."""
    return using(passes=passes)


# ------------------------------------------------------------- the stages


def run_passes(roots: Sequence[Node], watch: Watch | None = None) -> list[Node]:
    """The graph in normal form; dumps and verifies after every pass when asked to.

    Raises PassError, which names the pass, where one gives no nodes of the same types.
    """
    current = list(roots)
    _dump_graph("0_input", current)
    checker = _graph_checker(current)
    for number, step in enumerate(extensions.arranged(_passes()), 1):
        current = apply_pass(step, current)
        _dump_graph(f"{number}_{step.name}", current)
        if checker is not None:
            checker.check(step.name, current, 0.0 if step.exact else step.tolerance)
        if watch is not None:
            watch.passed(step.name, current)
    return current


def apply_pass(step: Pass, roots: Sequence[Node]) -> list[Node]:
    """The graph after a pass. An exception that the pass raises names it in a note.

    Raises PassError where it gives no nodes of the same types.
    """
    try:
        made = step.run(roots)
    except Exception as error:
        error.add_note(f"in pass {step.name}")
        raise
    return _checked(step, roots, made)


def _graph_checker(roots: Sequence[Node]) -> GraphChecker | None:
    if not config.verify:
        return None
    from lazyt.runtime.value_checks import GraphChecker

    return GraphChecker(roots, config.verify == "values")


def _checked(step: Pass, roots: Sequence[Node], made: object) -> list[Node]:
    """What a pass returned for ``roots``. Raises PassError for anything but such nodes."""
    if not isinstance(made, (list, tuple)) or not all(isinstance(n, Node) for n in made):
        raise PassError(f"{_where(step)} has to return a list of nodes, not {made!r:.200}")
    if len(made) != len(roots):
        raise PassError(
            f"{_where(step)} was given {len(roots)} node(s) and returned {len(made)}: one for each "
            "is wanted, in the same order"
        )
    for old, new in zip(roots, made, strict=True):
        if old.shape != new.shape or old.dtype is not new.dtype:
            was, now = (f"{n.dtype.name}{list(n.shape)}" for n in (old, new))
            raise PassError(f"{_where(step)} made {now} of {was}: shapes and dtypes have to stay")
    return list(made)


def _where(step: Pass | KernelPass) -> str:
    """A pass with its file and line."""
    code = getattr(step.run, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    kind = "pass" if isinstance(step, Pass) else "kernel pass"
    return f"{kind} '{step.name}'{place}"


def _changed_kernel(kernel: Kernel) -> Kernel:
    """A kernel after the steps from kernel to kernel."""
    for step in extensions.force.kernel_passes:
        made = step.run(kernel)
        if type(made) is not type(kernel):
            raise PassError(f"{_where(step)} has to return a kernel, not {made!r:.200}")
        if made.buffers != kernel.buffers or made.segments != kernel.segments:
            raise PassError(
                f"{_where(step)} changed the buffers of {kernel.name}: they have to stay"
            )
        if config.verify:
            try:
                _check_kernel(made)
            except VerifyError as error:
                raise VerifyError(f"after {_where(step)}: {error}") from error
        kernel = made
    return kernel


def _check_kernel(kernel: Kernel) -> None:
    from lazyt.ir.verifier import check_bounds, verify_kernel

    verify_kernel(kernel)
    check_bounds(kernel)


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
    from lazyt.passes.bands import join_bands, join_matrices
    from lazyt.passes.fuse import GROUP_BUFFERS, fuse
    from lazyt.passes.markers import take_checkpoints
    from lazyt.passes.ordering import order_groups
    from lazyt.passes.recompute import recompute
    from lazyt.passes.splitting import split_sums

    normal, checkpoints = take_checkpoints(run_passes(roots, watch))
    if watch is not None:
        watch.passed("take_checkpoints", normal)
    members = fusing.members if fusing is not None else 0
    policy = extensions.force.fuse
    fused = fuse(normal, members or GROUP_BUFFERS, policy.may_join if policy is not None else None)
    groups = split_sums(fused)
    if cache and policy is None:  # which bands to make is a decision of fusion, too
        groups = join_bands(groups, normal, cache)
        groups = join_matrices(groups, normal, cache)
    groups = order_groups(groups, normal)
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
    ``target`` is a name of ``extensions/targets.py``; ``any_size`` as in ``print_kernel_c``, for C.
    ``choices`` are the forms of kernels that tuning found, ``fusing`` how much becomes one kernel.
    ``announce`` is called with each kernel of the program, and the helpers that it calls, as soon
    as it is known, ``watch`` is told of the steps in between.
    """
    from lazyt.codegen.plan.assemble import assemble
    from lazyt.codegen.prelude import exactly
    from lazyt.extensions import targets
    from lazyt.passes.ordering import read_first
    from lazyt.runtime import devices

    chosen = targets.named(target)
    bands = config.bands and chosen.bands and not any_size
    normal, groups = group_graph(roots, fusing, devices.cpu().l2 if bands else 0, watch)
    if donated:
        groups = read_first(groups, normal, donated)
    if watch is not None:
        watch.grouped(groups)
    inline = fusing.inline if fusing is not None and fusing.inline >= 0 else config.inline_reduce

    with exactly(config.exact):
        program, kernels = assemble(
            groups,
            normal,
            inputs,
            chosen.printer(any_size, choices),
            inline,
            _check_kernel if config.verify else None,
            donated,
            chosen.launching,
            not any_size,
            announce,
            _changed_kernel if extensions.force.kernel_passes else None,
            None if watch is None else watch.launched,
        )
    _dump_kernels(kernels, choices, target == "c" and not any_size)
    if config.verify == "values" and target in ("c", "cuda"):
        from lazyt.runtime.plan_checks import check_plan

        check_plan(normal, inputs, program, kernels)
    return program, kernels


def with_forms(kernels: Sequence[Kernel], choices: Choices | None = None) -> list[Kernel]:
    """Kernels with notes of the forms that plans of this machine give them, which
    ``print_kernel(kernel, forms=True)`` prints: what was chosen, or what the heuristics do.

    Where a form in full does not tell all that these do, it is noted as ``standard``.
    """
    from lazyt.codegen.c.target import print_kernel_c
    from lazyt.codegen.plan.candidates import Field
    from lazyt.codegen.plan.choices import with_form
    from lazyt.extensions.targets import chosen_form, machine
    from lazyt.runtime import devices

    made: list[Kernel] = []
    for kernel in kernels:
        form = chosen_form(kernel, choices)
        if form is None:
            own, traits, threads = machine(), devices.traits(), max(devices.cpu().cores, 2)
            form = Field(kernel, *own, traits, threads).standard()
            texts = {
                print_kernel_c(kernel, *own, tuned=each, threads=threads, traits=traits).source.text
                for each in (None, form)
            }
            form = form if len(texts) == 1 else None
        made.append(with_form(kernel, form))
    return made


def print_kernels(kernels: Sequence[Kernel], target: str = "c") -> str:
    """Kernels as text in the form that plans of this machine have, with the helpers they call.

    A plan may have further text for them: numbers in which kernels differ become arguments, and a
    tuned one has the form that was found to be fastest. A form that a kernel's text asks for is
    used, where it fits.
    """
    from lazyt.codegen.plan.assemble import gather_sections, name_after_text
    from lazyt.extensions import targets

    printer = targets.named(target).printer()
    kinds = [str(kernel.notes.get("kind", "kernel")) for kernel in kernels]
    made = [name_after_text(printer(k, None), kind) for k, kind in zip(kernels, kinds, strict=True)]
    parts = [text for _, text in gather_sections(made)]
    return "\n".join([*parts, *dict.fromkeys(one.source.text for one in made)]) + "\n"


def program_text(program: Program) -> str:
    """All text of a plan; in C, as compilers get it."""
    from lazyt.extensions import targets

    return targets.named(program.target).text(program)


def _dump_graph(name: str, roots: Sequence[Node]) -> None:
    if config.dump is not None:
        from lazyt.ir.printer import print_graph
        from lazyt.runtime.dumps import dumps

        dumps.write(f"{name}.ir", print_graph(roots))


def _dump_kernels(kernels: Sequence[Kernel], choices: Choices | None, formed: bool) -> None:
    """``formed``: each has a form of its own, which is written with it."""
    if config.dump is not None:
        from lazyt.ir.printer import print_kernel
        from lazyt.runtime.dumps import dumps

        shown = with_forms(kernels, choices) if formed else kernels
        dumps.write("plan.kernels", "\n".join(print_kernel(kernel, formed) for kernel in shown))


def dump_program(program: Program) -> None:
    """Writes the text of a plan that is going to run, where ``config.dump`` asks for it."""
    if config.dump is not None:
        from lazyt.extensions import targets
        from lazyt.runtime.dumps import dumps

        dumps.write(f"plan.{targets.named(program.target).suffix}", program_text(program))

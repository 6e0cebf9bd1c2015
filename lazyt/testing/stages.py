"""Which stage of the compiler is the first that changes what a graph means.

``examine`` takes one graph through the compiler step by step. Every level has a meaning of its own,
an interpreter: graphs after each pass, groups, kernels, whole plans over their memory, C compiled
without and with optimizations, CUDA C on the emulator. The first level whose values differ names
the stage. Where a lower level contradicts the interpreters, kernels for any graph, which share
nothing with fusion and lowering, and Python's own functions say which of them is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lazyt import compiler, extensions, ops
from lazyt.codegen.plan.assemble import assemble
from lazyt.compiler import Pass
from lazyt.config import config
from lazyt.errors import CompileError, LazytError, PassError, VerifyError
from lazyt.extensions import targets
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ir.group import Group
from lazyt.ir.kernel import Kernel
from lazyt.ir.kernel_interpreter import run_program
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph, print_kernel
from lazyt.ir.program import Program
from lazyt.ir.verifier import check_bounds, verify_graph, verify_kernel, verify_roots
from lazyt.passes.group_verifier import describe, verify_groups
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.kernel_bits import ordered
from lazyt.runtime.plan_checks import (
    OutsideError,
    as_buffer,
    run_compiled,
    typed,
    undefined_behaviour,
)
from lazyt.runtime.value_checks import (
    KINDS,
    MOST_ROUNDS,
    Array,
    Cases,
    Wanted,
    difference,
    wanted,
)
from lazyt.testing.emulated import SmallLimits
from lazyt.testing.python_functions import wrong_functions
from lazyt.testing.stated_errors import beyond_stated_error

#: What is said of the text that large launches have.
LARGE = "with few blocks of several tiles and points"


@dataclass(frozen=True)
class Finding:
    """A stage that is wrong.

    Attributes:
        stage: ``pass 1 simplify``, ``fusion``, ``lowering``, ``kernel pass ...``, ``memory plan``,
            ``C printer``,
            ``C compiler (-O0 differs)``, ``CUDA printer``, ``interpreter``, ``text``.
        text: what is wrong, in one line or more.
        rewrite: the number of the pass's rewrite that makes the difference, None where that is not
            known, and the line it stands for.
        ir: the kernel or graph that the stage made, as text.
    """

    stage: str
    text: str
    rewrite: int | None = None
    ir: str = ""

    def __str__(self) -> str:
        return f"{self.stage}: {self.text}"


class Watch(Protocol):
    """Is told what becomes of a graph on its way down."""

    def passed(self, name: str, changed: bool, replaced: Sequence[Node]) -> None:
        """A pass has run; ``replaced`` are the nodes that ``rebuild`` exchanged for others."""

    def grouped(self, groups: Sequence[Group]) -> None:
        """Fusion has made groups."""


@dataclass(frozen=True)
class Case:
    """Inputs of one kind, and what the graph is of them."""

    kind: str
    given: Mapping[Node, Array]
    wants: Sequence[Wanted]


def fresh(roots: Sequence[Node]) -> list[Node]:
    """The same graph over inputs without data, as its text says it. Raises ParseError where text
    and graph do not fit."""
    return parse_graph(print_graph(roots), ops.OPS)[1]


def data_of(roots: Sequence[Node]) -> list[Array] | None:
    """The stored arrays of a graph's inputs in the order in which it is printed, None where one has
    no data."""
    found = []
    for leaf in (n for n in topological(roots) if n.op.name == "input"):
        if leaf.data is None:
            return None
        found.append(leaf.data.as_numpy(leaf.dtype, leaf.shape).copy())
    return found


def examine(
    roots: Sequence[Node],
    *,
    inputs: Sequence[Array] | None = None,
    kinds: Sequence[str] | None = None,
    seed: int = 0,
    target: str = "c",
    passes: Sequence[Pass] | None = None,
    watch: Watch | None = None,
    quick: bool = False,
    rounds: int = MOST_ROUNDS,
    passes_only: bool = False,
) -> Finding | None:
    """The first stage that changes what a graph computes, None where all of them are right.

    Args:
        roots: results of a graph without computed values other than those of its inputs.
        inputs: stored arrays of its inputs in the order in which it is printed; by default what
            they hold, or where one holds nothing, arrays of all kinds.
        kinds, seed: of inputs that are made instead, see ``value_checks``.
        target: ``c``, ``cuda`` (on the emulator), or ``""`` to stop at kernels.
        passes: instead of the recipe's.
        watch: is told of passes and groups.
        quick: whether the C compiler does with few optimizations, in a third of the time.
        rounds: how often inputs of each kind are made for a graph of few elements, at most.
        passes_only: whether to stop behind the passes; a graph that none of them changes is not
            even interpreted, so that hundreds take a second.
    """
    own = data_of(roots) if inputs is None and kinds is None else inputs
    try:
        verify_graph(roots)
        graph = fresh(roots)
    except LazytError as error:
        return Finding("text", str(error))
    if passes_only and not _changes(graph, passes):
        return None
    leaves = [n for n in topological(graph) if n.op.name == "input"]
    try:
        if own is not None:
            given = dict(zip(leaves, own, strict=True))
            cases = [Case("the given", given, wanted(graph, given))]
        else:
            cases = [Case(*case) for case in Cases(graph, kinds or KINDS, seed, rounds)]
    except Exception as error:  # of an op's own rule, whatever it is
        return Finding("interpreter", f"it cannot run the graph: {type(error).__name__}: {error}")
    walk = _Walk(graph, leaves, cases, target, watch, quick)
    found = walk.passes(passes)
    if passes_only:
        return found
    for stage in (walk.groups, walk.kernels, walk.plan, walk.target):
        found = found or stage()
    return found


def _changes(roots: list[Node], passes: Sequence[Pass] | None) -> bool:
    """Whether a pass makes another graph of this one, or fails."""
    for step in compiler.PASSES if passes is None else passes:
        try:
            if compiler.apply_pass(step, roots) != roots:
                return True
        except Exception as error:
            error.add_note("which the walk through the passes tells")
            return True
    return False


class _Walk:
    """One graph on its way down; each method is a stage, and returns what is wrong with it."""

    def __init__(
        self, roots: list[Node], leaves: list[Node], cases: list[Case], target: str,
        watch: Watch | None, quick: bool,
    ) -> None:  # fmt: skip
        self.roots, self.leaves, self.cases = roots, leaves, cases
        self.wanted_target = target
        self.watch, self.quick = watch, quick
        self.normal: list[Node] = []
        self.made: list[Group] = []

    # ------------------------------------------------------------------ passes

    def passes(self, passes: Sequence[Pass] | None) -> Finding | None:
        """Passes from graph to graph."""
        current = list(self.roots)
        for number, step in enumerate(compiler.PASSES if passes is None else passes, 1):
            before, tolerance = current, 0.0 if step.exact else step.tolerance
            if self.watch is None:
                found, current = self._after(step, before, tolerance)
            else:
                replaced: list[Node] = []
                with rebuild_limit(1 << 60, replaced):
                    found, current = self._after(step, before, tolerance)
                self.watch.passed(step.name, current != before, replaced)
            if found:
                stage = f"pass {number} {step.name}"
                return self._rewritten(stage, step, before, tolerance, found, current)
            if tolerance:
                self.cases = [Case(c.kind, c.given, wanted(current, c.given)) for c in self.cases]
        self.normal = current
        return None

    def _after(self, step: Pass, before: list[Node], tolerance: float) -> tuple[str, list[Node]]:
        """What is wrong after a pass, or nothing, and the graph after it."""
        try:
            after = compiler.apply_pass(step, before)
            verify_roots(before, after)
            verify_graph(after)
        except (VerifyError, PassError) as error:
            return str(error), before
        except Exception as error:  # the pass itself fails, whatever it is
            return f"it raises {type(error).__name__}: {error}", before
        if after == before:
            return "", after
        return self._differs(after, tolerance), after

    def _differs(self, roots: Sequence[Node], tolerance: float = 0.0) -> str:
        for case in self.cases:
            try:
                got = interpret(roots, case.given, ordered)
            except Exception as error:
                return f"it cannot be interpreted: {type(error).__name__}: {error}"
            found = self._compared(case, got, tolerance)
            if found:
                return found
        return ""

    def _compared(self, case: Case, got: Sequence[Array], tolerance: float = 0.0) -> str:
        for n, (root, value, want) in enumerate(zip(self.roots, got, case.wants, strict=True)):
            text = difference(value, want, root.dtype, tolerance)
            if text:
                return f"root {n}, {case.kind} inputs: {text}"
        return ""

    def _rewritten(
        self, stage: str, step: Pass, before: list[Node], tolerance: float, text: str,
        after: list[Node],
    ) -> Finding:  # fmt: skip
        """The finding about a pass, with the one rewrite that makes the difference."""
        shown = print_graph(after, sources=False) if after is not before else ""
        total = count_rewrites(step, before)
        low, high = 0, total  # right after ``low`` rewrites, wrong after ``high``
        if not total or self._limited(step, before, tolerance, 0):
            return Finding(stage, text, ir=shown)
        while high - low > 1:
            middle = (low + high) // 2
            if self._limited(step, before, tolerance, middle):
                high = middle
            else:
                low = middle
        node = rewritten_node(step, before, high)
        line = f"rewrite {high} of {total}, of {node!r}" if node is not None else ""
        return Finding(stage, f"{text}\n  {line}", high, shown)

    def _limited(self, step: Pass, before: list[Node], tolerance: float, most: int) -> str:
        with rebuild_limit(most):
            return self._after(step, before, tolerance)[0]

    # ------------------------------------------------------------------ groups

    def groups(self) -> Finding | None:
        """The graph cut into groups, which run in order."""
        from lazyt.runtime import devices

        try:
            bands = config.bands and self.wanted_target != "cuda"
            self.normal, self.made = compiler.group_graph(
                self.roots, cache=devices.cpu().l2 if bands else 0
            )
        except Exception as error:
            return Finding("fusion", f"it raises {type(error).__name__}: {error}")
        try:
            if self.watch is not None:
                self.watch.grouped(self.made)
            verify_groups(self.made, self.normal)
        except VerifyError as error:
            return Finding("fusion", str(error))
        found = self._differs(self.normal, math.inf if self._declared() else 0.0)
        return Finding("fusion", found) if found else None

    def _declared(self) -> bool:
        return not all(step.exact for step in compiler.PASSES)

    # ----------------------------------------------------------------- kernels

    def kernels(self) -> Finding | None:
        """Each group as a kernel, by itself, of the values that the graph has there."""
        for number, group in enumerate(self.made):
            title = f"group {number} ({describe(group)})"
            try:
                single = Single.of(group)
            except VerifyError as error:
                return Finding("lowering", f"{title}: {error}")
            except Exception as error:
                return Finding("lowering", f"{title}: {type(error).__name__}: {error}")
            for case in self.cases:
                given = single.inputs(case.given)
                wants = wanted(single.stored, given)
                try:
                    got = single.interpreted(given)
                except Exception as error:
                    text = f"{title}: its kernel cannot run: {type(error).__name__}: {error}"
                    return Finding("lowering", text, ir=single.text)
                text = single.compared(got, wants)
                if text:
                    stage = single.blame(given, wants, got)
                    return Finding(stage, f"{title}, {case.kind} inputs: {text}", ir=single.text)
                changed = single.changed(title, given, wants)
                if changed is not None:
                    return changed
        return None

    def plan(self) -> Finding | None:
        """All kernels over the memory that they share."""
        try:
            program, kernels = compiler.compile_graph(
                self.roots, self.leaves, target=self.wanted_target or "c"
            )
        except LazytError as error:
            return Finding("memory plan", str(error))
        except Exception as error:
            return Finding("C printer", f"it raises {type(error).__name__}: {error}")
        self.program, self.all_kernels = program, kernels
        if program.target != "c":
            return None
        for case in self.cases:
            raw = run_program(program, kernels, [case.given[leaf] for leaf in self.leaves])
            text = self._compared(case, typed(raw, self.roots))
            if text:
                return Finding("memory plan", text, ir="".join(map(print_kernel, kernels)))
        return None

    # ------------------------------------------------------------------ target

    def target(self) -> Finding | None:
        """The text of the plan, compiled and run."""
        if self.wanted_target == "cuda":
            return self._on_emulator()
        if self.wanted_target != "c":
            return None
        try:
            usual = compile.find()
            run = execute.load_once(self.program, usual.quick if self.quick else usual)
        except CompileError as error:
            return Finding("C printer", f"its text does not compile: {error}")
        for case in self.cases:
            try:
                got = run_compiled(run, self.program, [case.given[leaf] for leaf in self.leaves])
                text = self._told(case, typed(got, self.roots))
                if text:
                    return self._blame_target(case, text)
            except OutsideError as error:
                return Finding("C printer", f"{case.kind} inputs: {error}")
        return None

    def _told(self, case: Case, got: Sequence[Array]) -> str:
        """What is wrong with the results of the text, or nothing."""
        text = self._compared(case, got)
        if text or self._declared():
            return text
        return beyond_stated_error(self.roots, case.given, got)

    def _blame_target(self, case: Case, text: str) -> Finding:
        """Which of printer, compiler and interpreters is wrong, where C differs from them."""
        ir = "".join(map(print_kernel, self.all_kernels))
        plain = execute.load_once(self.program, compile.find().plain)
        arrays = [case.given[leaf] for leaf in self.leaves]
        unoptimized = typed(run_compiled(plain, self.program, arrays), self.roots)
        if not self._told(case, unoptimized):
            undefined = undefined_behaviour(self.program, arrays)
            if undefined:
                return Finding("C printer", f"undefined behaviour: {undefined}\n  {text}", ir=ir)
            return Finding("C compiler (-O0 differs)", text, ir=ir)
        wrong = wrong_functions(self.normal)
        if wrong:
            told = f"{text}\n  NumPy's meaning of {wrong[0]}"
            return Finding("interpreter", told, ir=ir)
        for number, group in enumerate(self.made):
            single = Single.of(group)
            given = single.inputs(case.given)
            wants = wanted(single.stored, given)
            differs = single.compared(single.computed(given), wants)
            if differs:
                told = f"group {number} ({describe(group)}): {differs}"
                return Finding("C printer", told, ir=single.text)
        return Finding("C printer", text, ir=ir)

    def _on_emulator(self) -> Finding | None:
        """The text that small graphs get, and the one of large launches."""
        return self._as_small() or self._as_large()

    def _as_large(self) -> Finding | None:
        ir = "".join(map(print_kernel, self.all_kernels))
        try:
            plan = SmallLimits(self.program, self.all_kernels)
            for case in self.cases:
                raw = plan.run([case.given[leaf] for leaf in self.leaves])
                text = self._told(case, typed(raw, self.roots))
                if text:
                    return Finding("CUDA printer", f"{LARGE}: {text}", ir=ir)
        except Exception as error:
            text = f"{LARGE}: it raises {type(error).__name__}: {error}"
            return Finding("CUDA printer", text, ir=ir)
        return None

    def _as_small(self) -> Finding | None:
        for case in self.cases:
            try:
                got = on_device(self.roots, case.given, "cuda:emu")
            except Exception as error:
                return Finding("CUDA printer", f"it raises {type(error).__name__}: {error}")
            text = self._told(case, got)
            if text:
                wrong = wrong_functions(self.normal)
                stage = "interpreter" if wrong else "CUDA printer"
                return Finding(stage, text, ir="".join(map(print_kernel, self.all_kernels)))
        return None


@dataclass(frozen=True)
class Single:
    """One group as a plan of its own.

    Attributes:
        group: the group.
        program, kernels: its plan.
        reads: what it reads, the plan's inputs.
        stored: what it stores.
    """

    group: Group
    program: Program
    kernels: Sequence[Kernel]
    reads: Sequence[Node]
    stored: Sequence[Node]

    @staticmethod
    def of(group: Group) -> Single:
        """Lowers and prints a group. Raises VerifyError for a kernel that breaks the rules."""

        def check(kernel: Kernel) -> None:
            verify_kernel(kernel)
            check_bounds(kernel)

        reads = sorted(group.reads, key=lambda node: repr(node))
        target = targets.named("c")
        program, kernels = assemble(
            [group],
            list(group.stored),
            reads,
            target.printer(False, None),
            config.inline_reduce,
            check,
            launching=target.launching,
        )
        return Single(group, program, kernels, reads, list(group.stored))

    @property
    def text(self) -> str:
        """The kernels as text."""
        return "".join(map(print_kernel, self.kernels))

    def inputs(self, given: Mapping[Node, Array]) -> dict[Node, Array]:
        """The graph's inputs, and the values that the group reads, of these."""
        return {
            **given,
            **dict(zip(self.reads, interpret(self.reads, given, ordered), strict=True)),
        }

    def interpreted(self, given: Mapping[Node, Array]) -> list[Array]:
        """What its kernels mean."""
        raw = run_program(self.program, self.kernels, [given[node] for node in self.reads])
        return typed(raw, self.stored)

    def changed(
        self, title: str, given: Mapping[Node, Array], wants: Sequence[Wanted]
    ) -> Finding | None:
        """What is wrong after the passes over kernels that programs have registered."""
        kernels = list(self.kernels)
        for step in extensions.force.kernel_passes:
            stage = f"kernel pass {step.name}"
            try:
                kernels = [step.run(kernel) for kernel in kernels]
                for kernel in kernels:
                    verify_kernel(kernel)
                    check_bounds(kernel)
                raw = run_program(self.program, kernels, [given[node] for node in self.reads])
            except Exception as error:
                return Finding(stage, f"{title}: {type(error).__name__}: {error}")
            text = self.compared(typed(raw, self.stored), wants)
            if text:
                return Finding(stage, f"{title}: {text}", ir="".join(map(print_kernel, kernels)))
        return None

    def computed(self, given: Mapping[Node, Array]) -> list[Array]:
        """What its C computes."""
        run = execute.load_once(self.program)
        raw = run_compiled(run, self.program, [given[node] for node in self.reads])
        return typed(raw, self.stored)

    def compared(self, got: Sequence[Array], wants: Sequence[Wanted]) -> str:
        """What differs first, or nothing."""
        for node, value, want in zip(self.stored, got, wants, strict=True):
            text = difference(value, want, node.dtype)
            if text:
                return f"{node!r}: {text}"
        return ""

    def blame(
        self, given: Mapping[Node, Array], wants: Sequence[Wanted], got: Sequence[Array]
    ) -> str:
        """Whether lowering is wrong, or one of the interpreters: what other kernels compute, which
        no fusion or lowering had a part in, decides."""
        generic = on_device(self.stored, given, "")
        if not self.compared(generic, wants):
            try:
                right = not self.compared(self.computed(given), wants)
            except OutsideError:  # of a kernel that is wrong
                right = False
            return "interpreter (of kernels)" if right else "lowering"
        exact = [Wanted(value, want.apart) for value, want in zip(got, wants, strict=True)]
        return "lowering" if self.compared(generic, exact) else "interpreter"


def with_values(roots: Sequence[Node], given: Mapping[Node, Array], place: str = "") -> list[Node]:
    """The graph over inputs that hold the arrays of ``given``, on a device."""
    from lazyt.plan.device_plans import moved

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node not in given:
            return remake(node, inputs)
        leaf = ops.input_(node.shape, node.dtype, as_buffer(given[node]))
        return ops.input_(node.shape, node.dtype, moved(leaf, place)) if place else leaf

    return rebuild(roots, change, lambda node: node in given)


def on_device(roots: Sequence[Node], given: Mapping[Node, Array], place: str) -> list[Array]:
    """The values of a graph: on the CPU by kernels for any graph, else by the plan for a device."""
    from lazyt.handle.device import check_device
    from lazyt.plan.planning import realize

    if place:
        check_device(place)
    made = with_values(roots, given, place)
    if place:
        made = [ops.put(node, place) for node in made]
    with config.override(tier=0 if not place else config.tier, verify=False):
        realize(made)
    found = []
    for node in made:
        if node.data is None:  # one without elements
            found.append(np.empty(node.shape, node.dtype.numpy))
        else:
            found.append(node.data.as_numpy(node.dtype, node.shape).copy())
    return found


# ------------------------------------------------------------------ rewrites, one after the other


class rebuild_limit:
    """A context in which passes that go through ``rebuild`` change at most so many nodes; those
    that are changed are noted in ``replaced``."""

    def __init__(self, most: int, replaced: list[Node] | None = None) -> None:
        from lazyt.ir.graph import Rewrites

        self.made = Rewrites(most, replaced)

    def __enter__(self) -> Any:
        from lazyt.ir import graph

        graph.rewrites = self.made
        return self.made

    def __exit__(self, *_: object) -> None:
        from lazyt.ir import graph

        graph.rewrites = None


def count_rewrites(step: Pass, roots: Sequence[Node]) -> int:
    """How many nodes a pass replaces by others, through ``rebuild``."""
    with rebuild_limit(1 << 60) as made:
        try:
            step.run(roots)
        except Exception as error:
            error.add_note("while its rewrites are counted")
    return int(made.count)


def rewritten_node(step: Pass, roots: Sequence[Node], number: int) -> Node | None:
    """The node that a pass replaces as the ``number``-th."""
    with rebuild_limit(number) as made:
        try:
            step.run(roots)
        except Exception as error:
            error.add_note("while its rewrites are counted")
    found: Node | None = made.last
    return found

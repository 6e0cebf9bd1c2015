"""Finds the plan of a graph, makes it when there is none, and runs it.

Plans are found by the structure of a graph (``plan/graph_keys.py``), which leaves constants open.
So a loop written without any decorator compiles once. A constant that differs from call to call
becomes an input of the plan the second time it is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lazyt import extensions, ops
from lazyt.config import config
from lazyt.errors import CompileError, NoValuesError
from lazyt.ir.dtypes import DType
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Head, Node, Shape, ages_left, clock, source_text
from lazyt.ir.op import forget_recent
from lazyt.plan import build, constant_lifting, graph_keys, guarded_plans, tiers
from lazyt.plan.build import Asked, Code, Plan, Subject, lock
from lazyt.plan.constant_lifting import Number, numbers_of, rebuild_with_inputs
from lazyt.plan.graph_keys import Choice, Structure, number_graph, structure_of
from lazyt.runtime.cpu import progress
from lazyt.runtime.memory import Buffer
from lazyt.transforms import complex_graphs
from lazyt.transforms.complex_graphs import Value

if TYPE_CHECKING:
    from lazyt.extensions.targets import Launcher
    from lazyt.plan.build import Subject
    from lazyt.plan.explain import Explanation
    from lazyt.plan.tiers import Trial


class Prepared:
    """A plan with the leaves that it was found for.

    Attributes:
        plan: the plan.
        fixed: the buffers of the numbers that are inputs, behind those of the leaves.
        leaves: the leaves, in the order in which ``run`` takes their buffers.
    """

    __slots__ = ("fixed", "leaves", "plan")

    def __init__(self, plan: Plan, leaves: list[Node], fixed: list[Buffer]) -> None:
        self.plan = plan
        self.fixed = fixed
        self.leaves = leaves

    @property
    def overwritten(self) -> Iterable[int]:
        """Numbers of the leaves whose buffers ``run`` may write to."""
        if self.plan.may_change:  # to kernels that write over others of the inputs
            return [place for place, _ in self.plan.donated]
        return self.plan.code.program.overwritten

    def run(self, inputs: list[Buffer]) -> list[Buffer]:
        """The buffers of the roots, in their order, for these buffers of the leaves."""
        return self.plan.run(inputs + self.fixed)


#: Plans that are remembered of a structure.
MOST_PLANS = 256
NOBODY: Mapping[Node, int] = MappingProxyType({})


def realize(nodes: Sequence[Node]) -> list[Node]:
    """Computes ``nodes`` and keeps values that others need; sets ``data``. Returns the nodes whose
    values are stored now, the kept ones included."""
    with lock:
        roots = _pending(nodes)
        if not roots:
            return []
        numbers, key = number_graph(roots)
        structure = structure_of(numbers, key, roots)
        order = list(numbers)
        parameters = [[order[i] for i in group] for group in structure.parameters]
        if not (parameters or structure.calls):
            choice = structure.choose(order)
            clock.now += 1
            stored = [order[i] for i in choice.roots]
            if structure.place == "meta":
                raise NoValuesError("Cannot copy out of meta tensor; no data!")
            by_hand = config.interpret and not structure.place
            found = None if by_hand else _find(structure, choice, order, may_be_tried=True)
            if found is None:
                _interpret(stored)
                return stored
            plan, lifted = found
            inputs = [order[i].data for i in structure.leaves]
            guarded_plans.note(structure, choice, plan, lifted, order, lock)
    if parameters or structure.calls:
        from lazyt.plan.steps import (
            Planner,
            call_levels,
            has_parts,
            realize_first,
            realize_rest,
            run_calls,
        )

        levels = [] if parameters else call_levels(order)
        del numbers, order  # what they refer to would count as in use
        if parameters:
            return realize_first(parameters, nodes, realize)
        if has_parts(levels):
            from lazyt.plan.control.distribution import run_parts

            return run_parts(nodes, realize)
        given = run_calls(levels, Planner(realize, prepare))
        del levels
        return [*given, *realize_rest(nodes, realize)]
    if lifted:
        inputs += [constant_lifting.number_buffer(number) for number in lifted]
    buffers = plan.run(inputs)
    with lock:
        for node, buffer in zip(stored, buffers):
            if node.data is None:  # else another thread has computed it, and may have given it out
                node.data = buffer
    return stored


def explain(nodes: Sequence[Node]) -> Explanation:
    """The kernels of the plan that would compute ``nodes``; computes nothing."""
    from lazyt.plan.explain import Explanation

    roots = _pending(nodes)
    if not roots:
        return Explanation((), 0)
    numbers, key = number_graph(roots)
    structure = structure_of(numbers, key, roots)
    order = list(numbers)
    if structure.calls:
        from lazyt.plan.steps import call_levels, explain_calls, has_parts

        levels = call_levels(order)
        del numbers, order
        if has_parts(levels):
            from lazyt.plan.control.distribution import explain_parts

            return explain_parts(nodes, explain)
        return explain_calls(levels, nodes, explain)
    found = _find(structure, structure.choose(order), order)
    if found is None:
        return Explanation((), 0)
    return explain_plan(found[0])


def explain_plan(plan: Plan) -> Explanation:
    """A plan's kernels, and what it takes."""
    from lazyt.plan.explain import Explanation
    from lazyt.plan.footprint import Footprint

    program, tier = plan.code.program, ""
    if plan.launcher is None:
        program, tier = tiers.explained(plan)
    footprint = Footprint.of(program, plan.measured)
    notes = program.notes if plan.launcher is None else plan.launcher.notes(program)
    return Explanation(notes, program.arena_bytes, footprint, tier)


def clear() -> None:
    """Forgets all plans of this process (not those on disk)."""
    from lazyt.plan import dynamic_shapes, explain

    graph_keys.known.clear()
    for function in graph_keys.on_forget:
        function()
    guarded_plans.clear()
    forget_recent()
    explain.clear()
    dynamic_shapes.clear()


extensions.on_change.append(clear)


def _pending(nodes: Sequence[Node]) -> list[Node]:
    """Those of ``nodes`` that have to be computed, each once; empty ones get their memory here."""
    roots: list[Node] = []
    for node in nodes:
        if node.data is None and node not in roots:
            if 0 in node.shape:
                node.data = Buffer(0) if node.form > PLACED else _empty_at(node)
            else:
                roots.append(node)
    return roots


def _empty_at(node: Node) -> Buffer:
    from lazyt.plan.device_plans import empty_at

    return empty_at(place_of(node.form))


def prepare(roots: Sequence[Node], owners: Mapping[Node, int] = NOBODY) -> Prepared | None:
    """The plan that computes just ``roots``, different pending nodes of some size, to be run again
    on other leaves; None where library calls or a missing compiler stand in the way.

    ``owners``: leaves whose memory a root may take over, with the root's number.
    """
    numbers, key = number_graph(roots)
    structure = structure_of(numbers, key, roots)
    if structure.calls or config.interpret:
        return None
    order = list(numbers)
    donated = [(p, owners[order[i]]) for p, i in enumerate(structure.leaves) if order[i] in owners]
    found = _find(structure, structure.giving(tuple(donated)), order)
    if found is None:
        return None
    heat = found[0].code.heat
    if heat is not None:
        heat.expect()
    fixed = [constant_lifting.number_buffer(number) for number in found[1]]
    return Prepared(found[0], [order[i] for i in structure.leaves], fixed)


# ------------------------------------------------------------- finding a plan


def _find(
    structure: Structure, choice: Choice, order: list[Node], may_be_tried: bool = False
) -> tuple[Plan, list[Number]] | None:
    """The plan, made when there is none, and the numbers that are inputs of it; None when there is
    no compiler to make it.

    ``may_be_tried``: whether the graph may begin in tier 0, before its kernels are looked for.
    """
    plans: list[Plan] = choice.plans.made
    heads = tuple([order[i].head for i in structure.open])
    for plan in plans:
        if plan.heads == heads and not plan.lifted:
            return plan, []
    trial: Trial | None = choice.plans.trial
    if trial is not None and may_be_tried and not trial.is_over:
        return _tried(trial, heads, order), []
    numbers = [number for i in structure.open for number in numbers_of(order[i])]
    constants = tuple([n.value for n in numbers])
    for plan in plans:
        if plan.fits(constants):
            return plan, [numbers[i] for i in plan.lifted]
    if not structure.place and extensions.force.target == "c" and not _can_compile():
        return None
    leaves = [order[i] for i in structure.leaves]
    roots = [order[i] for i in choice.roots]
    asked = Asked(order, leaves, numbers, roots, choice.donated, structure.place)
    try:
        if trial is None and may_be_tried and not plans:
            trial = choice.plans.trial = tiers.trial_of(structure, order, asked)
            if not trial.is_over:
                return _tried(trial, heads, order), []
        lifted = _changed(plans, trial, constants, numbers)
        plan = _make(asked, constants, lifted, trial)
    except CompileError as error:
        if not _has_no_place(error):
            raise
        return None
    plan.heads = heads
    if len(plans) >= MOST_PLANS:  # each number is compiled for where a pass has to see them
        del plans[0]
    plans.append(plan)
    return plan, [numbers[i] for i in lifted]


def _tried(trial: Trial, heads: tuple[Head, ...], order: list[Node]) -> Plan:
    """The plan in tier 0 of a graph whose structure is tried."""
    plan = trial.plan
    if plan is None or plan.heads != heads:
        instructions = trial.instructions
        assert instructions is not None  # else the trial is over
        executable, sizes, table = instructions.executable, instructions.sizes, instructions.table
        words = instructions.of(order)
        heat = trial if config.tier == "auto" else None
        code = Code(executable.program, executable, sizes, words, heat, 0)
        plan = trial.plan = Plan(heads, (), (), code, open_table=table)
    return plan


def _changed(
    plans: list[Plan], trial: Trial | None, constants: tuple[Any, ...], numbers: list[Number]
) -> tuple[int, ...]:
    """Which numbers of a graph a new plan takes as inputs: those that differ from the last one's,
    and those that it takes; constants only where no pass has to see them."""
    before: tuple[Any, ...] = constants
    lifted: set[int] = set()
    if plans:
        before, lifted = plans[-1].constants, set(plans[-1].lifted)
    elif trial is not None and trial.instructions is not None:
        before = trial.instructions.constants
    pairs = zip(constants, before, strict=True)
    lifted |= {i for i, (a, b) in enumerate(pairs) if a != b}
    if extensions.needs_constants():
        lifted = {i for i in lifted if numbers[i].axis >= 0}
    return tuple(sorted(lifted))


def _make(
    asked: Asked, constants: tuple[Any, ...], lifted: tuple[int, ...], trial: Trial | None
) -> Plan:
    """Finds what runs the graph: its kernels where they are on disk, those for any graph, or its
    kernels once they are compiled. ``trial``: of it in tier 0, if there was one."""
    inputs, roots = _detached(asked, lifted)
    where = source_text(asked.roots[0].source)
    subject = Subject(roots, inputs, asked.donated, asked.place)
    reason = _reason(asked, lifted, where)
    with progress.shown(where) as wait:
        if config.tier != 1 and not asked.place:
            code = tiers.first_code(subject, reason, where, trial, None if lifted else asked.order)
            if code is not None:
                return Plan((), constants, lifted, code, asked.donated)
        code, launcher = _compiled(subject, asked, reason, where, wait)
    plan = Plan((), constants, lifted, code, asked.donated, launcher=launcher)
    if code.executable is not None and build.recorder is not None:
        plan.subject, plan.tune = subject, build.recorder.take
    elif code.executable is not None and subject.is_wanted:
        from lazyt.tuning.session import take

        plan.subject, plan.tune = subject, take
    return plan


def _compiled(
    subject: Subject, asked: Asked, reason: str, where: str, wait: progress.Wait
) -> tuple[Code, Launcher | None]:
    """Loads the plan's text from disk or compiles the graph, and loads the binary."""
    from lazyt.runtime.cpu import compile, execute
    from lazyt.runtime.cpu.objects import Objects

    recorder = build.recorder
    with Objects() as objects:
        if recorder is not None:
            program = recorder.compile(subject, reason, where)
        else:
            program, reason = subject.program(reason, objects)
        wait.kernels = len(program.kernels)
        executable = None
        if program.launches and subject.target == "c":
            begun, started = perf_counter(), compile.started
            executable = execute.load(program, reason, where, objects)
            execute.make_room()
            if recorder is not None:
                recorder.loaded(subject, perf_counter() - begun, compile.started - started)
    if subject.target != "c":
        from lazyt.extensions.targets import named

        outputs, target = subject.output_sizes(program), named(subject.target)
        launcher = target.launcher(program, asked.roots, outputs, reason, where)
        return Code(program, None, outputs), launcher
    return tiers.code_of(subject, program, executable), None


@ages_left()
def _detached(asked: Asked, lifted: tuple[int, ...]) -> tuple[list[Node], list[Node]]:
    """The graph over fresh inputs: leaves first, then the constants that are inputs. Of complex
    numbers it has the parts."""
    new: dict[Node, Value] = {}
    inputs: list[Node] = []

    def input_for(shape: Shape, dtype: DType) -> Value:
        inputs.append(ops.input_(complex_graphs.stored_shape(shape, dtype), dtype.part))
        return complex_graphs.leaf(inputs[-1], dtype, shape)

    for leaf in asked.leaves:
        new[leaf] = input_for(leaf.shape, leaf.dtype)
    starts: dict[Node, dict[int, Node]] = {}
    for position in lifted:
        number = asked.numbers[position]
        made = input_for((), number.dtype)
        if number.axis < 0:
            new[number.node] = made
        else:
            starts.setdefault(number.node, {})[number.axis] = inputs[-1]
    for node in asked.order:
        if node not in new:
            operands = [new[i] for i in node.inputs]
            if node not in starts:
                made = complex_graphs.rebuilt(node, operands)
            elif node.dtype.kind == "c":
                made = complex_graphs.each(operands, partial(_at_starts, node, starts[node]))
            else:
                made = _at_starts(node, starts[node], complex_graphs.nodes_of(operands))
            if node.source is not None:
                for part in (made,) if isinstance(made, Node) else made:
                    part.source = node.source
            new[node] = made
    return inputs, [complex_graphs.joined(new[r]) for r in asked.roots]


def _at_starts(node: Node, starts: Mapping[int, Node], operands: Sequence[Node]) -> Node:
    return rebuild_with_inputs(node, operands, starts)


def _reason(asked: Asked, lifted: tuple[int, ...], where: str) -> str:
    """Why no plan was there: what differs from the nearest one."""
    from lazyt.plan.explain import explain_new

    new = explain_new(asked.order, asked.leaves, asked.roots, where)
    if lifted:
        names = ", ".join(dict.fromkeys(asked.numbers[i].node.op.name for i in lifted))
        return f"{len(lifted)} number(s) ({names}) differ from the last call: they become inputs"
    return new


# ---------------------------------------------------------------- no compiler


def _can_compile() -> bool:
    from lazyt.runtime.cpu import compile

    return compile.available()


def _has_no_place(error: CompileError) -> bool:
    """Whether there is no room to compile in, which is said once."""
    from lazyt.runtime.cpu import compile

    if not isinstance(error, compile.NoPlaceError):
        return False
    compile.warn_no_place(error)
    return True


def _interpret(roots: Sequence[Node]) -> None:
    from lazyt.plan.fallback.interpreter import values_of

    if config.dump is not None:
        from lazyt.runtime.dumps import dumps

        dumps.tell("nothing is written of what the NumPy interpreter computes: it has no plans")
    for node, array in zip(roots, values_of(roots), strict=True):
        buffer = Buffer(node.nbytes)
        buffer.copy_from(array.tobytes())
        node.data = buffer

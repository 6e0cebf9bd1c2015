"""The C target: kernels and plans as C text.

A kernel becomes ``void name(char *b0, ..., int threads)``; one with segments takes tables instead,
see ``codegen/c/segments.py``. A plan becomes one entry function that calls its kernels in order.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from pycparser import c_ast

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.bands import bands_text
from lazyt.codegen.c.batches import batch_text
from lazyt.codegen.c.family import Expressions, c_type
from lazyt.codegen.c.loops import Trees
from lazyt.codegen.c.prefetch import cost_of
from lazyt.codegen.c.routines import routine_c
from lazyt.codegen.c.safe_names import with_safe_names
from lazyt.codegen.c.segments import segment_starts, segments_text
from lazyt.codegen.c.steps import AnySizePhase, CpuPhase
from lazyt.codegen.c.streaming_stores import MUCH, past_caches, stage_on_stack
from lazyt.codegen.loops.forms import LoopForm, on_one_thread
from lazyt.codegen.loops.moves import move_bits
from lazyt.codegen.loops.peeling import peel
from lazyt.codegen.loops.weaving import weave
from lazyt.codegen.matmul.contraction import ContractText
from lazyt.codegen.matmul.phase import contract_text
from lazyt.codegen.plan.choices import Tuned
from lazyt.codegen.plan.printed import PrintedKernel, find_origins
from lazyt.ir.decisions import PLAIN, Traits
from lazyt.ir.kernel import CallPhase, ContractPhase, Kernel, Phase, own_sections
from lazyt.ir.program import KernelSource, Launch


def print_kernel_c(
    kernel: Kernel,
    vector_bytes: int,
    caches: tuple[int, int, int],
    names: Mapping[int, str] | None = None,
    any_size: bool = False,
    tuned: Tuned | None = None,
    threads: int = 64,
    traits: Traits = PLAIN,
) -> PrintedKernel:
    """The kernel's C function ``void name(char *b0_, ..., int threads)``.

    With segments: ``void name(char **table, const lz_i64 *extents, const lz_i64 *starts, int count,
    int threads)``. ``names`` are those of constants that it takes as arguments, see Expressions.
    ``any_size``: in a form that kernels of other sizes have, too, see ``codegen/plan/template.py``;
    else in the form ``tuned``, where it fits, with pointers to where a kernel begins in its
    buffers. More than ``threads`` are of no use to kernels with scratch for each. ``traits``: those
    of the processor.
    """
    kernel = with_safe_names(kernel)
    origins = {} if any_size else find_origins(kernel)
    offsets = tuple(origins.get(b.name, 0) * b.dtype.itemsize for b in kernel.arguments)
    expressions = Expressions(kernel.buffers, origins)
    expressions.traits = traits
    if kernel.segments:
        return segments_text(kernel, expressions)
    first = kernel.phases[0]
    if kernel.bands and kernel.bands.rows == 1:

        def part(made: Kernel, alone: bool) -> PrintedKernel:
            most = 1 if alone else threads
            with on_one_thread(alone):
                return print_kernel_c(made, vector_bytes, caches, threads=most, traits=traits)

        return batch_text(kernel, caches[1], threads, part)
    if kernel.bands:
        made = bands_text(kernel, expressions, vector_bytes, caches, threads)
        return _contraction(kernel, expressions, made, offsets)
    if isinstance(first, ContractPhase):
        options = (vector_bytes, caches, any_size, tuned, threads)
        made = contract_text(kernel, first, expressions, *options)
        return _contraction(kernel, expressions, made, offsets)
    kernel = move_bits(kernel)
    expressions.buffers = {b.name: b for b in kernel.buffers}
    expressions.names = names
    expressions.ordered = vector_bytes == 64 and _computes_much(kernel)
    if not any_size:
        kernel = stage_on_stack(kernel, caches[0], caches[2])
        expressions.streamed = past_caches(kernel, caches[2])
    body = _pointers(kernel)
    for number, phase in enumerate(kernel.phases):
        assert not isinstance(phase, ContractPhase)
        if isinstance(phase, CallPhase):
            body += routine_c(phase, expressions)
            continue
        form = tuned.loops[number] if tuned is not None and number < len(tuned.loops) else None
        pieces = [p for part in weave(phase) for p in peel(part)]
        given = expressions, number, any_size, caches[1], form, threads
        body += join(_piece(piece, *given) for piece in pieces)
    return _loops(kernel, expressions, body, offsets)


def _loops(
    kernel: Kernel, expressions: Expressions, body: list[ct.Node], offsets: tuple[int, ...]
) -> PrintedKernel:
    """A kernel of loops and calls, with what it does as its body."""
    names = expressions.names
    kinds = {name: expressions.constants[place][0] for place, name in (names or {}).items()}
    parameters = [("char *", f"b{i}_") for i in range(len(kernel.buffers))]
    parameters += [*((kind, name) for name, kind in kinds.items()), ("int", "threads")]
    plain = ct.text(ct.function(kernel.name, parameters, body))
    text = f"LZ_ORDERED {plain}" if expressions.ordered else plain
    sections = own_sections(kernel)
    used = (*sorted(expressions.used), *(name for name, _ in sections))
    source = KernelSource(kernel.name, text, used, len(kernel.buffers), tuple(kinds.values()))
    values = tuple(text for _, text in expressions.constants)
    if sections:  # what users' functions reach was proved when they were called
        rest = [node for node in body if not _calls_one(node, {name for name, _ in sections})]
        plain = ct.text(ct.function(kernel.name, parameters, rest))
    return PrintedKernel(source, sections, offsets=offsets, values=values, proof=plain)


def _calls_one(tree: ct.Node, names: Container[str]) -> bool:
    """Whether a statement calls one of these functions."""
    if isinstance(tree, c_ast.FuncCall) and tree.name.name in names:
        return True
    return any(_calls_one(child, names) for _, child in tree.children())


def _piece(
    phase: Phase, e: Expressions, number: int, any_size: bool, second: int,
    form: LoopForm | None, threads: int,
) -> Trees:  # fmt: skip
    """A piece of a phase as text."""
    if any_size:
        return AnySizePhase(phase, e, number, second).statements()
    return CpuPhase(phase, e, number, second, form, threads).statements()


def _computes_much(kernel: Kernel) -> bool:
    """Whether a kernel computes so much of an element that the order of instructions decides."""
    loops = [phase for phase in kernel.phases if isinstance(phase, Phase)]
    return sum(cost_of(stage) for phase in loops for stage in phase.stages) >= MUCH


def _pointers(kernel: Kernel) -> list[ct.Node]:
    """Declarations of the buffers, each with its type, from what the function is given."""
    found: list[ct.Node] = []
    for number, buffer in enumerate(kernel.buffers):
        kind, const = c_type(buffer.dtype), buffer.role == "in"
        pointer = ct.cast_pointer(kind, ct.name(f"b{number}_"), const)
        found.append(ct.declare_pointer(kind, buffer.name, pointer, const))
    return found


def _contraction(
    kernel: Kernel, e: Expressions, made: ContractText, offsets: tuple[int, ...]
) -> PrintedKernel:
    """A kernel with a contraction: it has sections of its own, and a workspace."""
    used = tuple(sorted(e.used)) + tuple(name for name, _ in made.sections)
    source = KernelSource(kernel.name, made.text, used, len(kernel.arguments) + 1)
    return PrintedKernel(source, made.sections, max(made.workspace_bytes, 1), made.note, offsets)


def print_entry_c(
    kernels: Sequence[KernelSource],
    launches: Sequence[Launch],
    table: int | None = None,
    listening: int = 0,
) -> str:
    """The plan's entry function ``lz_plan``, with declarations of the kernels it calls.

    What launches of segments know beforehand stands in the text or, with ``table``, in the memory
    behind the first slot: at that place of its 8-byte numbers, launch by launch as in
    ``segment_facts``.

    Before each of the first ``listening`` launches, and within them, an interrupt ends the plan:
    those that write to none of its inputs. All later ones run to their end.
    """
    lines = ["void lz_begin(void);", "int lz_heard(void);", "void lz_go_on(void);"]
    lines = lines if listening else []
    units = {kernel.name: kernel.unit for kernel in kernels}
    wide = "long long"
    for kernel in kernels:
        if kernel.unit:
            tables = ("char **", f"const {wide} *", f"const {wide} *", "int")
            parameters = ", ".join([*tables, *kernel.numbers, "int"])
        else:
            parameters = ", ".join(["char *"] * kernel.arity + [*kernel.numbers, "int"])
        lines.append(f"void {kernel.name}({parameters});")
    calls: list[str] = []
    for number, launch in enumerate(launches):
        calls += _listening(number, listening)
        if launch.extents:
            facts = segment_facts(launch, units[launch.kernel])
            if table is None:
                lines += _constants(number, facts)
            else:
                calls += _fact_pointers(number, facts, table)
                table += sum(map(len, facts))
            lines.append(f"static const int slots{number}[] = {_listed(launch.slots)};")
            calls += _tabled_call(number, launch)
            continue
        places = [f"slots[{s}]" for s in launch.slots]
        for place, offset in enumerate(launch.offsets):
            if offset:
                places[place] += f" + {offset}"
        arguments = ", ".join([*places, *launch.numbers, "threads"])
        calls.append(f"  {launch.kernel}({arguments});")
    lines.append('__attribute__((visibility("default")))')
    lines.append("void lz_plan(char **slots, int threads)\n{")
    return "\n".join([*lines, *calls, "}\n"])


def _listening(number: int, listening: int) -> list[str]:
    """What stands before a launch when the first ones listen for interrupts."""
    if number > listening or not listening:
        return []
    asked = ["  if (lz_heard())", "    return;"] if number else ["  lz_begin();"]
    return [*asked, "  lz_go_on();"] if number == listening else asked


_FACTS = ("offsets", "extents", "starts")


def segment_facts(launch: Launch, unit: int) -> tuple[tuple[int, ...], ...]:
    """What a launch of segments knows beforehand: offsets of its pointers, extents of its segments,
    and where each of these starts. ``unit`` is that of its kernel."""
    none = (0,) * (len(launch.slots) - len(launch.offsets))  # the workspace
    starts = tuple(segment_starts(launch.extents, unit))
    return ((*launch.offsets, *none), launch.extents, starts)


def _listed(values: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _constants(number: int, facts: Sequence[Sequence[int]]) -> list[str]:
    """The facts of a launch as arrays of the text."""
    return [
        f"static const long long {name}{number}[] = {_listed(values)};"
        for name, values in zip(_FACTS, facts, strict=True)
    ]


def _fact_pointers(number: int, facts: Sequence[Sequence[int]], first: int) -> list[str]:
    """The facts of a launch as places in the memory behind the first slot."""
    lines: list[str] = []
    for name, values in zip(_FACTS, facts, strict=True):
        table = f"(const long long *)slots[0] + {first}"
        lines.append(f"  const long long *{name}{number} = {table};")
        first += len(values)
    return lines


def _tabled_call(number: int, launch: Launch) -> list[str]:
    """Collects the pointers of a launch of segments and makes it."""
    count = len(launch.slots)
    tables = (f"table{number}", f"extents{number}", f"starts{number}", str(len(launch.extents)))
    arguments = ", ".join([*tables, *launch.numbers, "threads"])
    return [
        f"  char *table{number}[{count}];",
        f"  for (int k = 0; k < {count}; k++)",
        f"    table{number}[k] = slots[slots{number}[k]] + offsets{number}[k];",
        f"  {launch.kernel}({arguments});",
    ]


# Loops over the same rows become one: what lies in one row is then written at once.
#
# The pieces of a phase that was cut (``codegen/loops/peeling.py``) are independent of each other. A
# concatenation of rows in two loops takes 1.3 times as long as in one, where its result has about
# the size of the last cache, and a narrow border pays for finding each of its rows.


def join(parts: Iterable[Trees]) -> Trees:
    """The statements of independent phases, those in one loop that are loops over as many rows."""
    out: Trees = []
    loops: dict[str, c_ast.For] = {}
    for part in parts:
        loop = part[-1] if part else None
        if not isinstance(loop, c_ast.For) or not all(_is_pragma(node) for node in part[:-1]):
            out += part
            continue
        head = ct.text(c_ast.For(loop.init, loop.cond, loop.next, ct.block([])))
        first = loops.get(head)
        if first is None:
            loops[head] = loop
            out += part
            continue
        rows = first.stmt.block_items
        if not all(isinstance(item, c_ast.Compound) for item in rows):
            first.stmt.block_items = [ct.block(rows)]
        first.stmt.block_items.append(loop.stmt)
    return out


def _is_pragma(node: ct.Node) -> bool:
    return isinstance(node, c_ast.Pragma)

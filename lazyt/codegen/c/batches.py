"""Kernels that take some matrices of a batch at a time, as C: all phases for these, then for the
next.

What the phases hand to each other is scratch of a thread, sized to stay in its second-level cache.
A phase is a function for as many matrices as are taken at a time, the same as that of a kernel of
its own; its pointers are to the shares of these matrices. Where a phase cannot be cut so, all
matrices are taken at once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from lazyt.codegen.conv.windows import at_axes
from lazyt.codegen.lower.emitter import indices_of
from lazyt.codegen.matmul.axes import merge_axes
from lazyt.codegen.matmul.micro_kernels import WORKER_SECTION
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.ir.factorizations.sizes import Sizes, work_size
from lazyt.ir.group import growth, is_share, steps_of
from lazyt.ir.index import Axis, Guard, Linear, replace_axes, variable
from lazyt.ir.kernel import (
    AnyPhase,
    Buffer,
    CallPhase,
    ContractPhase,
    Kernel,
    Let,
    Phase,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.program import KernelSource

#: Matrices that are taken at a time: at least, at most.
LEAST, MOST = 16, 1024
#: Tasks that keep threads busy to the end.
ENOUGH_TASKS = 8

#: Prints a kernel of one phase, for a single thread or for all.
Print = Callable[[Kernel, bool], PrintedKernel]


@dataclass(frozen=True)
class _Part:
    """A phase for ``count`` matrices.

    Attributes:
        kernel, printed, name: as a kernel, as text, and its function.
        given: the buffers that it is given.
    """

    kernel: Kernel
    printed: PrintedKernel
    name: str
    given: tuple[str, ...]


def batch_text(kernel: Kernel, cache: int, threads: int, printer: Print) -> PrintedKernel:
    """The kernel's C function, for at most so many threads; ``cache``: bytes of the second level of
    caches."""
    assert kernel.bands is not None
    return _Writer(kernel, kernel.bands.points, cache, threads, printer).printed()


class _Writer:
    """Decides how many matrices are taken at a time, and writes the kernel.

    Attributes:
        shares: of each buffer, the elements that a matrix has of it; 0 where it has none.
        count: matrices at a time.
    """

    def __init__(
        self, kernel: Kernel, points: int, cache: int, threads: int, printer: Print
    ) -> None:
        phases = [merge_axes(p) if isinstance(p, ContractPhase) else p for p in kernel.phases]
        kernel = replace(kernel, phases=tuple(phases))
        self.kernel, self.points, self.printer = kernel, points, printer
        self.buffers = {b.name: b for b in kernel.buffers}
        shares = _shares(kernel, points)
        self.whole = shares is None
        self.shares: Mapping[str, int] = shares or {}
        self.count = points if self.whole else self._count(cache, threads)
        tasks = -(-points // self.count)
        self.workers = 1 if self.whole else max(1, min(threads, tasks))

    def _count(self, cache: int, threads: int) -> int:
        """Matrices at a time: what all phases hold of them, and some more for what those need
        besides, fits into half of the cache; a divisor of their number, if there is one that is
        not much smaller."""
        each = sum(self.buffers[n].dtype.itemsize * size for n, size in self.shares.items())
        most = max(LEAST, min(MOST, cache * 3 // 8 // max(each, 1)))
        most = min(most, max(LEAST, self.points // (ENOUGH_TASKS * threads)), self.points)
        divisors = (n for n in range(most, most // 2, -1) if self.points % n == 0)
        return next(divisors, most)

    # ---------------------------------------------------------------- parts

    def _part(self, phase: AnyPhase, count: int) -> _Part:
        """A phase for so many matrices."""
        cut = phase if self.whole else _cut(phase, self.points, count)
        reads, writes = _uses(phase)
        work = phase.work if isinstance(phase, CallPhase) else ()
        names = [b.name for b in self.kernel.buffers if b.name in reads | writes | {*work}]
        given: list[Buffer] = []
        for name in names:
            buffer, share = self.buffers[name], self.shares.get(name, 0)
            role = "work" if name in work else "in" if name not in writes else "out"
            role = "inout" if name in reads and role == "out" else role
            shape = buffer.shape
            if name in work:
                shape = (self._work(phase, count),)
            elif share:
                shape = (shape[0] // self.points * count, *shape[1:])
            given.append(Buffer(name, buffer.dtype, shape, role))
        made = Kernel("lz_kernel", tuple(given), (cut,))
        printed = self.printer(made, not self.whole)
        text = printed.source.text
        name = f"lz_part_{hashlib.sha256(text.encode()).hexdigest()[:10]}"
        return _Part(made, printed, name, tuple(names))

    def _work(self, phase: AnyPhase, count: int) -> int:
        """Elements of a routine's scratch for so many matrices."""
        assert isinstance(phase, CallPhase)
        given = dict(phase.settings)
        first, second = given["rows"] * given["columns"], given["rows"] * given["sides"]
        second = second if len(phase.reads) > 1 else 0
        sizes = Sizes(first, second, given["results"], given["scratch"])
        return work_size(sizes, count, self.buffers[phase.reads[0]].dtype)

    # ----------------------------------------------------------------- text

    def printed(self) -> PrintedKernel:
        """All of it."""
        rest = self.points % self.count
        counts = [self.count, rest] if rest else [self.count]
        parts = [[self._part(p, n) for p in self.kernel.phases] for n in counts]
        offsets, own = self._offsets(parts[0])
        sections: dict[str, str] = dict([WORKER_SECTION])
        used: dict[str, None] = {}
        for part in (part for each in parts for part in each):
            sections |= dict(part.printed.sections)
            used |= dict.fromkeys(part.printed.source.prelude)
            text = part.printed.source.text.replace("lz_kernel(", f"{part.name}(")
            sections[part.name] = f"static {text}\n"
        text = self._function(parts, offsets, own)
        needed = (*(n for n in used if n not in sections), *sections)
        source = KernelSource(self.kernel.name, text, needed, len(self.kernel.arguments) + 1)
        note = f"{self.count} of {self.points} matrices at a time, {own} bytes of scratch a thread"
        proved = tuple((p.kernel, p.printed) for each in parts for p in each)
        space = max(own * self.workers, 1)
        return PrintedKernel(source, tuple(sections.items()), space, note, parts=proved)

    def _offsets(self, parts: list[_Part]) -> tuple[dict[str, int], int]:
        """Where scratch begins in a thread's own, and its bytes; a phase's workspace is last."""
        offsets: dict[str, int] = {}
        own = 0
        for part in parts:
            for buffer in part.kernel.buffers:
                if self.buffers[buffer.name].role == "band" and buffer.name not in offsets:
                    offsets[buffer.name] = own
                    own += -(-math.prod(buffer.shape) * buffer.dtype.itemsize // 64) * 64
        offsets[""] = own
        most = max(part.printed.workspace for part in parts)
        return offsets, own + -(-most // 64) * 64

    def _function(self, parts: list[list[_Part]], offsets: dict[str, int], own: int) -> str:
        """The function that takes all matrices."""
        names = [f"char *b{n}_" for n in range(len(self.kernel.arguments))]
        lines = [f"void {self.kernel.name}({', '.join([*names, 'char *ws', 'int threads'])})", "{"]
        if self.whole:
            lines += ["  char *g_mine = ws;", "  const lz_i64 g_first = 0;"]
            lines += self._calls(parts[0], offsets, "threads", "  ")
            return "\n".join([*lines, "}"]) + "\n"
        tasks = -(-self.points // self.count)
        most = self.workers
        clamped = f"threads < 1 ? 1 : threads < {most} ? threads : {most}"
        lines += [
            f"  const int g_threads = {clamped};",
            "#pragma omp parallel for num_threads(g_threads) schedule(dynamic, 1)",
            f"  for (lz_i64 g_t = 0; g_t < {tasks}; g_t++)",
            "  {",
            f"    char *g_mine = ws + (lz_i64)lz_worker() * {own};",
            f"    const lz_i64 g_first = g_t * {self.count};",
        ]
        body = self._calls(parts[0], offsets, "1", "    ")
        if len(parts) > 1:
            body = ["    " + line[2:] for line in body]
            lines += [f"    if (g_t < {tasks - 1})", "    {", *body, "    }", "    else", "    {"]
            lines += [*["    " + line[2:] for line in self._calls(parts[1], offsets, "1", "    ")]]
            lines.append("    }")
        else:
            lines += body
        return "\n".join([*lines, "  }", "}"]) + "\n"

    def _calls(
        self, parts: list[_Part], offsets: dict[str, int], threads: str, space: str
    ) -> list[str]:
        """The calls of all phases, with pointers to the shares of the matrices in work."""
        numbers = {b.name: n for n, b in enumerate(self.kernel.arguments)}
        lines: list[str] = []
        for part in parts:
            arguments = []
            begins = part.printed.offsets or (0,) * len(part.given)
            for name, offset in zip(part.given, begins, strict=True):
                share = self.shares.get(name, 0) * self.buffers[name].dtype.itemsize
                if name in offsets:
                    text, offset = "g_mine", offset + offsets[name]
                else:
                    text = f"b{numbers[name]}_" + (f" + g_first * {share}" if share else "")
                arguments.append(f"{text} + {offset}" if offset else text)
            if part.printed.workspace:
                arguments.append(f"g_mine + {offsets['']}")
            lines.append(f"{space}{part.name}({', '.join([*arguments, threads])});")
        return lines


# -------------------------------------------------------------------- shares


def _uses(phase: AnyPhase) -> tuple[set[str], set[str]]:
    """Names of the buffers that a phase reads, and of those that it writes."""
    if isinstance(phase, CallPhase):
        return {*phase.reads}, {*phase.writes}
    reads: set[str] = set()
    writes: set[str] = set()
    for statement in _statements(phase):
        accesses = [name for name, _ in indices_of(statement) if name is not None]
        if isinstance(statement, Store):
            writes.add(accesses.pop(0))
            if statement.combine is not None:
                reads.add(statement.buffer)
        reads.update(accesses)
    return reads, writes


def _statements(phase: AnyPhase) -> Iterator[Statement]:
    if isinstance(phase, ContractPhase):
        yield from (Let("left", phase.left), Let("right", phase.right), *phase.epilogue)
    elif isinstance(phase, Phase):
        for stage in phase.stages:
            yield from stage.body


def _shares(kernel: Kernel, points: int) -> dict[str, int] | None:
    """Of each buffer, the elements that one matrix has of it, 0 where all matrices see the same;
    None where some phase does not take the matrices one by one."""
    sizes = {b.name: math.prod(b.shape) for b in kernel.buffers}
    shapes = {b.name: b.shape for b in kernel.buffers}
    scratch = {n for p in kernel.phases if isinstance(p, CallPhase) for n in p.work}
    found: dict[str, int] = {}
    for phase in kernel.phases:
        shared: list[tuple[str, int]] = []
        if isinstance(phase, CallPhase):
            shared = [(n, sizes[n] // points) for n in (*phase.reads, *phase.writes)]
        else:
            steps = steps_of(phase, points)
            seen = None if steps is None else _seen(phase, *steps, points, shapes)
            if seen is None:
                return None
            shared = seen
        for name, share in shared:
            if found.setdefault(name, share) != share:
                return None
    written = {n for p in kernel.phases for n in _uses(p)[1]}
    if any(found.get(n, 0) == 0 for n in written - scratch):
        return None
    return None if any(shapes[n][0] % points for n, share in found.items() if share) else found


def _seen(
    phase: AnyPhase, axis: Axis, steps: int, points: int, shapes: Mapping[str, tuple[int, ...]]
) -> list[tuple[str, int]] | None:
    """What a phase sees of buffers, one matrix after the other; None where not just that."""
    row = variable(axis) // steps
    found: list[tuple[str, int]] = []
    guards: list[Guard] = []
    if isinstance(phase, Phase):
        guards = [stage.guard for stage in phase.stages if stage.guard is not None]
    if any(growth(guard.index, axis, steps) != 0 for guard in guards):
        return None
    for statement in _statements(phase):
        for name, index in indices_of(statement):
            grown = [growth(i, axis, steps) for i in index]
            if not any(step != 0 for step in grown):
                found.extend([] if name is None else [(name, 0)])
            elif name is None or None in grown or not is_share(index, shapes[name], row, points):
                return None
            else:
                found.append((name, math.prod(shapes[name]) // points))
    return found


# ---------------------------------------------------------------------- cuts


def _cut(phase: AnyPhase, points: int, count: int) -> AnyPhase:
    """The phase for the first ``count`` of all matrices."""
    if isinstance(phase, CallPhase):
        settings = tuple((k, count if k == "batch" else v) for k, v in phase.settings)
        return replace(phase, settings=settings)
    steps = steps_of(phase, points)
    assert steps is not None
    old, new = steps[0], Axis(steps[0].name, count * steps[1])
    table = {old: variable(new)}

    def axes(group: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(new if axis == old else axis for axis in group)

    def body(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(_at(statement, table) for statement in statements)

    if isinstance(phase, ContractPhase):
        return replace(
            phase, batch=axes(phase.batch), rows=axes(phase.rows),
            left=at_axes(phase.left, table), right=at_axes(phase.right, table),
            epilogue=body(phase.epilogue),
        )  # fmt: skip
    assert isinstance(phase, Phase)
    stages = tuple(
        replace(stage, body=body(stage.body), guard=_guard(stage, table)) for stage in phase.stages
    )
    return replace(phase, grid=axes(phase.grid), stages=stages)


def _guard(stage: Stage, table: Mapping[Axis, Linear]) -> Guard | None:
    guard = stage.guard
    return None if guard is None else replace(guard, index=replace_axes(guard.index, table))


def _at(statement: Statement, table: Mapping[Axis, Linear]) -> Statement:
    """A statement at other axes."""
    made = replace(statement, value=at_axes(statement.value, table))
    if not isinstance(made, Store):
        return made
    guards = tuple(replace(g, index=replace_axes(g.index, table)) for g in made.guards)
    return replace(made, index=tuple(replace_axes(i, table) for i in made.index), guards=guards)

"""One C function for many independent runs of a flat kernel.

What it computes is cut into tiles of equal size, which the threads take in turns: one large segment
and many small ones are shared out as well as equal ones. A function takes the segments' pointers
and extents from tables, so its text depends on neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, c_type, compute_type
from lazyt.codegen.c.loops import STRIP, Trees
from lazyt.codegen.loops.forms import SHARES
from lazyt.codegen.lower.emitter import indices_of
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.ir.dtypes import bool_
from lazyt.ir.index import sub_expressions
from lazyt.ir.kernel import BLOCK, LANES, Kernel, Let, Phase, Reduce, Stage, Statement, Store
from lazyt.ir.program import KernelSource
from lazyt.ir.scalar import Call

#: Segments begin at multiples of so many elements: a tiny one costs as much time as these.
SEGMENT_UNIT = 64
#: Estimated work, as of ``_cost``, below which waking threads up costs more than it saves: such a
#: launch often is the only one of its plan, and finds them asleep.
WAKING_WORK = 6_000_000
#: What going through a buffer costs per element, in multiply-adds.
BUFFER_COST = 4.0

_HEAD = """\
void {name}(char **table, const lz_i64 *extents, const lz_i64 *starts, int count, int threads)
{{
"""

#: Finds the segment in which element ``begin`` of all lies.
_FIND = """\
    int s = 0;
    for (int above = count; above - s > 1;)
    {
      const int middle = (s + above) / 2;
      if (starts[middle] <= begin)
        s = middle;
      else
        above = middle;
    }
"""

_MAP = """\
  const lz_i64 tiles = (starts[count] + {last}) / {tile};
  const int serial = threads < 2 || {work};
  #pragma omp parallel for num_threads(threads) if(!serial) schedule(dynamic, {share})
  for (lz_i64 t = 0; t < tiles; t++)
  {{
    const lz_i64 begin = t * {tile};
    const lz_i64 end = begin + {tile} < starts[count] ? begin + {tile} : starts[count];
{find}    for (; starts[s] < end; s++)
    {{
      char **const pointers = table + {arity} * s;
      const lz_i64 low = begin > starts[s] ? begin - starts[s] : 0;
      const lz_i64 high = end - starts[s] < extents[s] ? end - starts[s] : extents[s];
{body}    }}
  }}
}}
"""

_FOLD = """\
  const lz_i64 tiles = starts[count] / {block};
  const int serial = threads < 2 || {work};
{partials}  #pragma omp parallel for num_threads(threads) if(!serial) schedule(dynamic, {share})
  for (lz_i64 t = 0; t < tiles; t++)
  {{
    const lz_i64 begin = t * {block};
{find}    char **const pointers = table + {arity} * s;
    const lz_i64 low = begin - starts[s];
    const lz_i64 high = low + {block} < extents[s] ? low + {block} : extents[s];
{elements}{keep}  }}
  for (int s = 0; s < count; s++)
  {{
    char **const pointers = table + {arity} * s;
    const lz_i64 first = starts[s] / {block};
    for (lz_i64 left = starts[s + 1] / {block} - first; left > 1; left = (left + {last}) / {block})
      for (lz_i64 t = 0; t * {block} < left; t++)
      {{
        const lz_i64 end = (t + 1) * {block} < left ? (t + 1) * {block} : left;
{again}      }}
{rest}  }}
}}
"""

_PROOF = """\
void {name}({parameters}, int threads)
{{
  for (lz_i64 begin = 0; begin < {extent}; begin += {step})
  {{
    const lz_i64 low = begin;
    const lz_i64 high = low + {step} < {extent} ? low + {step} : {extent};
{body}  }}
}}
"""


def segment_starts(extents: Sequence[int], unit: int) -> list[int]:
    """Where each segment begins in the work of all, at multiples of ``unit``, and where the last
    one ends."""
    starts = [0]
    for extent in extents:
        starts.append(starts[-1] + -(-extent // unit) * unit)
    return starts


def segments_text(kernel: Kernel, expressions: Expressions) -> PrintedKernel:
    """The C function of a kernel with segments, ``void name(char **table, const lz_i64 *extents,
    const lz_i64 *starts, int count, int threads)``.

    ``table`` has the pointers of the first segment in the order of the kernel's buffers, then those
    of the second, and last that of the workspace; ``starts`` is as of ``segment_starts`` for the
    source's ``unit``. What ``check_c`` reads instead takes the pointers of one segment, the
    largest.
    """
    phase = kernel.phases[0]
    assert isinstance(phase, Phase)
    if phase.grid:
        printer: _Printer = _MapPrinter(kernel, phase, expressions)
    else:
        printer = _FoldPrinter(kernel, phase, expressions)
    text = printer.text()
    used = tuple(sorted(expressions.used))
    source = KernelSource(kernel.name, text, used, len(kernel.buffers), unit=printer.unit)
    return PrintedKernel(source, workspace=printer.workspace, proof=printer.proof())


class _Printer(ABC):
    """What printers of kernels with segments share."""

    unit = SEGMENT_UNIT
    workspace = 0

    def __init__(self, kernel: Kernel, phase: Phase, expressions: Expressions) -> None:
        self.kernel = kernel
        self.phase = phase
        self.e = expressions
        self.arity = len(kernel.buffers)

    @abstractmethod
    def text(self) -> str:
        """The function."""

    @abstractmethod
    def proof(self) -> str:
        """The function for ``check_c``."""

    def pointers(self, argument: Callable[[int], ct.Node], names: Container[str]) -> Trees:
        """Declarations of those buffers of one segment that are in ``names``."""
        declared: Trees = []
        for number, buffer in enumerate(self.kernel.buffers):
            if buffer.name in names:
                kind, const = c_type(buffer.dtype), buffer.role == "in"
                pointer = ct.cast_pointer(kind, argument(number), const)
                declared.append(ct.declare_pointer(kind, buffer.name, pointer, const))
        return declared

    def simple(self, body: Sequence[Statement]) -> Trees:
        """Values and stores."""
        found: Trees = []
        for item in body:
            if isinstance(item, Store):
                found += self.e.store(item)
            elif isinstance(item, Let):
                value = self.e.value(item.value)
                found.append(ct.declare(compute_type(item.value.dtype), item.name, value, True))
        return found

    def proof_of(self, extent: int, step: int, work: Trees, names: Container[str]) -> str:
        """The function for ``check_c`` that does ``work`` between ``low`` and ``high``."""
        count = self.arity + bool(self.workspace)
        return _PROOF.format(
            name=self.kernel.name,
            parameters=", ".join(f"char *b{n}_" for n in range(count)),
            extent=extent,
            step=step,
            body=_indented([*self.pointers(lambda n: ct.name(f"b{n}_"), names), *work], 4),
        )


class _MapPrinter(_Printer):
    """Element-wise: a tile is a run of elements, of several segments where they are short."""

    def text(self) -> str:
        """The function."""
        work = f"starts[count] < {round(WAKING_WORK / _cost(self.phase.stages[0]))}"
        declared = self.pointers(_own, self.e.buffers)
        return (_HEAD + _MAP).format(
            name=self.kernel.name,
            arity=self.arity,
            tile=STRIP,
            last=STRIP - 1,
            share=f"tiles / {SHARES} + 1",
            work=work,
            find=_FIND,
            body=_indented([*declared, *self._loop()], 6),
        )

    def _loop(self) -> Trees:
        axis = self.phase.grid[0].name
        body = self.simple(self.phase.stages[0].body)
        return [ct.pragma("omp simd"), ct.loop(axis, ct.name("low"), ct.name("high"), body)]

    def proof(self) -> str:
        """The function for ``check_c``."""
        return self.proof_of(self.phase.grid[0].extent, STRIP, self._loop(), self.e.buffers)


class _FoldPrinter(_Printer):
    """Reductions: a tile is a block of one segment; what the blocks give is folded by the same
    rule, ``reduction_levels``, segment by segment, and then what runs once does."""

    unit = BLOCK

    def __init__(self, kernel: Kernel, phase: Phase, expressions: Expressions) -> None:
        super().__init__(kernel, phase, expressions)
        self.loop, self.once = phase.stages
        self.folds = [item for item in self.loop.body if isinstance(item, Reduce)]
        self.workspace = 8 * len(self.folds) * sum(-(-n // BLOCK) for n in kernel.segments)

    def text(self) -> str:
        """The function."""
        inside, outside = _buffers_of(self.loop), _buffers_of(self.once)
        place = ct.element("table", ct.binary("*", ct.name("count"), ct.integer(self.arity)))
        partials: Trees = []
        for number, fold in enumerate(self.folds):
            skipped = ct.binary("*", ct.name("tiles"), ct.integer(8 * number))
            pointer = ct.cast_pointer(_kind(fold), ct.binary("+", place, skipped), False)
            partials.append(ct.declare_pointer(_kind(fold), _partial(fold), pointer, False))
        first = ct.name("first")
        known = [
            ct.declare(_kind(f), f.name, ct.element(_partial(f), first), True) for f in self.folds
        ]
        rest = [*known, *self.pointers(_own, outside), *self.simple(self.once.body)]
        work = round(WAKING_WORK / BLOCK / _cost(self.loop)) + 1
        return (_HEAD + _FOLD).format(
            name=self.kernel.name,
            arity=self.arity,
            block=BLOCK,
            last=BLOCK - 1,
            share=f"tiles / {SHARES} + 1",
            work=f"tiles < {work}",
            find=_FIND,
            partials=_indented(partials, 2),
            elements=_indented([*self.pointers(_own, inside), *self._elements()], 4),
            keep=_indented(self._keep(ct.name("t")), 4),
            again=_indented([*self._again(), *self._keep(ct.binary("+", first, ct.name("t")))], 8),
            rest=_indented(rest, 4),
        )

    def proof(self) -> str:
        """The function for ``check_c``."""
        assert self.loop.axis is not None
        names = _buffers_of(self.loop)
        return self.proof_of(self.loop.axis.extent, BLOCK, self._elements(), names)

    def _lanes(self) -> Trees:
        """Accumulators at their neutral elements."""
        found: Trees = [ct.declare_aligned(_kind(f), _lane(f), [LANES]) for f in self.folds]
        clear = [
            ct.assign(ct.element(_lane(f), ct.name("l")), self.e.identity(f.kind, f.dtype))
            for f in self.folds
        ]
        return [*found, ct.loop("l", ct.integer(0), ct.integer(LANES), clear)]

    def _elements(self) -> Trees:
        """Every element between ``low`` and ``high`` goes to its lane."""
        axis = self.loop.axis
        assert axis is not None
        place = ct.binary("+", ct.name("k"), ct.name("l"))
        body: Trees = [ct.declare("lz_i64", axis.name, place, True)]
        for item in self.loop.body:
            body += self._take(item) if isinstance(item, Reduce) else self.simple([item])
        lane, step = ct.integer(0), ct.assign(ct.name("k"), ct.integer(LANES), "+=")
        whole = ct.binary("-", ct.name("high"), ct.integer(LANES - 1))
        main = [ct.pragma("omp simd"), ct.loop("l", lane, ct.integer(LANES), body), step]
        rest = ct.binary("-", ct.name("high"), ct.name("k"))
        return [
            *self._lanes(),
            ct.declare("lz_i64", "k", ct.name("low")),
            ct.while_loop(ct.binary("<", ct.name("k"), whole), main),
            ct.loop("l", lane, rest, body),
        ]

    def _take(self, fold: Reduce) -> Trees:
        """Folds the current element into its lane."""
        value = self.e.value(fold.value)
        if fold.kind in ("any", "all") and fold.value.dtype is not bool_:
            value = ct.binary("!=", value, ct.integer(0))
        lane = ct.element(_lane(fold), ct.name("l"))
        return [ct.assign(lane, self.e.fold(fold.kind, lane, value, fold.dtype))]

    def _again(self) -> Trees:
        """A block of what blocks gave."""
        at = ct.binary("+", ct.name("first"), ct.name("k"))
        body: Trees = []
        for fold in self.folds:
            lane = ct.element(_lane(fold), ct.binary("%", ct.name("k"), ct.integer(LANES)))
            value = ct.element(_partial(fold), at)
            body.append(ct.assign(lane, self.e.fold(fold.kind, lane, value, fold.dtype)))
        start = ct.binary("*", ct.name("t"), ct.integer(BLOCK))
        return [*self._lanes(), ct.loop("k", start, ct.name("end"), body)]

    def _keep(self, place: ct.Node) -> Trees:
        """Folds the lanes by halves and stores what is left."""
        body: Trees = []
        for fold in self.folds:
            mine = ct.element(_lane(fold), ct.name("l"))
            other = ct.element(_lane(fold), ct.binary("+", ct.name("l"), ct.name("h")))
            body.append(ct.assign(mine, self.e.fold(fold.kind, mine, other, fold.dtype)))
        halves = ct.halving_loop("h", LANES // 2, [ct.loop("l", ct.integer(0), ct.name("h"), body)])
        zero = ct.integer(0)
        return [
            halves,
            *(
                ct.assign(ct.element(_partial(f), place), ct.element(_lane(f), zero))
                for f in self.folds
            ),
        ]


def _own(number: int) -> ct.Node:
    """A pointer of the current segment."""
    return ct.element("pointers", ct.integer(number))


def _kind(fold: Reduce) -> str:
    return compute_type(fold.dtype)


def _lane(fold: Reduce) -> str:
    return f"{fold.name}_lane"


def _partial(fold: Reduce) -> str:
    return f"{fold.name}_partial"


def _buffers_of(stage: Stage) -> set[str]:
    """The buffers that a stage uses."""
    return {name for item in stage.body for name, _ in indices_of(item) if name is not None}


def _cost(stage: Stage) -> float:
    """Multiply-adds per element, with what memory costs in between."""
    items = [e for statement in stage.body for e in sub_expressions(statement.value)]
    return sum(
        (e.fn.cost for e in items if isinstance(e, Call)),
        BUFFER_COST * max(len(_buffers_of(stage)), 1),
    )


def _indented(trees: Sequence[ct.Node], columns: int) -> str:
    """The text of statements."""
    lines = ct.text(ct.block(trees)).splitlines()[1:-1]
    return "".join(f"{' ' * (columns - 2)}{line}".rstrip() + "\n" for line in lines)

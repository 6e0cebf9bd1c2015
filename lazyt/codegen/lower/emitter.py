"""Turns graph values into the statements of one phase.

Every pointwise node that is evaluated at an index becomes one named statement, placed as far out as
it can go: what does not depend on the inner axis is computed once per grid point, between the loops
(``straight[level]`` runs after the reductions of that level); the rest goes into the loop that
needs it. A costly value that a second loop needs again is kept for each step instead: in an array,
or, where lanes are points, in the memory of the result that the second loop stores.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from lazyt.ir.dtypes import DType, int64
from lazyt.ir.graph import Node
from lazyt.ir.group import Group, Part
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    Position,
    Var,
    axes_of,
    data_of,
    linearize,
    sub_expressions,
)
from lazyt.ir.kernel import Buffer, Keep, Let, Statement, Store
from lazyt.ir.scalar import Call, Const, Expr, call, const
from lazyt.ops.walking import Index, Pair, Walker

#: Cost in multiply-adds from which a value is kept for the next loop instead of computed again.
KEEP_COST = 4.0
#: The same where it waits in a result's memory, which no first-level cache holds: square roots and
#: divisions (4) are computed again in less time, exponentials (10) are not.
WAIT_COST = 8.0
#: Elements of a row, where lanes lie along it, from which it waits there rather than on the stack.
WAIT_ROW = 512
#: Bytes of a kept row: half of a usual first-level cache, twice.
KEEP_BYTES = 64 * 1024


@dataclass
class Buffers:
    """The buffers of a kernel under construction, by the node they hold."""

    external: set[Node]
    stored: list[Node]
    known: dict[Node, Buffer] = field(default_factory=dict)
    work: list[Buffer] = field(default_factory=list)
    _numbers: int = 0

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers - 1

    def of(self, node: Node) -> Buffer:
        """The buffer that holds ``node``, declared at first use."""
        found = self.known.get(node)
        if found is None:
            number = self._number()
            if node in self.external:
                found = Buffer(f"x{number}", node.dtype, node.shape, "in")
            elif node in self.stored:
                found = Buffer(f"y{number}", node.dtype, node.shape, "out")
            else:
                found = Buffer(f"w{number}", node.dtype.compute, node.shape, "work")
            self.known[node] = found
        return found

    def band(self, node: Node) -> Buffer:
        """Declares scratch of a band for a value."""
        made = Buffer(f"w{self._number()}", node.dtype, node.shape, "band")
        self.known[node] = made
        return made

    def loose_band(self, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        """Nameless scratch of a band."""
        made = Buffer(f"w{self._number()}", dtype, shape, "band")
        self.work.append(made)
        return made

    def scratch(self, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        """A nameless work buffer."""
        number = self._number()
        made = Buffer(f"w{number}", dtype.compute, shape, "work")
        self.work.append(made)
        return made


@dataclass(frozen=True)
class Room:
    """A result of which every step of every point stores an element at ``place``, in loop
    ``stage``."""

    result: Node
    place: Index
    stage: int


class Emitter(Walker):
    """Evaluates nodes into statements; ``stage`` says which loop is being filled.

    Attributes:
        local: pointwise members of the same part: computed again rather than loaded.
        inner: the axis that stages loop over, None when there is none.
        keep: whether values may be kept between loops.
        room: a result in whose memory a value may wait for the loop that stores it, or None.
        folded: reductions whose result has a name in this phase -> (name, place).
        loops: statements of each loop (1, 2, ...).
        straight: statements between the loops, by the level they follow.
    """

    def __init__(
        self, buffers: Buffers, local: Container[Node], inner: Axis | None, keep: bool
    ) -> None:
        super().__init__()
        self.buffers = buffers
        self.local = local
        self.inner = inner
        self.keep = keep
        self.stage = 0
        self.folded: dict[Node, tuple[Expr, Index]] = {}
        self.loops: dict[int, list[Statement]] = {}
        self.straight: dict[int, list[Statement]] = {}
        self._level: dict[str, tuple[int, bool]] = {}
        self._row: dict[Pair, Expr] = {}
        self._loop: dict[int, dict[Pair, Expr]] = {}
        self._kept: dict[Pair, Expr] = {}
        self.room: Room | None = None
        self._cost: dict[str, float] = {}
        self._rounded: dict[str, Expr] = {}
        self._outside: dict[Expr, Var] = {}
        self._names = 0

    # ------------------------------------------------------------- walking

    def leaf(self, node: Node, index: Index) -> Expr | None:
        """Folded results are names, what lies in memory is loaded, the rest is computed."""
        folded = self.folded.get(node)
        if folded is not None:
            return folded[0]
        in_memory = node in self.buffers.external or (
            node in self.buffers.known and node not in self.local
        )
        if in_memory or not (callable(node.op.lower) or node.op.lower == "gather"):
            return Load(self.buffers.of(node).name, index, node.dtype)
        return None

    def known(self, pair: Pair) -> Expr | None:
        """A value of this loop, of the grid point, or kept from an earlier loop."""
        found = self._row.get(pair) or self._loop.get(self.stage, {}).get(pair)
        if found is not None or pair in self._kept:
            return found or self._kept[pair]
        if self.room is not None and self.stage == self.room.stage:
            found = self._lend(pair, self.room)
            if found is not None:
                return found
        if self.keep and self.inner is not None:
            for stage in range(1, self.stage):
                value = self._loop.get(stage, {}).get(pair)
                if isinstance(value, Var) and self._worth_materializing(value):
                    return self._keep_value(pair, value, stage)
        return None

    def _lend(self, pair: Pair, room: Room) -> Expr | None:
        """A costly value of an earlier loop, which leaves it where the result will be."""
        if self.keep and not self._is_straight():
            return None
        for stage in range(1, self.stage):
            value = self._loop.get(stage, {}).get(pair)
            if not isinstance(value, Var) or value.dtype is not room.result.dtype:
                continue
            if self._cost.get(value.name, 0.0) >= WAIT_COST:
                buffer = self.buffers.of(room.result).name
                self.loops[stage].append(Store(buffer, room.place, value))
                self.room = None
                read = self.name(Load(buffer, room.place, value.dtype), 0, True)
                self._loop.setdefault(self.stage, {})[pair] = read
                return read
        return None

    def _is_straight(self) -> bool:
        """Whether rows are long and what was read lies along them: else tiles of rows are
        transposed, which loops that read their own results cannot be."""
        assert self.inner is not None
        shapes = {buffer.name: buffer.shape for buffer in self.buffers.known.values()}
        loads = [
            item
            for body in self.loops.values()
            for statement in body
            for item in sub_expressions(statement.value)
            if isinstance(item, Load)
        ]
        return self.inner.extent >= WAIT_ROW and all(
            linearize(load.index, shapes[load.buffer]).coefficient(self.inner) in (0, 1)
            for load in loads
        )

    def _worth_materializing(self, value: Var) -> bool:
        assert self.inner is not None
        size = self.inner.extent * value.dtype.compute.itemsize
        return self._cost.get(value.name, 0.0) >= KEEP_COST and size <= KEEP_BYTES

    def _keep_value(self, pair: Pair, value: Var, stage: int) -> Expr:
        name = f"k{value.name}"
        self.loops[stage].append(Keep(name, value))
        self._level[name] = (stage, True)
        kept = Var(name, value.dtype)
        self._kept[pair] = kept
        return kept

    def remember(self, pair: Pair, expr: Expr, leaf: bool) -> None:
        """Names a computed value in the outermost place that has its operands."""
        guarded = pair[2]
        level, inner = self.traits(expr)
        if not (leaf or guarded or isinstance(expr, Const | Var | Load | Position)):
            if inner:
                expr = self._hoist(expr)
            expr = self.name(expr, level, inner)
        elif self.keep and not (inner or guarded) and isinstance(expr, Load) and _varies(expr):
            expr = self.name(expr, level, False)
        if inner:
            self._loop.setdefault(self.stage, {})[pair] = expr
        else:
            self._row[pair] = expr

    def _hoist(self, expr: Expr) -> Expr:
        """``expr`` with parts that are the same at every step of a row named outside of the loop.

        C compilers find them, too, but gcc then keeps some in a way that its vectoriser refuses.
        """
        new: dict[int, Expr] = {}
        found: dict[int, tuple[int, bool, bool]] = {}  # level, inner, whether it is fixed
        for item in sub_expressions(expr):
            if not isinstance(item, Call):
                fixed = isinstance(item, Const) or (isinstance(item, Load) and not _varies(item))
                found[id(item)] = (*self.traits(item), fixed)
                continue
            facts = [found[id(a)] for a in item.args]
            level, inner = max(f[0] for f in facts), any(f[1] for f in facts)
            found[id(item)] = (level, inner, all(f[2] for f in facts))
            if not inner:
                continue
            args = [new.get(id(a), a) for a in item.args]
            for place, (operand, (depth, below, fixed)) in enumerate(
                zip(item.args, facts, strict=True)
            ):
                if isinstance(operand, Call) and not (below or fixed) and self._pays(operand):
                    args[place] = self._hoisted(operand, depth)
            if any(a is not b for a, b in zip(args, item.args, strict=True)):
                new[id(item)] = Call(item.fn, tuple(args), item.dtype)
        return new.get(id(expr), expr)

    def _pays(self, operand: Expr) -> bool:
        """Whether naming a part outside of the loop gains anything: where lanes are points, its
        value is read from memory at each step."""
        return self.keep or _total_cost(operand) >= KEEP_COST

    def _hoisted(self, expr: Expr, level: int) -> Var:
        known = self._outside.get(expr)
        if known is None:
            known = self._outside[expr] = self.name(expr, level, False)
        return known

    def name(self, expr: Expr, level: int, inner: bool) -> Var:
        """A Let for ``expr``."""
        self._names += 1
        name = f"v{self._names}"
        self.place(Let(name, expr), level, inner)
        self._level[name] = (level, inner)
        if isinstance(expr, Call) and expr.fn.name == "cast" and expr.dtype.is_half:
            self._rounded[name] = expr
        if _is_flat(expr):
            self._cost[name] = expr.fn.cost if isinstance(expr, Call) else 0.0
        else:
            self._cost[name] = _total_cost(expr)
        return Var(name, expr.dtype)

    def place(self, statement: Statement, level: int, inner: bool) -> None:
        """Adds a statement to the current loop, or between the loops."""
        if isinstance(statement, Store) and self.room is not None:
            known = self.buffers.known.get(self.room.result)
            if known is not None and known.name == statement.buffer:
                self.room = None
        if isinstance(statement, Store) and isinstance(statement.value, Var):
            # Storing rounds by itself: it need not wait for the rounded value.
            rounded = self._rounded.get(statement.value.name)
            if rounded is not None and statement.combine is None:
                statement = replace(statement, value=rounded)
        if inner:
            self.loops.setdefault(self.stage, []).append(statement)
        else:
            self.straight.setdefault(level, []).append(statement)

    def index_name(self, node: Node, value: Expr, extent: int) -> str:
        """Clamps a data-dependent index, so that no index can leave the buffer."""
        wide = call("cast", value, dtype=int64)
        top = call("minimum", wide, const(max(extent - 1, 0), int64))
        level, inner = self.traits(value)
        return self.name(call("maximum", top, const(0, int64)), level, inner).name

    def define(self, node: Node, name: str, place: Index, level: int) -> Expr:
        """Declares the name of a finished reduction; whoever reads a half one reads it rounded."""
        self._level[name] = (level, False)
        value: Expr = Var(name, node.dtype.compute)
        if node.dtype.is_half:
            value = call("cast", value, dtype=node.dtype)
        self.folded[node] = (value, place)
        return value

    def define_running(self, name: str, dtype: DType) -> Var:
        """Declares the name of what a scan has come to, at each step of the loop."""
        self._level[name] = (0, True)
        return Var(name, dtype)

    def traits(self, expr: Expr) -> tuple[int, bool]:
        """(level of the reductions it needs, whether it depends on the inner axis)."""
        level, inner = 0, False
        if type(expr) is Call and all(type(a) is Var or type(a) is Const for a in expr.args):
            for operand in expr.args:
                if type(operand) is Var:
                    depth, below = self._level.get(operand.name, (0, False))
                    level, inner = max(level, depth), inner or below
            return level, inner
        for item in sub_expressions(expr):
            names: set[str] = set()
            indices: list[Linear] = []
            if isinstance(item, Var):
                names.add(item.name)
            elif isinstance(item, Load):
                indices += item.index
            elif isinstance(item, Position):
                indices.append(item.index)
            elif isinstance(item, Guarded):
                indices += [g.index for g in item.guards]
            for index in indices:
                names |= data_of(index)
                inner = inner or (self.inner is not None and self.inner in axes_of(index))
            for name in names:
                depth, below = self._level.get(name, (0, False))
                level, inner = max(level, depth), inner or below
        return level, inner


def room_of(group: Group, part: Part, levels: Mapping[Node, int], lanes: Axis) -> Room | None:
    """A result of a part's last loop in which a value of an earlier one can wait for it; not where
    it lies across lanes, for turning it takes a tile that nobody reads."""
    last = max(levels.values())
    for node, level in levels.items():
        full = group.members[node][1] == "full" and level == last > 0
        if not full or node not in group.stored or node.dtype.is_half:
            continue
        place = part.place(node.shape, "full")
        if linearize(place, node.shape).coefficient(lanes) == 1:
            return Room(node, place, last + 1)
    return None


def _total_cost(expr: Expr) -> float:
    """What an expression costs, in multiply-adds."""
    return sum(e.fn.cost for e in sub_expressions(expr) if isinstance(e, Call))


def _is_flat(expr: Expr) -> bool:
    """Whether an expression is a name or a constant, or one function of such."""
    if type(expr) is Call:
        return all(type(a) is Var or type(a) is Const for a in expr.args)
    return type(expr) is Var or type(expr) is Const


def _varies(load: Load) -> bool:
    """Whether another row may read another element."""
    return any(axes_of(i) or data_of(i) for i in load.index)


def indices_of(statement: Statement) -> list[tuple[str | None, Index]]:
    """(buffer or None, index) of every access, position and guard in a statement."""
    out: list[tuple[str | None, Index]] = []
    if isinstance(statement, Store):
        out.append((statement.buffer, statement.index))
        out += [(None, (g.index,)) for g in statement.guards]
    if _is_flat(statement.value):
        return out
    for item in sub_expressions(statement.value):
        if isinstance(item, Load):
            out.append((item.buffer, item.index))
        elif isinstance(item, Position):
            out.append((None, (item.index,)))
        elif isinstance(item, Guarded):
            out += [(None, (g.index,)) for g in item.guards]
    return out

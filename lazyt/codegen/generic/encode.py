"""Graphs as instructions for the library of kernels for any shape.

``encode`` goes through a graph once, inputs first. Movement ops become strides, and memory is moved
only where somebody needs it without gaps. A map whose result one other map alone reads becomes part
of that one. Scratch is given out and taken back on the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lazyt.codegen.generic.instructions import SIZE, Encoded
from lazyt.codegen.generic.library import fourier_of, function_of, linalg_of, numbers, sort_of
from lazyt.codegen.generic.primitives import Primitive
from lazyt.codegen.generic.recipes import (
    Block,
    Map,
    Pattern,
    Unsupported,
    View,
    bits_of,
    broadcast_strides,
    merged,
    packed,
    pattern_of,
    recipe_of,
    strides_in,
    strides_under,
)
from lazyt.ir.dtypes import DType, float32, int64, order_numbers, uint8, uint32
from lazyt.ir.factorizations.sizes import MODES, flops, sizes_of
from lazyt.ir.factorizations.sizes import work_size as room_for_matrices
from lazyt.ir.fourier.tables import KINDS, pack_stages, plan_of, row_sizes, work_size
from lazyt.ir.graph import Node
from lazyt.ir.op import reduction_runs
from lazyt.ir.scalar import Const
from lazyt.ops.reduction import IDENTITIES

#: Steps and operands of one map, at most.
_MOST_STEPS, _MOST_OPERANDS = 20, 10
#: Elements times steps from which on a map is worth threads, as are other instructions.
PARALLEL = 200_000
#: Products of a batch that scratch has room for at a time: threads that share them out.
#: A copy goes along an axis of at least so many elements, where there is one.
_SHORT = 8
_AREAS = 16
#: Bytes that scratch begins at a multiple of.
_ALIGNMENT = 64
_TABLE, _SCRATCH = 0, 1
#: Words from which on somebody may want to interrupt the work: elements times steps, about.
_LONG = 25_000_000


class _Deferred(NamedTuple):
    """A map that its only reader may take in: the steps that this would take, and operands."""

    node: Node
    steps: int
    operands: int


#: Patterns of maps that were met, by what decides them.
_patterns: dict[tuple[Any, ...], Pattern] = {}
_MOST_PATTERNS = 4096


class Encoder:
    """Encodes one graph; see ``encode``."""

    def __init__(
        self, order: Sequence[Node], leaves: Sequence[Node], roots: Sequence[Node],
        donated: Mapping[int, int],
    ) -> None:  # fmt: skip
        self._numbers = numbers()
        self._words: list[int] = [0]
        self._functions: set[int] = set()
        self._work = 0
        self._pool: list[int] = []  # constants, which go behind the last instruction
        self._pooled = Block(_TABLE, 0, 0)
        self._in_pool: list[int] = []  # places of words that tell how far behind it
        self._literals: dict[int, int] = {}
        self._patches: dict[tuple[Node, int], list[tuple[int, int]]] = {}
        self._pool_patches: list[tuple[tuple[Node, int], int]] = []
        self._free: dict[int, int] = {}  # scratch that nobody uses: size by beginning
        self._top = 0
        self._steps: list[Any] = []  # as of ``Encoded.made_for``
        self._node: Node = roots[0]
        self._noted: Node | None = None  # that of the last step, and the forms of its operands
        self._forms: tuple[int, ...] = ()
        self._listening = -1
        self._values: dict[Node, View | _Deferred] = {}
        self._inputs = {leaf: number for number, leaf in enumerate(leaves)}
        self._donated = donated
        self._written: dict[int, int] = {}
        self._roots = roots
        self._left: dict[Node, int] = {}
        for node in order:
            if node not in self._inputs:
                for item in node.inputs:
                    self._left[item] = self._left.get(item, 0) + 1
        for root in roots:
            self._left[root] = self._left.get(root, 0) + 1
        self._outputs: dict[Node, Block] = {}
        self._first_output = 2 + len(leaves)
        self._count = 0
        self._targets = self._find_targets()

    # ------------------------------------------------------------------ memory

    def _find_targets(self) -> dict[Node, list[int]]:
        """The nodes that are computed into outputs, with the numbers of the roots that they are."""
        found: dict[Node, list[int]] = {}
        for number, root in enumerate(self._roots):
            node = root
            while node not in self._inputs and (
                node.op.is_identity or node.op.name in ("put", "reshape")
            ):
                node = node.inputs[0]
            if node not in self._inputs and not (node.op.movement or node.op.name == "const"):
                found.setdefault(node, []).append(number)
        return found

    def _allocate(self, nbytes: int) -> Block:
        size = -(-max(nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        best = -1
        for begin, free in self._free.items():
            if free >= size and (best < 0 or free < self._free[best]):
                best = begin
                if free == size:
                    break
        if best >= 0:
            free = self._free.pop(best)
            if free > size:
                self._free[best + size] = free - size
            return Block(_SCRATCH, best, size)
        self._top += size
        return Block(_SCRATCH, self._top - size, size)

    def _release(self, block: Block) -> None:
        block.users -= 1
        if block.users or block.slot != _SCRATCH:
            return
        begin, size = block.base, block.nbytes
        after = self._free.pop(begin + size, 0)
        size += after
        for start, free in self._free.items():
            if start + free == begin:
                self._free[start] = free + size
                return
        self._free[begin] = size

    def _new(self, node: Node) -> View:
        """Memory without gaps for a node's value."""
        if node in self._targets:
            block = self._output(node)
        else:
            block = self._allocate(node.nbytes)
        return self._whole(block, node.shape, node.dtype)

    def _output(self, node: Node) -> Block:
        block = self._outputs.get(node)
        if block is None:
            block = Block(self._first_output + self._count, 0, node.nbytes)
            self._outputs[node] = block
            self._count += 1
        return block

    def _temporary(self, shape: tuple[int, ...], dtype: DType) -> View:
        """Scratch for a value that no node has; who asks for it drops it."""
        block = self._allocate(math.prod(shape) * dtype.itemsize)
        return self._whole(block, shape, dtype)

    def _whole(self, block: Block, shape: tuple[int, ...], dtype: DType) -> View:
        block.users += 1
        return View(block, 0, shape, packed(shape, dtype.itemsize), dtype)

    def _look(
        self, view: View, offset: int, shape: tuple[int, ...], strides: tuple[int, ...],
        moves: tuple[tuple[tuple[Node, int], int], ...] = (),
    ) -> View:  # fmt: skip
        """Another view of the same memory."""
        view.block.users += 1
        return View(view.block, view.offset + offset, shape, strides, view.dtype,
                     view.moves + moves)  # fmt: skip

    # ------------------------------------------------------------ instructions

    def _begin(self, function: str, writes: Block | None = None) -> int:
        """Begins an instruction; returns where, for ``_end``."""
        number = self._numbers[function]
        self._functions.add(number)
        if self._listening < 0 and writes is not None and 2 <= writes.slot < self._first_output:
            self._listening = len(self._steps) // SIZE
        self._note()
        self._words += (number, 0)
        return len(self._words) - 2

    def _note(self) -> None:
        node = self._node
        if node is not self._noted:  # a join of many has as many instructions
            self._noted, self._forms = node, tuple([item.form for item in node.inputs])
        self._steps += (node.head, node.form, self._forms, node.source, self._work)

    def _end(self, begin: int) -> None:
        self._words[begin + 1] = len(self._words) - begin

    def _place(self, view: View) -> None:
        block = view.block
        where = len(self._words) + 1
        self._words += (block.slot, block.base + view.offset)
        if block.slot == _TABLE:
            self._in_pool.append(where)
        for number, factor in view.moves:
            self._patches.setdefault(number, []).append((where, factor))

    def _literal(self, literal: Const, stored: DType) -> View:
        """A constant that stands in the text of the graph."""
        bits = bits_of(literal, stored)
        place = self._literals.get(bits)
        if place is None:
            place = self._literals[bits] = len(self._pool)
            self._pool.append(bits)
        self._pooled.users += 1
        return View(self._pooled, 8 * place, (), (), stored)

    def _copy(self, to: View, source: View) -> None:
        """Moves elements of one view to those of another of the same shape."""
        size = to.dtype.itemsize
        axes = merged(to.shape, to.strides, source.strides) or [(1, size, size)]
        if axes[-1][0] < _SHORT:  # along a longer axis, one call moves more elements
            long = [n for n, axis in enumerate(axes) if axis[0] >= _SHORT]
            inner = long[-1] if long else max(range(len(axes)), key=lambda n: axes[n][0])
            axes = [*axes[:inner], *axes[inner + 1 :], axes[inner]]
        rows = math.prod([axis[0] for axis in axes[:-1]])
        begin = self._begin("lz_generic_copy", to.block)
        self._words += (size, len(axes), rows)
        self._place(to)
        self._place(source)
        for facts in zip(*axes, strict=True):
            self._words += facts
        self._end(begin)
        self._work += rows * axes[-1][0]

    def _fill(self, to: View, bits: int) -> None:
        begin = self._begin("lz_generic_fill", to.block)
        count = math.prod(to.shape)
        self._words += (to.dtype.itemsize, count)
        self._place(to)
        self._words.append(bits)
        self._end(begin)
        self._work += count

    def _iota(self, count: int) -> View:
        """0, 1, ... as int64, in scratch."""
        made = self._temporary((count,), int64)
        begin = self._begin("lz_generic_iota")
        self._words.append(count)
        self._place(made)
        self._end(begin)
        return made

    # ------------------------------------------------------------------ values

    def _value(self, node: Node) -> View:
        """The value of an operand, in memory."""
        found = self._values.get(node)
        if found is None:
            found = self._values[node] = self._leaf(node)
        if isinstance(found, _Deferred):
            found = self._values[node] = self._emit(node)
        return found

    def _leaf(self, node: Node) -> View:
        number = self._inputs.get(node)
        if number is not None:
            return self._whole(Block(2 + number, 0, node.nbytes), node.shape, node.dtype)
        place = len(self._pool)
        self._pool.append(bits_of(node.params, node.dtype))
        self._pool_patches.append(((node, -1), place))
        self._pooled.users += 1
        return View(self._pooled, 8 * place, (), (), node.dtype)

    def _packed_value(self, node: Node) -> tuple[View, bool]:
        """The value of an operand without gaps, and whether the caller has to drop it."""
        return self._without_gaps(self._value(node))

    def _without_gaps(self, view: View) -> tuple[View, bool]:
        if view.strides == packed(view.shape, view.dtype.itemsize) or 0 in view.shape:
            return view, False
        if math.prod(view.shape) == 1:
            view.block.users += 1
            whole = packed(view.shape, view.dtype.itemsize)
            return View(view.block, view.offset, view.shape, whole, view.dtype, view.moves), True
        made = self._temporary(view.shape, view.dtype)
        self._copy(made, view)
        return made, True

    def _drop(self, view: View, is_copy: bool = True) -> None:
        if is_copy:
            self._release(view.block)

    def _done_with(self, operands: Sequence[Node]) -> None:
        """Operands have been read once."""
        left = self._left
        for node in operands:
            uses = left[node] = left[node] - 1
            if not uses:
                found = self._values.pop(node, None)
                if found.__class__ is View:
                    self._release(found.block)

    # ------------------------------------------------------------------- nodes

    def run(self, order: Sequence[Node]) -> Encoded:
        """Encodes all nodes; see ``encode``."""
        inputs, values = self._inputs, self._values
        for node in order:
            name = node.op.name
            if node in inputs or name == "const":
                continue
            self._node = node
            if 0 in node.shape:
                empty = Block(_SCRATCH, 0, 0)
                empty.users = 1  # there is nothing to give back
                values[node] = self._whole(empty, node.shape, node.dtype)
            elif name == "map":
                self._map(node)
                continue
            else:
                rule = _RULES.get(name)
                if rule is None:
                    raise Unsupported(f"there is no kernel for any shape of {name}")
                values[node] = rule(self, node)
            self._done_with(node.inputs)
        results = tuple([self._result(root) for root in self._roots])
        return self._finished(results)

    def _result(self, root: Node) -> int:
        view = self._value(root)
        block = view.block
        whole = not view.offset and not view.moves and block.nbytes == root.nbytes
        whole = whole and view.strides == packed(view.shape, view.dtype.itemsize)
        if whole and 2 <= block.slot < self._first_output:
            return 1 - block.slot
        if whole and block.slot >= self._first_output:
            return block.slot - self._first_output
        made = self._whole(self._output(root), root.shape, root.dtype)
        self._copy(made, view)
        return made.block.slot - self._first_output

    def _finished(self, results: tuple[int, ...]) -> Encoded:
        words = self._words
        words.append(-1)
        start = len(words)
        for where in self._in_pool:
            words[where] += 8 * start
        words += self._pool
        for number, place in self._pool_patches:
            self._patches.setdefault(number, []).append((start + place, 0))
        if self._work > _LONG:
            words[0] = 1 + (self._listening if self._listening >= 0 else len(self._steps) // SIZE)
        donated = tuple(sorted(self._written.items()))
        functions = frozenset(self._functions)
        return Encoded(
            words,
            self._top,
            functions,
            results,
            donated,
            self._patches,
            self._work,
            self._steps,
        )

    # -------------------------------------------------------------------- maps

    def _map(self, node: Node) -> None:
        steps, operands = len(recipe_of(node.params).steps) + 1, len(node.inputs)
        for item in node.inputs:
            found = self._values.get(item)
            if found.__class__ is _Deferred:
                fits = steps + found.steps <= _MOST_STEPS and item.shape == node.shape
                if fits and operands + found.operands <= _MOST_OPERANDS:
                    steps += found.steps
                    operands += found.operands
                else:
                    self._values[item] = self._emit(item)
        if self._left[node] == 1 and node not in self._targets and operands <= _MOST_OPERANDS:
            self._values[node] = _Deferred(node, steps, operands)
        else:
            self._values[node] = self._emit(node)

    def _emit(self, node: Node) -> View:
        """The instruction of a map, with the maps that it takes in."""
        key: list[Any] = [node.dtype]
        views: dict[View, int] = {}
        self._collect(node, key, views)
        pattern = _patterns.get(found := tuple(key))
        if pattern is None:
            if len(_patterns) >= _MOST_PATTERNS:
                _patterns.clear()
            pattern = _patterns[found] = self._pattern(node, views)
        before, self._node = self._node, node
        to = self._new(node)
        if not pattern.steps:  # the value of an operand, or a constant, as it is
            (operand,) = pattern.operands
            source = [*views][operand] if isinstance(operand, int) else self._literal(*operand)
            self._copy(to, self._spread(source, node.shape))
        else:
            self._write_map(to, pattern, [*views])
        self._node = before
        self._forget_taken(node)
        return to

    def _collect(self, node: Node, key: list[Any], views: dict[View, int]) -> None:
        """What decides the steps of a map, and the values that it reads, numbered."""
        key.append(node.head)
        known = self._values
        for item in node.inputs:
            found = known.get(item)
            if found.__class__ is _Deferred:
                key.append(item.dtype)
                self._collect(item, key, views)
            else:
                view = found if found.__class__ is View else self._value(item)
                number = views.get(view)
                if number is None:
                    number = views[view] = len(views)
                key.append(number)

    def _pattern(self, node: Node, views: Mapping[View, int]) -> Pattern:
        """The steps of a map over values of these numbers."""
        made = Map()
        result = self._expand(node, made)
        if node.dtype.is_half and made.steps:
            result = made.step(self._number(Primitive("store16", node.dtype, float32)), [result])
        if not made.steps:
            operand = made.operands[result]
            if isinstance(operand, Const):
                return Pattern(((operand, node.dtype),), 0, [], frozenset())
            return Pattern((views[operand],), 0, [], frozenset())
        return pattern_of(made, views)

    def _write_made(self, to: View, made: Map) -> None:
        """The instruction of a map over values alone."""
        views = {item: n for n, item in enumerate(made.operands) if isinstance(item, View)}
        self._write_map(to, pattern_of(made, views), [*views])

    def _forget_taken(self, node: Node) -> None:
        for item in node.inputs:
            if self._values.get(item).__class__ is _Deferred:
                self._forget_taken(item)
        self._done_with(node.inputs)

    def _number(self, primitive: Primitive) -> int:
        found = self._numbers.get(primitive.symbol)
        if found is None:
            raise Unsupported(f"there is no kernel for any shape of {primitive.name}")
        return found

    def _expand(self, node: Node, made: Map) -> int:
        """The operand of ``made`` that is the value of a map."""
        recipe = recipe_of(node.params)
        given: list[int] = []
        taken: set[int] = set()
        for place, item in enumerate(node.inputs):
            if isinstance(self._values.get(item), _Deferred):
                value = self._expand(item, made)
                if item.dtype.is_half:  # as it would be in memory
                    rounded = Primitive("round16", item.dtype, float32)
                    value = made.step(self._number(rounded), [value])
                given.append(value)
                taken.add(place)
            else:
                given.append(made.operand(self._value(item)))
        found: list[int] = []

        def operand(of: int | Const) -> int:
            if isinstance(of, Const):
                return made.operand(of)
            return given[of] if of >= 0 else found[-1 - of]

        for primitive, operands in recipe.steps:
            if primitive.name == "load16" and operands[0] in taken:
                found.append(operand(operands[0]))  # not from memory
            else:
                found.append(made.step(self._number(primitive), [operand(o) for o in operands]))
        return operand(recipe.result)

    def _spread(self, view: View, shape: tuple[int, ...]) -> View:
        """A view repeated to a shape; nobody has to drop it."""
        if view.shape == shape:
            return view
        strides = broadcast_strides(view, shape)
        return View(view.block, view.offset, shape, strides, view.dtype, view.moves)

    def _write_map(self, to: View, pattern: Pattern, views: Sequence[View]) -> None:
        """The instruction of a map.

        Args:
            pattern: its steps.
            views: what it reads, by the numbers of the pattern's operands.
        """
        count = math.prod(to.shape)
        operands = [
            views[item] if isinstance(item, int) else self._literal(*item)
            for item in pattern.operands
        ]
        strided: list[int | tuple[int, ...]] = []
        axes: list[tuple[int, ...]] = []
        if count > 1:
            whole = packed(to.shape, to.dtype.itemsize)
            for view in operands:
                if view.shape == to.shape and view.dtype is to.dtype and view.strides == whole:
                    strided.append(0)
                else:
                    strided.append(strides_in(view, to))
            general = [strides for strides in strided if strides.__class__ is tuple]
            axes = merged(to.shape, *general) if general else []
        rows = [list(facts) for facts in zip(*axes, strict=True)]
        begin = self._begin("lz_generic_map", to.block)
        work = count * pattern.steps
        self._work += work
        words = self._words
        words += (count, len(axes), len(operands), pattern.steps)
        self._place(to)
        words += (to.dtype.itemsize, int(work > PARALLEL))
        if rows:
            words += rows[0]
        number = 1
        for place, view in enumerate(operands):
            kind = strided[place] if strided else 0
            self._place(view)
            words.append(view.dtype.itemsize)
            if isinstance(kind, tuple):
                words.append(2)
                words += rows[number]
                number += 1
            else:
                words.append(kind)
        words += pattern.words
        self._functions |= pattern.functions
        self._end(begin)

    # ---------------------------------------------------------------- movement

    def _identity(self, node: Node) -> View:
        view = self._value(node.inputs[0])
        return self._look(view, 0, view.shape, view.strides)

    def _reshape(self, node: Node) -> View:
        return self._reshaped(self._value(node.inputs[0]), node.shape)

    def _reshaped(self, view: View, shape: tuple[int, ...]) -> View:
        """A view under another shape, of a copy where strides cannot tell it."""
        strides = strides_under(view.shape, view.strides, shape, view.dtype.itemsize)
        if strides is not None:
            return self._look(view, 0, shape, strides)
        made = self._temporary(view.shape, view.dtype)
        self._copy(made, view)
        seen = self._look(made, 0, shape, packed(shape, view.dtype.itemsize))
        self._drop(made)
        return seen

    def _permute(self, node: Node) -> View:
        view = self._value(node.inputs[0])
        return self._look(view, 0, node.shape, tuple([view.strides[a] for a in node.params.axes]))

    def _expand_axes(self, node: Node) -> View:
        view = self._value(node.inputs[0])
        return self._look(view, 0, node.shape, broadcast_strides(view, node.shape))

    def _slice(self, node: Node) -> View:
        view = self._value(node.inputs[0])
        starts, _, steps = node.params
        offset = sum([s * stride for s, stride in zip(starts, view.strides, strict=True)])
        strides = tuple([s * stride for s, stride in zip(steps, view.strides, strict=True)])
        moves = tuple([((node, axis), stride) for axis, stride in enumerate(view.strides)])
        return self._look(view, offset, node.shape, strides, moves)

    def _flip(self, node: Node) -> View:
        view = self._value(node.inputs[0])
        strides = list(view.strides)
        offset = 0
        for axis in node.params.axes:
            offset += (node.shape[axis] - 1) * strides[axis]
            strides[axis] = -strides[axis]
        return self._look(view, offset, node.shape, tuple(strides))

    def _window(self, node: Node) -> View:
        view, is_copy = self._packed_value(node.inputs[0])
        shape, strides, offset = node.params
        size = view.dtype.itemsize
        seen = self._look(view, offset * size, shape, tuple([s * size for s in strides]))
        self._drop(view, is_copy)
        return seen

    def _pad(self, node: Node) -> View:
        low, _, interior, fill = node.params
        to = self._new(node)
        self._fill(to, bits_of(fill, node.dtype))
        source = self._value(node.inputs[0])
        if 0 not in source.shape:
            offset = sum([a * stride for a, stride in zip(low, to.strides, strict=True)])
            gaps = zip(interior, to.strides, strict=True)
            strides = tuple([(gap + 1) * stride for gap, stride in gaps])
            self._copy(View(to.block, offset, source.shape, strides, node.dtype), source)
        return to

    def _concat(self, node: Node) -> View:
        to = self._new(node)
        offset = 0
        for item in node.inputs:
            source = self._value(item)
            if item.size:
                self._copy(View(to.block, offset, item.shape, to.strides, node.dtype), source)
            offset += item.shape[node.params.axis] * to.strides[node.params.axis]
        return to

    def _iota_node(self, node: Node) -> View:
        made = self._iota(node.shape[0])
        if node.dtype is int64 and node not in self._targets:
            return made
        to = self._new(node)
        if node.dtype is int64:
            self._copy(to, made)
        else:
            self._apply(to, [made], "cast", int64, node.dtype)
        self._drop(made)
        return to

    def _random(self, node: Node) -> View:
        key = self._value(node.inputs[0])
        count = self._iota(node.size)
        halves = [
            View(key.block, key.offset + n * key.strides[0], (), (), uint32, key.moves)
            for n in range(2)
        ]
        to = self._new(node)
        flat = View(to.block, 0, (node.size,), (4,), uint32)
        self._apply(flat, [*halves, count], "threefry", uint32, uint32)
        self._drop(count)
        return to

    def _apply(
        self, to: View, operands: Sequence[View], name: str, kind: DType, result: DType
    ) -> None:
        """One scalar function over operands in memory, neither of 16 bits."""
        made = Map()
        read = [made.operand(view) for view in operands]
        value = made.step(self._number(Primitive(name, kind, result.compute)), read)
        if result.is_half:
            made.step(self._number(Primitive("store16", result, float32)), [value])
        self._write_made(to, made)

    # ------------------------------------------------------ folds and products

    def _reduce(self, node: Node) -> View:
        kind, axes = node.params.kind, sorted(node.params.axes)
        (operand,) = node.inputs
        view = self._value(operand)
        if kind in ("argmax", "argmin"):
            return self._first(node, view, axes[0])
        real = [a for a in axes if view.shape[a] != 1]
        if any(view.shape[a] == 0 for a in real):
            to = self._new(node)
            unit = Const(IDENTITIES[kind], node.dtype)
            self._fill(to, bits_of(unit, node.dtype))
            return to
        if not real:
            return self._reshaped(view, node.shape)
        runs = reduction_runs(real, view.shape)
        view.block.users += 1
        if node.dtype.is_half and len(runs) > 1:  # rounded once, not after each axis
            view = self._widened(view)
        for number, (first, last) in enumerate(reversed(runs)):
            shape = view.shape
            length = math.prod(shape[first : last + 1])
            joined = self._reshaped(view, (*shape[:first], length, *shape[last + 1 :]))
            self._drop(view)
            is_last = number == len(runs) - 1
            rest = (*shape[:first], *((1,) * (last - first + 1)), *shape[last + 1 :])
            if is_last and joined.dtype is node.dtype:
                view = self._new(node)
                to = View(view.block, 0, rest, packed(rest, view.dtype.itemsize), view.dtype)
            else:
                view = to = self._temporary(rest, joined.dtype)
            self._fold(to, joined, first, kind)
            self._drop(joined)
        if view.dtype is node.dtype:
            return view
        to = self._new(node)
        made = Map()
        value = made.operand(self._spread_flat(view, node.shape))
        made.step(self._number(Primitive("store16", node.dtype, float32)), [value])
        self._write_made(to, made)
        self._drop(view)
        return to

    def _spread_flat(self, view: View, shape: tuple[int, ...]) -> View:
        """A view without gaps under another shape; nobody has to drop it."""
        return View(view.block, view.offset, shape, packed(shape, view.dtype.itemsize),
                     view.dtype, view.moves)  # fmt: skip

    def _widened(self, view: View) -> View:
        """16-bit floats as float32, in scratch; drops the view."""
        made = Map()
        made.step(self._number(Primitive("load16", view.dtype, float32)), [made.operand(view)])
        wide = self._temporary(view.shape, float32)
        self._write_made(wide, made)
        self._drop(view)
        return wide

    def _fold(self, to: View, view: View, axis: int, kind: str, op: str = "reduce") -> None:
        count, stride = view.shape[axis], view.strides[axis]
        axes = merged(
            (*view.shape[:axis], *view.shape[axis + 1 :]),
            (*view.strides[:axis], *view.strides[axis + 1 :]),
        )
        results = math.prod([axis[0] for axis in axes])
        begin = self._begin(function_of(op, view.dtype, kind), to.block)
        self._words += (count, stride, results, len(axes), axes[-1][0] if axes else 1)
        self._place(to)
        self._place(view)
        if count > 1 << 14 and results < 1024 and op == "reduce":
            part = self._temporary((-(-count // 1024),), int64)
            self._place(part)
            self._drop(part)
        else:
            self._words += (_SCRATCH, 0)
        for facts in zip(*axes, strict=True):
            self._words += facts
        self._end(begin)
        self._work += results * count

    def _first(self, node: Node, view: View, axis: int) -> View:
        to = self._new(node)
        self._fold(to, view, axis, node.params.kind, "first")
        return to

    def _scan(self, node: Node) -> View:
        kind, axis = node.params
        view, to = self._value(node.inputs[0]), self._new(node)
        rest = [a for a in range(len(view.shape)) if a != axis]
        axes = merged(
            tuple([view.shape[a] for a in rest]),
            tuple([to.strides[a] for a in rest]),
            tuple([view.strides[a] for a in rest]),
        )
        rows = math.prod([facts[0] for facts in axes])
        begin = self._begin(function_of("scan", node.dtype, kind), to.block)
        self._words += (view.shape[axis], to.strides[axis], view.strides[axis], rows, len(axes))
        self._place(to)
        self._place(view)
        for facts in zip(*axes, strict=True):
            self._words += facts
        self._end(begin)
        self._work += 2 * node.size
        return to

    def _contract(self, node: Node) -> View:
        a, b, out = node.params
        to = self._new(node)
        left, right = (self._value(item) for item in node.inputs)
        extents = dict(zip((*a, *b), (*left.shape, *right.shape), strict=True))
        by_left = dict(zip(a, left.strides, strict=True))
        by_right = dict(zip(b, right.strides, strict=True))
        by_out = dict(zip(out, to.strides, strict=True))
        inner = [x for x in a if x not in by_out]
        if any(not extents[x] for x in inner):
            self._fill(to, 0)
            return to
        batch = [x for x in out if x in by_left and x in by_right]
        rows = [x for x in out if x in by_left and x not in by_right]
        columns = [x for x in out if x not in by_left]
        counts = [math.prod([extents[x] for x in group]) for group in (rows, columns)]
        if counts[1] < counts[0] and counts[1] < 16:  # a product of two numbers has no order
            left, right, by_left, by_right = right, left, by_right, by_left
            rows, columns = columns, rows
            counts.reverse()
        groups = (batch, rows, columns, inner)
        count, depth = (math.prod([extents[x] for x in group]) for group in (batch, inner))
        begin = self._begin(function_of("contract", node.dtype), to.block)
        self._words += (count, *counts, depth, *map(len, groups))
        for view in (to, left, right):
            self._place(view)
        tables = 8 * (3 * count + 2 * counts[0] + 2 * counts[1] + 2 * depth) + 64
        size = node.dtype.compute.itemsize
        area = ((counts[0] + 16) * depth + (counts[1] + 64) * depth + 32) * size
        areas = min(count, _AREAS) if math.prod(counts) * depth >= 2048 else 0
        part = self._temporary((tables + areas * area,), uint8)
        self._place(part)
        self._drop(part)
        self._words.append(max(areas, 1))
        for label in (*batch, *rows, *columns, *inner):
            strides = (by_left.get(label, 0), by_right.get(label, 0), by_out.get(label, 0))
            self._words += (extents[label], *strides)
        self._end(begin)
        self._work += node.size * depth
        return to

    # ---------------------------------------------------------------- indexing

    def _positions(self, node: Node) -> tuple[View, bool]:
        """An index as int64 without gaps, and whether the caller drops it."""
        view = self._value(node)
        if node.dtype is int64:
            return self._without_gaps(view)
        made = self._temporary(node.shape, int64)
        self._apply(made, [view], "cast", node.dtype, int64)
        return made, True

    def _gather(self, node: Node) -> View:
        axis, batch = node.params
        source, index = node.inputs
        view, is_copy = self._packed_value(source)
        at, is_made = self._positions(index)
        to = self._new(node)
        shape = source.shape
        begin = self._begin("lz_generic_gather", to.block)
        behind, count = math.prod(shape[axis + 1 :]), math.prod(index.shape[batch:])
        self._words += (
            node.dtype.itemsize, math.prod(shape[:batch]), math.prod(shape[batch:axis]),
            shape[axis], behind, count,
        )  # fmt: skip
        for item in (to, view, at):
            self._place(item)
        self._end(begin)
        self._work += node.size
        self._drop(view, is_copy)
        self._drop(at, is_made)
        return to

    def _scatter(self, node: Node) -> View:
        axis, kind, batch = node.params
        base, index, updates = node.inputs
        to = self._over(node, base)
        if not updates.size:
            return to
        view, is_copy = self._packed_value(updates)
        at, is_made = self._positions(index)
        shape = base.shape
        begin = self._begin(function_of("scatter", node.dtype, kind), to.block)
        behind, count = math.prod(shape[axis + 1 :]), math.prod(index.shape[batch:])
        rows = math.prod(shape[batch:axis])
        self._words += (math.prod(shape[:batch]), rows, shape[axis], behind, count)
        for item in (to, at, view):
            self._place(item)
        self._end(begin)
        self._work += updates.size
        self._drop(view, is_copy)
        self._drop(at, is_made)
        return to

    def _update(self, node: Node) -> View:
        base, value = node.inputs
        starts, steps = node.params
        source = self._value(value)
        to = self._over(node, base)
        if value.size:
            offset = sum([s * stride for s, stride in zip(starts, to.strides, strict=True)])
            strides = tuple([s * stride for s, stride in zip(steps, to.strides, strict=True)])
            moves = tuple([((node, axis), stride) for axis, stride in enumerate(to.strides)])
            target = View(to.block, to.offset + offset, value.shape, strides, node.dtype, moves)
            self._copy(target, source)
        return to

    def _over(self, node: Node, base: Node) -> View:
        """The memory of a result that begins as ``base``: that of the base itself where nobody
        reads it any more, else a copy."""
        view = self._value(base)
        free = self._left[base] == 1 and view.block.users == 1 and not view.moves
        free = free and not view.offset and view.block.nbytes >= node.nbytes
        free = free and view.strides == packed(view.shape, view.dtype.itemsize)
        if free and view.block.slot == _SCRATCH and node not in self._targets:
            view.block.users += 1
            return View(view.block, 0, view.shape, view.strides, view.dtype)
        number = view.block.slot - 2
        roots = self._targets.get(node, [])
        given = free and self._inputs.get(base) == number and number in self._donated
        if given and roots and self._donated[number] in (-1, *roots):
            self._written[number] = roots[0]
            view.block.users += 1
            return View(view.block, 0, view.shape, view.strides, view.dtype)
        to = self._new(node)
        self._copy(to, view)
        return to

    def _sort(self, node: Node) -> View:
        view, is_copy = self._packed_value(node.inputs[0])
        to = self._new(node)
        dtype, length = view.dtype, node.shape[-1]
        by_values = node.params.kind == "values"
        begin = self._begin(sort_of(dtype, length, by_values), to.block)
        flip, infinity = order_numbers(dtype)
        self._words += (node.size // length, length, int(node.params.descending), flip, infinity)
        if by_values:
            self._place(to)
            self._words += (-1, 0)
        else:
            self._words += (-1, 0)
            self._place(to)
        self._place(view)
        keys = self._temporary((2 * node.size,), dtype)
        places = self._temporary((node.size if not by_values else 1,), int64)
        self._place(keys)
        self._place(places)
        self._drop(keys)
        self._drop(places)
        self._end(begin)
        self._work += 20 * node.size
        self._drop(view, is_copy)
        return to

    def _fourier(self, node: Node) -> View:
        (view, is_copy), (table, is_made) = map(self._packed_value, node.inputs)
        to = self._new(node)
        kind, sign, n, _ = node.params
        plan = plan_of(kind, n)
        assert plan is not None
        rows = node.size // row_sizes(kind, n)[1]
        begin = self._begin(fourier_of(view.dtype), to.block)
        self._words += (
            rows, n, plan.a, plan.b, pack_stages(plan.first), pack_stages(plan.second),
            int(sign > 0), KINDS.index(kind), int(plan.whole),
        )  # fmt: skip
        scratch = self._temporary((work_size(kind, rows, n, view.dtype),), view.dtype)
        for item in (view, table, to, scratch):
            self._place(item)
        self._end(begin)
        self._work += 5 * node.size
        self._drop(scratch)
        self._drop(view, is_copy)
        self._drop(table, is_made)
        return to

    def _linalg(self, node: Node) -> View:
        routine, mode = node.params
        operands = [*map(self._packed_value, node.inputs)]
        to = self._new(node)
        (m, n), *rest = [item.shape[-2:] for item in node.inputs]
        sides = rest[0][1] if rest else 0
        batch = math.prod(node.shape[:-1])
        shapes = [item.shape for item in node.inputs]
        sizes = sizes_of(routine, shapes, node.shape[-1], node.dtype)
        work = batch * flops(routine, mode, m, n, sides)
        begin = self._begin(linalg_of(routine, node.dtype), to.block)
        self._words += (
            batch, m, n, sides, MODES[routine][mode], sizes.results, sizes.scratch,
            int(work < PARALLEL),
        )  # fmt: skip
        room = room_for_matrices(sizes, batch, node.dtype)
        scratch = self._temporary((room,), node.dtype)
        for item in (operands[0][0], operands[-1][0], to, scratch):
            self._place(item)
        self._end(begin)
        self._work += work
        self._drop(scratch)
        for view, is_copy in operands:
            self._drop(view, is_copy)
        return to


#: How each op is encoded.
_RULES: dict[str, Callable[[Encoder, Node], Any]] = {
    "variable": Encoder._identity, "detach": Encoder._identity,
    "put": Encoder._identity, "reshape": Encoder._reshape, "permute": Encoder._permute,
    "expand": Encoder._expand_axes, "slice": Encoder._slice, "flip": Encoder._flip,
    "window": Encoder._window, "pad": Encoder._pad, "concat": Encoder._concat,
    "iota": Encoder._iota_node, "random": Encoder._random, "reduce": Encoder._reduce,
    "scan": Encoder._scan, "contract": Encoder._contract, "gather": Encoder._gather,
    "scatter": Encoder._scatter, "update": Encoder._update, "sort": Encoder._sort,
    "fourier": Encoder._fourier, "linalg": Encoder._linalg,
}  # fmt: skip


def encode(
    order: Sequence[Node], leaves: Sequence[Node], roots: Sequence[Node],
    donated: Mapping[int, int],
) -> Encoded:  # fmt: skip
    """The instructions that compute ``roots``.

    Args:
        order: all nodes, inputs first.
        leaves: those that are given; slot ``2 + n`` is number n.
        roots: each goes to an output, or is an input as it is.
        donated: inputs whose memory a root may take over: that of the number, -1 for any.

    Raises Unsupported where the library has nothing for some op.
    """
    return Encoder(order, leaves, roots, donated).run(order)

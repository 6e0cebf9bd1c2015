"""The fast path of a look: guards written for one graph, and the plan behind them.

A program that goes round looks at graphs of the same few structures. What planning does with one
(number it, look its key up, count references, find the plan) comes to the same plan each time. So
it is written down: for a graph that was met ``OFTEN`` times a Python function is made that walks
just such a graph, node by node, compares what the key and the counts of references were made of,
and runs the plan. Where anything differs it takes no effect and says so, and planning goes the long
way.

Guards are found by the heads of the graph's roots, whatever their numbers are, and, where many
graphs end alike, by what is read first below that; the ones that held last come first.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lazyt.config import config
from lazyt.ir.dtypes import (
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from lazyt.ir.graph import Node, clock
from lazyt.ops.leaves import CONST, INPUT, become_input
from lazyt.plan import graph_keys
from lazyt.plan.constant_lifting import Number, numbers_of
from lazyt.plan.graph_keys import ALONE, Choice, Structure, key_of, trail_of
from lazyt.plan.retention import depends_on_pending, forget_origins
from lazyt.runtime import events
from lazyt.runtime.cpu.execute import Executable
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.codegen.generic.program import Table
    from lazyt.plan.build import Plan

#: Computes the graph of some roots and gives how many bytes were stored, or gives -1 and does
#: nothing.
Guarded = Callable[..., int]

#: How often a graph is met before guards are written for it, so that writing them takes no longer
#: than planning did until then; and how many nodes it may have.
OFTEN = 10
MOST_NODES = 1500
#: Guards that are tried for one head before what lies below it is looked at, those that are tried
#: then, and for how many graphs of one head there are some.
FEW, MOST, MOST_ALIKE = 4, 12, 512
#: What a number becomes in memory, by its dtype.
_CODES = {
    float32: "f", float64: "d", int64: "q", int32: "i", int16: "h", int8: "b", bool_: "?",
    uint8: "B", uint16: "H", uint32: "I", uint64: "Q",
}  # fmt: skip
#: Bytes from one number that is an input to the next, as buffers are aligned.
_STRIDE = 64

#: What the code of guards says its file is: one of the package, so that it is no user's code.
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "<guards>")

#: Guards, and what ``trail_of`` gives for their graphs.
Pair = tuple[Guarded, tuple[int, ...]]


class _Alike:
    """The guards of graphs whose roots have the same heads.

    Attributes:
        few: all of them, as long as they are few.
        many: by ``trail_of``, once they are not; empty before.
    """

    __slots__ = ("few", "many")

    def __init__(self) -> None:
        self.few: list[Pair] = []
        self.many: dict[tuple[int, ...], list[Pair]] = {}

    def add(self, pair: Pair) -> None:
        """Takes guards in, which are tried before others."""
        if not self.many:
            self.few = [pair, *self.few]
            if len(self.few) <= FEW:
                return
            for other in reversed(self.few):
                self.many[other[1]] = [other, *self.many.get(other[1], ())]
            self.few = []
            return
        if len(self.many) >= MOST_ALIKE:
            self.many.pop(next(iter(self.many)))
        self.many[pair[1]] = [pair, *self.many.get(pair[1], ())][:MOST]

    def run(self, roots: Sequence[Node]) -> int:
        """Computes the graph of ``roots`` by the first guards that hold for it, which come first
        from then on; -1 where none do."""
        trail: tuple[int, ...] = ()
        found: Sequence[Pair] = self.few
        if self.many:
            trail = trail_of(roots[0])
            found = self.many.get(trail, ())
        for pair in found:
            stored = pair[0](*roots)
            if stored >= 0:
                if pair is not found[0]:  # another list: others may be going through this one
                    first = [pair, *(item for item in found if item is not pair)]
                    if self.many:
                        self.many[trail] = first
                    else:
                        self.few = first
                return stored
        return -1


#: By the number that stands for the head of the root in keys, or by those of several: a write at
#: another place is the same graph.
_known: dict[int | tuple[int, ...], _Alike] = {}


def clear() -> None:
    """Forgets all guards, and with them the plans that only they hold."""
    _known.clear()


graph_keys.on_forget.append(clear)


def run_known(roots: Sequence[Node]) -> int:
    """Computes the graph of ``roots``, which are different and pending, if it is one that guards
    were written for.

    Returns: how many bytes are stored now, -1 where it was not computed.
    """
    found = _known.get(_key_of(roots))
    return -1 if found is None else found.run(roots)


def _key_of(roots: Sequence[Node]) -> int | tuple[int, ...]:
    if len(roots) == 1:
        head = roots[0].head
        return head.key or key_of(head)
    return tuple([root.head.key or key_of(root.head) for root in roots])


def note(
    structure: Structure,
    choice: Choice,
    plan: Plan,
    lifted: Sequence[Number],
    order: Sequence[Node],
    lock: Any,
) -> None:
    """Takes down that a graph was computed by a plan; writes guards for it when it is time.

    Args:
        lifted: the numbers that are inputs of the plan.
        order: the graph's nodes, none of which was computed yet.
        lock: held while a graph is read.
    """
    choice.met += 1
    if choice.met < OFTEN or len(order) > MOST_NODES:
        return
    choice.met = 0  # where they cease to hold they are written anew, as seldom
    if not _may_be_guarded(structure, plan, order):
        return
    made = _Writer(structure, choice, plan, lifted, order, lock).function()
    if made is None:
        return
    roots = [order[number] for number in structure.plain.roots]
    _known.setdefault(_key_of(roots), _Alike()).add((made, trail_of(roots[0])))


def _may_be_guarded(structure: Structure, plan: Plan, order: Sequence[Node]) -> bool:
    """Whether nothing but what guards compare decides how the graph is computed."""
    if structure.place or config.verify or structure.calls or structure.parameters:
        return False
    if plan.launcher is not None or plan.subject is not None:
        return False
    for number in structure.plain.roots:
        root = order[number]
        if root.op.is_identity:
            return False
        if root.op.name == "reshape" and root.inputs[0].data is not None:
            return False  # of what is there: nothing to compute
    return True


class _Writer:
    """Writes the guards of one graph.

    In the text ``n3`` is the node of number 3, ``d3`` its buffer where it is a leaf, ``b0`` the
    plan's first output and ``v`` the memory of the numbers that the plan takes: constants, or
    instructions with all of them.
    """

    def __init__(
        self,
        structure: Structure,
        choice: Choice,
        plan: Plan,
        lifted: Sequence[Number],
        order: Sequence[Node],
        lock: Any,
    ) -> None:
        self.structure, self.choice, self.plan = structure, choice, plan
        self.order = order
        self.numbers = {node: number for number, node in enumerate(order)}
        self.lifted = lifted
        #: The numbers that the plan takes, whatever they are: of each node the axes.
        self.free: dict[Node, set[int]] = {}
        if plan.open_table is not None:
            lifted = [item for i in structure.open for item in numbers_of(order[i])]
        for item in lifted:
            self.free.setdefault(item.node, set()).add(item.axis)
        self.lines: list[str] = []
        self.table: dict[str, Any] = {
            "lock": lock, "refs": sys.getrefcount, "clock": clock,
            "depends_on_pending": depends_on_pending,
            "Buffer": Buffer, "CONST": CONST, "INPUT": INPUT, "config": config,
            "of_plans": config.of_plans, "structure": structure, "choice": choice, "plan": plan,
            "code": plan.code,
            "become_input": become_input, "forget_origins": forget_origins,
            "watching": events.watching, "__name__": __name__,
        }  # fmt: skip

    def function(self) -> Guarded | None:
        """The guards as a function; None where the plan cannot be run so."""
        roots = self.structure.plain.roots
        self._write_walk(roots)
        if not self._write_numbers():
            return None
        self._write_counts()
        if not self._write_run():
            return None
        head = [
            f"def guarded({', '.join([f'n{root}' for root in roots])}):",
            "  if watching or config.interpret or plan.code is not code:",
            "    return -1",
            "  found = config._of_plans",
            "  if found is not of_plans and found != of_plans:",
            "    return -1",
            "  with lock:",
        ]
        text = "\n".join([*head, *self.lines])
        exec(compile(text, _FILE, "exec"), self.table)
        made: Guarded = self.table["guarded"]
        return made

    def _bind(self, name: str, value: Any) -> str:
        self.table[name] = value
        return name

    def _unless(self, condition: str) -> None:
        """The graph is another one if this holds."""
        self.lines.append(f"    if {condition}:")
        self.lines.append("      return -1")

    # ------------------------------------------------------------------ the walk

    def _write_walk(self, roots: Sequence[int]) -> None:
        """Compares the nodes, each before its inputs, and gives them names."""
        leaves, named = set(self.structure.leaves), set(roots)
        stack = [*roots]
        while stack:
            number = stack.pop()
            node = self.order[number]
            if number in leaves:
                self.lines.append(f"    d{number} = n{number}.data")
                self._unless(
                    f"d{number} is None or n{number}.form != {node.form} or n{number}.op is CONST"
                )
                continue
            pending = "" if node.op is CONST else f" or n{number}.data is not None"
            if node in self.free:
                self._write_open(number, node, pending)
            else:
                head = self._bind(f"h{number}", node.head)
                self._unless(f"n{number}.head is not {head}{pending}")
            if not node.inputs:
                continue
            inputs = [self.numbers[item] for item in node.inputs]
            names: list[str] = []
            again: list[str] = []
            for place, item in enumerate(inputs):
                if item in named:
                    names.append(f"t{place}")
                    again.append(f"t{place} is not n{item}")
                else:
                    named.add(item)
                    names.append(f"n{item}")
                    stack.append(item)
            self.lines.append(f"    {', '.join(names)}, = n{number}.inputs")
            if again:
                self._unless(" or ".join(again))
                self.lines.append(f"    {' = '.join(test.split()[0] for test in again)} = None")

    def _write_open(self, number: int, node: Node, pending: str) -> None:
        """A node some of whose numbers the plan takes: the others have to be the same."""
        op = self._bind(f"o{number}", node.op)
        if node.op is CONST:
            self._unless(f"n{number}.op is not {op} or n{number}.form != {node.form}")
            return
        self._unless(f"n{number}.op is not {op}{pending}")
        self.lines.append(f"    p{number} = n{number}.params")
        self._unless(f"p{number}.steps != {node.params.steps}")
        if node.op.name == "slice":
            self._unless(f"p{number}.sizes != {node.params.sizes}")
        for item in numbers_of(node):
            if item.axis not in self.free[node]:
                self._unless(f"p{number}.starts[{item.axis}] != {item.value}")

    def _write_numbers(self) -> bool:
        """The numbers that the plan takes, written into memory; whether all of them can be."""
        table = self.plan.open_table
        if table is not None and table.holes:
            return self._write_holes(table)
        if not self.lifted:
            return True
        form, values = "=", []
        for item in self.lifted:
            code = _CODES.get(item.dtype)
            if code is None:
                return False
            form += f"{code}{_STRIDE - struct.calcsize(code)}x"
            number = self.numbers[item.node]
            constant = item.axis < 0
            values.append(
                f"n{number}.params.value" if constant else f"p{number}.starts[{item.axis}]"
            )
        self._write_packed("v", form, values)
        return True

    def _write_packed(self, name: str, form: str, values: Sequence[str]) -> None:
        """Expressions packed into new memory of this name."""
        packed = struct.Struct(form)
        self.table["pack_numbers"] = packed.pack
        self.lines += [
            "    try:",
            f"      numbers = pack_numbers({', '.join(values)})",
            "    except (OverflowError, struct_error):",
            "      return -1",
            f"    {name} = Buffer({packed.size})",
            f"    {name}.copy_from(numbers)",
        ]
        self.table["struct_error"] = struct.error

    def _write_holes(self, table: Table) -> bool:
        """The instructions with the numbers of the graph in them; whether all of these have a
        form that ``struct`` knows."""
        fixed = table.words.tobytes()
        form, values, begin = "=", [], 0

        def keep(end: int) -> None:
            nonlocal form
            if end > begin:
                form += f"{8 * (end - begin)}s"
                values.append(self._bind(f"w{begin}", fixed[8 * begin : 8 * end]))

        for place, constant, dtype, base, starts in table.holes:
            keep(place)
            begin = place + 1
            if dtype is None:
                form += "q"
                moved = [f"{by} * p{number}.starts[{axis}]" for number, axis, by in starts]
                values.append(" + ".join([str(base), *moved]))
                continue
            code = _CODES.get(dtype)
            if code is None:
                return False
            form += f"{code}{8 - struct.calcsize(code)}x"
            values.append(f"n{constant}.params.value")
        keep(len(table.words))
        self._write_packed("v", form, values)
        return True

    # ------------------------------------------------------------------ who refers to what

    def _write_counts(self) -> None:
        """Compares which values are in use outside of the graph, as ``Structure.choose`` does."""
        used, old = self.choice.pattern
        alone = []
        for number, uses in self.structure.watched:
            count = f"refs(n{number}) > {uses + _OF_LOCAL}"
            if number in used:
                self._unless(f"not {count}")
                wanted = "not " if number in old else ""
                self._unless(f"{wanted}depends_on_pending(n{number}, clock.now)")
            else:
                alone.append(count)
        for start in range(0, len(alone), 8):
            self._unless(" or ".join(alone[start : start + 8]))
        self._write_spare()

    def _write_spare(self) -> None:
        """Compares which leaves nobody else knows, so that their memory may be written over. What
        may be is no other leaf's, nor a part of its memory: who exposes memory holds its buffer."""
        leaves = self.structure.leaves
        donated = {leaves[place] for place, _ in self.choice.donated}
        for base, write, _ in self.structure.spare:
            free = (
                f"(refs(n{base}) <= {1 + _OF_LOCAL} and n{base}.op is INPUT "
                f"and not n{write}.needs_grad and not d{base}.is_foreign "
                f"and refs(d{base}) == {ALONE})"
            )
            self._unless(f"not {free}" if base in donated else free)

    # ------------------------------------------------------------------ the run

    def _write_run(self) -> bool:
        """Runs the plan and stores the results; whether that can be done."""
        program, executable, sizes, table, heat = self.plan.code[:5]
        origins = [f"d{number}" for number in self.structure.leaves]
        pointers = [f"d{number}.ptr" for number in self.structure.leaves]
        pointers += [f"v.ptr + {_STRIDE * place}" for place in range(len(self.lifted))]
        origins += [""] * len(self.lifted)
        if table is not None:
            open_table = self.plan.open_table
            is_open = open_table is not None and open_table.holes
            pointers.append("v.ptr" if is_open else f"{self._bind('table', table)}.ptr")
            origins.append("")
        self.lines += [
            "    clock.now += 1",
            "    structure.used = clock.now",
            "    choice.met = 0",
        ]
        outputs = [f"b{place}" for place in range(len(sizes))]
        self.lines += [f"  {b} = Buffer({size})" for b, size in zip(outputs, sizes)]
        if executable is not None:
            if not isinstance(executable, Executable):
                return False
            pointers += [f"{b}.ptr" for b in outputs]
            if len(pointers) != executable.inputs + executable.outputs:
                return False
            if heat is not None:  # it counts runs, and has the plan get other kernels
                self._bind("clock_now", perf_counter)
                self._bind("note", heat.note)
                self.lines.append("  begin = clock_now()")
            self._write_launch(executable, pointers)
            if heat is not None:
                self.lines.append("  note(plan, clock_now() - begin)")
        results = [outputs[n] if n >= 0 else origins[-1 - n] for n in program.results]
        if "" in results:  # a number that is itself the result
            return False
        stored = self.choice.roots
        self.lines.append("  with lock:")  # what another thread has computed meanwhile stays
        for number, result in zip(stored, results, strict=True):
            self.lines.append(f"    if n{number}.data is None:")
            self.lines.append(f"      n{number}.data = {result}")
        for number in stored:
            self.lines.append(f"    if n{number}.needs_grad:")
            self.lines.append(f"      forget_origins((n{number},))")
            if self.order[number].inputs:
                self.lines.append("    else:")
                self.lines.append(f"      become_input(n{number})")
        self.lines.append(f"  return {sum(self.order[number].nbytes for number in stored)}")
        return True

    def _write_launch(self, executable: Executable, pointers: list[str]) -> None:
        size = executable.program.arena_bytes
        if size:
            self.lines.append(f"  arena = Buffer({size})")
            pointers = [*pointers, *[f"arena.ptr + {offset}" for offset in executable.scratch]]
        order = [pointers[place] for place in executable.places]
        self.table["pack"] = struct.Struct(f"{len(order)}P").pack
        self.table["launch"] = launcher_of(executable)
        self.lines.append(f"  launch(pack({', '.join(order)}))")


def launcher_of(executable: Executable) -> Callable[[bytes], object]:
    """A function that runs a plan on packed pointers, from any number of threads at once."""
    from lazyt.runtime.cpython import direct

    if executable.serial and direct.available():
        return direct.launching(executable.entry)
    return executable.launch


def _count_of_local() -> int:
    """What is counted, in code as the guards' is, for an object that only a local name holds."""
    table: dict[str, Any] = {"refs": sys.getrefcount}
    exec("def count():\n  n0 = object()\n  return refs(n0)", table)
    found: int = table["count"]()
    return found


_OF_LOCAL = _count_of_local()

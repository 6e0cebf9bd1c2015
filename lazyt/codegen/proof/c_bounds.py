"""Proof that emitted C stays inside its buffers, made from the text alone.

The function is parsed back, and run once with unknowns in place of numbers: loop variables become
``start + step * turn``, conditions become inequalities where they hold, values read from memory
stay unknown. Every index must then be provably inside its array (see ``codegen/proof/facts.py``).
What a kernel cuts out of its workspace counts as arrays of their own, each up to where the next one
starts, so threads and panels cannot reach into each other either.

What the proof takes for granted: OpenMP's promise that ``omp_get_thread_num()`` is below
``num_threads``, and what the micro-kernels read and write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from pycparser import c_ast, c_parser

from lazyt.codegen.matmul.dot_products import LOOSE
from lazyt.codegen.prelude import sections_for
from lazyt.codegen.proof.facts import Array, Atom, Form, Memory, Pointer, Violation, number, unknown
from lazyt.codegen.proof.values import INTEGERS, Value, Values, kind_name
from lazyt.errors import VerifyError
from lazyt.ir.kernel import Kernel

#: Turns that a loop is assumed to stay below until its condition says more.
_MANY = 1 << 40
_LEAVES = c_ast.Return | c_ast.Break | c_ast.Continue


def check_kernel_c(text: str, sizes: Sequence[int]) -> list[Violation]:
    """The accesses of a C kernel that are not proved to be inside of their arrays.

    ``text`` is one function ``void name(char *b0_, ..., int threads)``, ``sizes`` are the bytes
    behind its pointer arguments, in order. Raises VerifyError when the text is no such function.
    """
    try:
        unit = c_parser.CParser().parse(f'{_type_names()}\n#line 1 "kernel.c"\n{text}')
    except c_parser.ParseError as error:
        raise VerifyError(f"emitted C that cannot be read back: {error}\n{text}") from None
    functions = [item for item in unit.ext if isinstance(item, c_ast.FuncDef)]
    if len(functions) != 1:
        raise VerifyError(f"expected one C function, found {len(functions)}:\n{text}")
    return check_function(functions[0], sizes)


def check_function(function: c_ast.FuncDef, sizes: Sequence[int]) -> list[Violation]:
    """``check_kernel_c`` of a function that is a tree already; violations have its lines."""
    walk = _Walk()
    walk.arguments(function, sizes)
    walk.statement(function.body)
    walk.check_pieces()
    return walk.violations


def argument_bytes(kernel: Kernel, workspace: int = 0, offsets: Sequence[int] = ()) -> list[int]:
    """Bytes behind each pointer argument of a kernel's C function. ``offsets``: how far into its
    buffer each points."""
    sizes = [b.dtype.itemsize * prod(b.shape) for b in kernel.arguments]
    for place, offset in enumerate(offsets):
        sizes[place] -= offset
    return [*sizes, workspace] if workspace else sizes


def require_in_bounds(text: str, sizes: Sequence[int]) -> None:
    """Raises VerifyError, with the lines marked, unless every access is proved to be inside."""
    found = check_kernel_c(text, sizes)
    if found:
        lines = text.splitlines()
        for item in found:
            lines[item.line - 1] += f"  /* <-- {item.reason}: {item.access} */"
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise VerifyError(f"invalid C: {found[0]}{more}\n" + "\n".join(lines))


@cache
def _type_names() -> str:
    """The prelude's type definitions, and that of groups of numbers, on one line."""
    base = "".join(text for _, text in sections_for([]))
    names = re.findall(r"^typedef [a-z ]+ lz_\w+;", base, re.MULTILINE)
    return " ".join([*names, f"typedef lz_u32 {LOOSE};"])


@dataclass(frozen=True)
class _Step:
    """What a loop does to its variable after every turn: ``name op by``."""

    name: str
    op: str
    by: int


class _Walk(Values):
    """Runs a function's body once over unknowns."""

    def arguments(self, function: c_ast.FuncDef, sizes: Sequence[int]) -> None:
        """Declares the parameters; pointers point to memory of the given sizes."""
        waiting = list(sizes)
        for item in function.decl.type.args.params:
            if not isinstance(item.type, c_ast.PtrDecl):
                self.scopes[0][item.name] = self.anything(item.name, kind_name(item.type))
            elif waiting:
                memory = Memory(item.name, number(0), waiting.pop(0))
                self.scopes[0][item.name] = Pointer(memory, number(0), 1)
            else:
                raise VerifyError(f"no size was given for the argument {item.name}")
        if waiting:
            raise VerifyError(f"{len(waiting)} sizes more than pointer arguments")

    @contextmanager
    def block(self) -> Iterator[None]:
        """A scope of names."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def forget(self, body: Any) -> None:
        """Makes the variables that ``body`` assigns unknown."""
        for name in _assigned(body):
            if isinstance(self.look_up(name), Form):
                self.put(name, self.anything(name))

    def statement(self, node: Any) -> None:
        """Runs one statement."""
        if node is None or isinstance(node, c_ast.EmptyStatement | _LEAVES):
            return  # to go on behind what leaves is to look at more than happens
        if isinstance(node, c_ast.Compound):
            self._compound(node)
        elif isinstance(node, c_ast.Decl):
            self._declare(node)
        elif isinstance(node, c_ast.DeclList):
            for item in node.decls:
                self._declare(item)
        elif isinstance(node, c_ast.Assignment):
            self._assign(node)
        elif isinstance(node, c_ast.For | c_ast.While):
            with self.block():
                self._loop(node)
        elif isinstance(node, c_ast.If):
            self._branch(node)
        else:
            self.value(node)

    def _compound(self, node: c_ast.Compound) -> None:
        outside = self.worker
        with self.block():
            for item in node.block_items or ():
                if isinstance(item, c_ast.Pragma):
                    self._open_team(item.string)
                    continue
                self.statement(item)
                self.worker = outside

    def _open_team(self, pragma: str) -> None:
        """``omp parallel num_threads(n)``: in the next statement threads are 0 .. n-1."""
        team = re.search(r"\bparallel\b.*\bnum_threads\((\w+)\)", pragma)
        if team is None:
            return
        word = team[1]
        most = number(int(word)) if word.isdigit() else self.look_up(word)
        if isinstance(most, Form):
            last = max(self.facts.range_of(most)[1] - 1, 0)
            self.worker = unknown(Atom("worker", (0, last)))

    def _declare(self, node: c_ast.Decl) -> None:
        value: Value = None
        if node.init is not None and _names(node.init, node.name):
            # In C the new name is known there already, whatever was called so before.
            self.complain(node, "it is made of itself, before it has a value")
        elif node.init is not None:
            value = self.value(node.init)
        if isinstance(node.type, c_ast.ArrayDecl):
            value = self._array(node)
        elif isinstance(node.type, c_ast.PtrDecl):
            if not isinstance(value, Pointer):
                self.complain(node, "a pointer to unknown memory")
        elif kind_name(node.type) not in INTEGERS:
            value = None
        elif not isinstance(value, Form):
            value = self.anything(node.name, kind_name(node.type))
        self.scopes[-1][node.name] = value

    def _array(self, node: c_ast.Decl) -> Array:
        extents: list[int] = []
        kind = node.type
        while isinstance(kind, c_ast.ArrayDecl):
            extent = self.value(kind.dim)
            if not isinstance(extent, Form) or extent.terms:
                raise VerifyError(f"array {node.name} has no constant size")
            extents.append(extent.const)
            kind = kind.type
        return Array(tuple(extents))

    def _assign(self, node: c_ast.Assignment) -> None:
        value = self.value(node.rvalue)
        if not isinstance(node.lvalue, c_ast.ID):
            self.value(node.lvalue)
            return
        name = node.lvalue.name
        old = self.look_up(name)
        if isinstance(old, Pointer | Array):
            self.complain(node, "a pointer changes")
        elif isinstance(old, Form):
            new = value if node.op == "=" else self.arithmetic(node.op[:-1], old, value)
            self.put(name, new if isinstance(new, Form) else self.anything(name))

    def _branch(self, node: c_ast.If) -> None:
        self.value(node.cond)
        for body, holds in ((node.iftrue, True), (node.iffalse, False)):
            before = [dict(scope) for scope in self.scopes]
            with self.assuming(node.cond, holds):
                self.statement(body)
            self.scopes = before
        self.forget(node)
        if node.iffalse is None and _always_leaves(node.iftrue):
            self.assume(node.cond, False)  # until the end of what stands around it

    # ----------------------------------------------------------------- loops

    def _loop(self, node: c_ast.For | c_ast.While) -> None:
        """Any turn of a loop; afterwards its condition is false."""
        if isinstance(node, c_ast.For):
            self.statement(node.init)
        change = _find_change(node)
        start = self.look_up(change[0]) if change else None
        self.forget(node)
        step = self._step(change)
        turn = Atom("turn", (0, _MANY))
        if step is not None:
            self.put(step.name, self._after(step, start, turn))
        self.value(node.cond)
        with self.assuming(node.cond, True):
            last = self.facts.range_of_atom(turn)[1]
            if not self.facts.impossible:
                self.statement(node.stmt)
        self.forget(node)
        if step is not None:
            self.put(step.name, self._after(step, start, Atom("turns", (0, max(last + 1, 0)))))
        if not _breaks(node.stmt):
            self.assume(node.cond, False)

    def _step(self, change: tuple[str, str, Any] | None) -> _Step | None:
        """What a loop does to its variable, when that is the same number in every turn."""
        if change is None:
            return None
        name, op, by = change
        found = self.peek(by)
        if not isinstance(found, Form) or found.terms or found.const < 1:
            return None
        return _Step(name, op, found.const)

    def _after(self, step: _Step, start: Value, turns: Atom) -> Form | None:
        """A loop variable after some turns."""
        if not isinstance(start, Form):
            return self.anything(step.name)
        if step.op in ("+=", "-="):
            return start + unknown(turns).times(step.by if step.op == "+=" else -step.by)
        low, high = self.facts.range_of(start)
        if low < 0:
            return self.anything(step.name)
        divided = unknown(Atom(step.name, (0, high)))  # by step.by, once every turn
        self.facts.add(start - divided)
        return divided


def _names(tree: Any, name: str) -> bool:
    """Whether an expression reads a variable."""
    work = [tree]
    while work:
        node = work.pop()
        if isinstance(node, c_ast.ID) and node.name == name:
            return True
        work.extend(child for _, child in node.children())
    return False


def _always_leaves(body: Any) -> bool:
    """Whether nothing behind a statement happens after it."""
    if isinstance(body, c_ast.Compound):
        return bool(body.block_items) and _always_leaves(body.block_items[-1])
    return isinstance(body, _LEAVES)


def _breaks(body: Any) -> bool:
    """Whether a loop's body may leave the loop and go on behind it."""
    work = [body]
    while work:
        node = work.pop()
        if isinstance(node, c_ast.Break):
            return True
        if not isinstance(node, c_ast.For | c_ast.While):
            work.extend(child for _, child in node.children())
    return False


def _assigned(body: Any) -> set[str]:
    """Names of the variables that a statement changes."""
    found: set[str] = set()
    work = [body]
    while work:
        node = work.pop()
        if isinstance(node, c_ast.Assignment) and isinstance(node.lvalue, c_ast.ID):
            found.add(node.lvalue.name)
        elif isinstance(node, c_ast.UnaryOp) and node.op in ("++", "p++", "--", "p--"):
            found.add(node.expr.name)
        work.extend(child for _, child in node.children())
    return found


def _find_change(node: c_ast.For | c_ast.While) -> tuple[str, str, Any] | None:
    """The change of the loop variable, ``name op by``, when it is the last of every turn and the
    only one."""
    if isinstance(node, c_ast.For):
        change, rest = node.next, [node.stmt]
    else:
        *rest, change = node.stmt.block_items or [None]
    found: tuple[str, str, Any] | None = None
    if isinstance(change, c_ast.UnaryOp) and change.op in ("++", "p++"):
        found = change.expr.name, "+=", c_ast.Constant("int", "1")
    elif isinstance(change, c_ast.Assignment) and isinstance(change.lvalue, c_ast.ID):
        found = change.lvalue.name, change.op, change.rvalue
    if found is None or found[1] not in ("+=", "-=", "/="):
        return None
    return None if any(found[0] in _assigned(item) for item in rest) else found

"""Users' kernels over memory: C functions with pointers, checked and printed anew.

A kernel has arrays by pointer, sizes and numbers by value, and local variables. What is printed
differs from the text in this: signed whole numbers (``int``, ``long``, ``size_t``) have 64 bits,
variables without a value are 0, functions of math.h are lazyt's own, floats become whole numbers
as lazyt converts them, and a division by 0 gives 0. So no operation is left undefined, and what is
proved about the indices of the text holds for what runs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from pycparser import c_ast

from lazyt.codegen.c import tree as ct
from lazyt.codegen.handwritten import types
from lazyt.codegen.handwritten.races import never_written, same_element
from lazyt.codegen.handwritten.source import Source, walk
from lazyt.codegen.handwritten.types import Types, common, promoted
from lazyt.ir.dtypes import DType, bool_, float32, float64, int32, int64, uint32, uint64

#: Bytes of the local arrays of a text together, and of those that a block of threads shares.
MOST_LOCAL, MOST_SHARED = 64 << 10, 48 << 10
#: What a loop may say to OpenMP.
_PRAGMA = re.compile(
    r"omp\s+(?:simd|parallel\s+for(?:\s+schedule\(\s*static\s*\)|\s+num_threads\(\s*threads\s*\))*)\s*$"
)
#: Words of C++ and GNU C that C has no use for.
_FOREIGN = frozenset({
    "alignas", "alignof", "and", "asm", "auto", "bitand", "bitor", "bool", "catch", "char16_t",
    "char32_t", "class", "compl", "concept", "constexpr", "const_cast", "decltype", "delete",
    "dynamic_cast", "explicit", "export", "false", "final", "friend", "linux", "mutable",
    "namespace", "new", "noexcept", "not", "nullptr", "operator", "or", "override", "private",
    "protected", "public", "reinterpret_cast", "requires", "static_assert", "static_cast",
    "template", "this", "thread_local", "throw", "true", "try", "typeid", "typename", "typeof",
    "unix", "using", "virtual", "wchar_t", "xor", "warpSize",
})  # fmt: skip
_AXES = {"threadIdx": "lz_thread_x", "blockIdx": "lz_block_x", "blockDim": "lz_threads_x",
         "gridDim": "lz_blocks_x"}  # fmt: skip
_WORDS_OF_CUDA = {
    "__global__": "          ", "__device__": "          ", "__restrict__": "restrict    ",
    "__forceinline__": "               ", "__shared__": "register  ", 'extern "C"': "          ",
}  # fmt: skip
_DERIVED = {"=": "", "+=": "+", "-=": "-", "*=": "*", "/=": "/", "%=": "%", "&=": "&", "|=": "|",
            "^=": "^", "<<=": "<<", ">>=": ">>"}  # fmt: skip


#: Divisions by numbers that may be 0, whose quotient is then 0 and whose rest the dividend, or -1.
_DIVISIONS = {
    "quotient_i64": "LZ_FN lz_i64 lz_own_quotient_i64(lz_i64 a, lz_i64 b) "
    "{ return b == 0 ? 0 : b == -1 ? -a : a / b; }\n",
    "rest_i64": "LZ_FN lz_i64 lz_own_rest_i64(lz_i64 a, lz_i64 b) "
    "{ return b == 0 ? a : b == -1 ? 0 : a % b; }\n",
    "quotient_u64": "LZ_FN lz_u64 lz_own_quotient_u64(lz_u64 a, lz_u64 b) "
    "{ return b == 0 ? 0 : a / b; }\n",
    "rest_u64": "LZ_FN lz_u64 lz_own_rest_u64(lz_u64 a, lz_u64 b) { return b == 0 ? a : a % b; }\n",
}


class Parameter(NamedTuple):
    """One parameter of a kernel.

    Attributes:
        name: what it is called.
        kind: ``in`` and ``out`` for pointers, ``size`` for a whole number, ``number`` for a float,
            ``threads`` for the number of threads.
        dtype: of the elements, or of the number.
    """

    name: str
    kind: str
    dtype: DType


@dataclass(frozen=True)
class Pointer:
    """The type of a pointer, or of a local array (``extents``)."""

    dtype: DType
    const: bool
    extents: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Name:
    """What a name stands for, whether it is declared in a loop that threads share, and whether it
    may not change."""

    kind: DType | Pointer
    depth: int
    const: bool = False


Typed = tuple[Any, DType | Pointer]


class Kernel:
    """A kernel that was read.

    Args:
        text: C, or CUDA C.
        cuda: which of them.
        trust: whether pointers may be used in ways of which nothing can be proved.

    Attributes:
        source: the text, for messages.
        name: what the kernel is called: the last function of the text.
        parameters: its parameters.
        text: what is compiled: the functions, with names of their own.
        function: the name of the kernel in it.
        used: the functions of the prelude that it calls.
        shared_bytes: of the arrays that a block shares.
        collective: whether threads wait for each other.

    Raises SourceError for what no kernel may do.
    """

    def __init__(self, text: str, cuda: bool = False, trust: bool = False) -> None:
        self.source = Source(text, True, _WORDS_OF_CUDA if cuda else {})
        self.name = self.source.entry.decl.name
        self.cuda, self.trust = cuda, trust
        made = _Rewriter(self.source, cuda, trust, False)
        trees = made.functions()
        self.parameters = made.parameters
        self.used = tuple(sorted(made.used))
        self.shared_bytes = made.shared_bytes
        # With shared memory and no barrier there is a race, which the emulator finds with fibers.
        self.collective = made.collective or made.shared_bytes > 0
        division = "".join(_DIVISIONS[name] for name in sorted(made.divisions))
        plain = "\n".join([division, *(ct.text(tree) for tree in trees)])
        digest = hashlib.sha256(plain.encode()).hexdigest()[:10]
        word = re.sub(r"\W", "_", self.name)[:40]
        self.function = f"lz_own_{word}_{digest}"
        every = (*self.source.functions, *_DIVISIONS)
        names = {f"lz_own_{name}": f"lz_own_{name}_{digest}" for name in every}
        for tree in trees:
            _rename(tree, names)
        parts = [_signed(tree, cuda) for tree in trees]
        for old, new in names.items():
            division = division.replace(f"{old}(", f"{new}(")
        self.text = f"// {self.name}: a kernel of the user's\n{division}{''.join(parts)}"

    def proof(self, sizes: dict[str, int], blocks: int = 1, threads: int = 1) -> Any:
        """The kernel as a function ``void proof(char *b0_, ..., int lz_threads)`` with known sizes,
        as ``check_c`` reads it; lines are those of the text."""
        made = _Rewriter(self.source, self.cuda, self.trust, True)
        body = made.functions()[-1].body
        declared: list[Any] = []
        pointers: list[tuple[str, str]] = []
        for item in self.parameters:
            if item.kind in ("in", "out"):
                place = f"b{len(pointers)}_"
                pointers.append(("char *", place))
                kind, const = f"lz_{item.dtype.suffix}", item.kind == "in"
                value = ct.cast_pointer(kind, ct.name(place), const)
                declared.append(ct.declare_pointer(kind, item.name, value, const))
            elif item.kind == "size":
                known = ct.integer(sizes[item.name])
                declared.append(ct.declare("lz_i64", item.name, known, const=True))
            elif item.kind == "number":
                declared.append(ct.declare(f"lz_{item.dtype.suffix}", item.name, ct.literal("0.5")))
            else:
                declared.append(ct.declare("lz_i64", item.name, ct.name("lz_threads")))
        if self.cuda:
            for name, extent in (("lz_threads_x", threads), ("lz_blocks_x", blocks)):
                declared.append(ct.declare("lz_i64", name, ct.integer(extent), const=True))
            body = ct.loop("lz_thread_x", ct.integer(0), ct.integer(threads), [body])
            body = ct.loop("lz_block_x", ct.integer(0), ct.integer(blocks), [body])
        return ct.function("proof", [*pointers, ("int", "lz_threads")], [*declared, body])


def _signed(tree: Any, cuda: bool) -> str:
    """A function as text, with what it is for compilers."""
    return ("LZ_FN " if cuda else "static ") + ct.text(tree)


def _rename(tree: Any, names: dict[str, str]) -> None:
    work = [tree]
    while work:
        node = work.pop()
        for place in ("name", "declname"):
            if getattr(node, place, None) in names and isinstance(
                node, (c_ast.ID, c_ast.Decl, c_ast.TypeDecl)
            ):
                setattr(node, place, names[getattr(node, place)])
        work.extend(child for _, child in node.children())


@dataclass
class _Rewriter:
    """One walk over a text, which checks it and makes the trees that are printed.

    ``proof``: the trees are for the proof, which knows arrays of a block as local ones.
    """

    source: Source
    cuda: bool
    trust: bool
    proof: bool
    parameters: tuple[Parameter, ...] = ()
    used: set[str] = field(default_factory=set)
    divisions: set[str] = field(default_factory=set)
    scopes: list[dict[str, _Name]] = field(default_factory=list)
    done: dict[str, tuple[tuple[DType | Pointer, ...], DType | None]] = field(default_factory=dict)
    local_bytes: int = 0
    shared_bytes: int = 0
    collective: bool = False
    depth: int = 0
    loops: int = 0
    result: DType | None = None
    is_entry: bool = False

    def __post_init__(self) -> None:
        self.types = Types(self.source, None)

    def fail(self, what: str, node: Any = None) -> NoReturn:
        """Raise SourceError about a node."""
        self.source.fail(what, node)

    # ----------------------------------------------------------- functions

    def functions(self) -> list[Any]:
        """All functions of the text, the kernel last."""
        return [self._function(item) for item in self.source.functions.values()]

    def _function(self, function: c_ast.FuncDef) -> Any:
        name = function.decl.name
        self.is_entry = function is self.source.entry
        kind = function.decl.type.type
        is_void = getattr(getattr(kind, "type", None), "names", None) == ["void"]
        self.result = None if is_void else self.types.scalar(kind, f"what {name} returns")
        if self.is_entry and self.result is not None:
            self.fail(f"{name} is a kernel, which returns nothing (void)", function)
        if not self.is_entry and is_void and not self.trust:
            self.fail(f"{name}: a helper gives a number; only the last function is void", function)
        self.scopes = [{}]
        declared, kinds = self._declared(function)
        body = self._block(function.body)
        if self.is_entry and not self.trust:
            results = (item.name for item in self.parameters if item.kind == "out")
            unwritten = never_written(function.body, results)
            if unwritten is not None:
                what = "a result has no values before the kernel writes them, and nothing does"
                self.fail(f"{what}: begin with =", unwritten)
            if self.cuda:
                self._check_race(function.body, None)
        self.done[name] = kinds, self.result
        out = "void" if self.result is None else _held(self.result)
        made = ct.function(f"lz_own_{name}", (), ())
        signature = made.decl.type
        signature.args = c_ast.ParamList(declared)
        signature.type.type.names = [out]
        made.body = body
        return made

    def _declared(self, function: c_ast.FuncDef) -> tuple[list[Any], tuple[Any, ...]]:
        """Parameters of a function as they are printed, and their types."""
        declared: list[Any] = []
        found: list[Parameter] = []
        for item in self.source.parameters(function):
            self._check_name(item, item.name)
            kind = self._kind(item)
            if isinstance(kind, Pointer):
                if not self.is_entry and not self.trust:
                    self.fail(f"{item.name}: helpers take numbers only, no pointers", item)
                made = ct.declare_pointer(f"lz_{kind.dtype.suffix}", item.name, None, kind.const)
                if not self.is_entry:
                    made.type.quals = []
                found.append(Parameter(item.name, "in" if kind.const else "out", kind.dtype))
            else:
                made = ct.declare(_held(kind), item.name)
                word = "number" if kind.kind == "f" else "size"
                if word == "size" and item.name == "threads":
                    word = "threads"
                if self.is_entry and word != "number" and kind not in (int32, int64):
                    self.fail(f"{item.name}: a size is int, long or size_t", item)
                found.append(Parameter(item.name, word, kind))
            self.scopes[0][item.name] = _Name(kind, 0, _is_const(item))
            declared.append(made)
        if self.is_entry:
            self.parameters = tuple(found)
            if not any(item.kind == "out" for item in found):
                what = "a kernel writes to a pointer that is not const; there is none"
                self.fail(what, function)
            words = [("int", "lz_threads")]
            if self.cuda:
                words = [("lz_i64", name) for name in _AXES.values()]
            declared += [ct.declare(kind, name) for kind, name in words]
        return declared, tuple(self.scopes[0][item.name].kind for item in found)

    def _check_name(self, node: Any, name: str) -> None:
        self.source.check_name(node, name)
        if name in _FOREIGN:
            self.fail(f"{name} is a word of other dialects; take another name", node)

    def _kind(self, node: c_ast.Decl) -> DType | Pointer:
        """The type of a parameter or a local variable that is no array."""
        declared = node.type
        if isinstance(declared, c_ast.ArrayDecl):
            self.fail(f"{node.name}: write a parameter that is an array as a pointer", node)
        if not isinstance(declared, c_ast.PtrDecl):
            return self._number(declared, node)
        for word in declared.quals or ():
            if word not in ("restrict", "const"):
                self.fail(f"{node.name}: {word} has no meaning here", node)
        inner = declared.type
        if isinstance(inner, c_ast.PtrDecl):
            self.fail(f"{node.name}: pointers to pointers have no meaning here", node)
        const = "const" in (getattr(inner, "quals", None) or ())
        return Pointer(self.types.scalar(inner, "an element"), const)

    def _number(self, declared: Any, node: Any) -> DType:
        names = getattr(getattr(declared, "type", None), "names", None)
        found = self.types.scalar(declared, f"{node.name}")
        return int64 if names == ["size_t"] else found

    # ---------------------------------------------------------- statements

    def _block(self, node: Any) -> Any:
        """A compound statement, or one statement as such."""
        items = node.block_items or () if isinstance(node, c_ast.Compound) else (node,)
        self.scopes.append({})
        made: list[Any] = []
        team = False
        for number, item in enumerate(items):
            if isinstance(item, c_ast.Pragma):
                after = items[number + 1] if number + 1 < len(items) else None
                team = self._pragma(item, after)
                made.append(_at(ct.pragma(self._team(item)), item))
                continue
            made += self._statement(item, team)
            team = False
        self.scopes.pop()
        return _at(ct.block(made), node)

    def _team(self, item: c_ast.Pragma) -> str:
        if "parallel" not in item.string:
            return "omp simd"
        return "omp parallel for num_threads(lz_threads)"

    def _pragma(self, item: c_ast.Pragma, after: Any) -> bool:
        """Whether what follows is shared by threads."""
        if self.cuda or not _PRAGMA.match(item.string):
            what = "only `omp parallel for` and `omp simd` are known, without further words"
            self.fail(f"pragma {item.string}: {what}", item)
        if not isinstance(after, c_ast.For):
            self.fail("a pragma stands before a for loop", item)
        head: list[Any] = after.init.decls if isinstance(after.init, c_ast.DeclList) else []
        counts = len(head) == 1 and head[0].init is not None
        if not counts or not isinstance(after.cond, c_ast.BinaryOp):
            self.fail("such a loop counts: for (long i = 0; i < n; i++)", after)
        for inner in walk(after.stmt):
            changed = inner.lvalue if isinstance(inner, c_ast.Assignment) else None
            if isinstance(inner, c_ast.UnaryOp) and inner.op in ("++", "--", "p++", "p--"):
                changed = inner.expr
            if isinstance(changed, c_ast.ID) and changed.name == head[0].name:
                self.fail(f"{changed.name} counts the turns, and changes between them only", inner)
        parallel = "parallel" in item.string
        if parallel and (self.depth or not self.is_entry):
            self.fail("threads share the outermost loop of the kernel only", item)
        for inner in _leaving(after.stmt):
            self.fail("nothing leaves a loop that threads share", inner)
        if parallel:
            self._check_race(after.stmt, head[0].name)
        return parallel

    def _check_race(self, body: Any, loop: str | None) -> None:
        """Fail where all turns of a shared loop, or all threads of CUDA, write to one element."""
        pointers = (
            name for scope in self.scopes for name, known in scope.items()
            if isinstance(known.kind, Pointer) and not known.kind.extents
        )  # fmt: skip
        found = None if self.trust else same_element(body, pointers, loop)
        if found is not None:
            every = "all threads write" if loop is None else f"every turn of {loop} writes"
            what = "to this element, and nothing says in which order; sum in a variable"
            self.fail(f"{every} {what}", found)

    def _statement(self, node: Any, team: bool = False) -> list[Any]:
        """The statements that a statement becomes."""
        if node is None or isinstance(node, c_ast.EmptyStatement):
            return []
        if isinstance(node, c_ast.Compound):
            return [self._block(node)]
        if isinstance(node, c_ast.Decl):
            return self._declare(node)
        if isinstance(node, c_ast.DeclList):
            return [made for item in node.decls for made in self._declare(item)]
        if isinstance(node, c_ast.If):
            condition = self._condition(node.cond)
            yes = self._block(node.iftrue)
            no = None if node.iffalse is None else self._block(node.iffalse)
            return [_at(c_ast.If(condition, yes, no), node)]
        if isinstance(node, c_ast.For):
            return [self._for(node, team)]
        if isinstance(node, (c_ast.While, c_ast.DoWhile)):
            if isinstance(node, c_ast.DoWhile) and not self.trust:
                self.source.refuse(node, "nothing is proved about it; write while or for")
            condition = self._condition(node.cond)
            self.loops += 1
            body = self._block(node.stmt)
            self.loops -= 1
            return [_at(type(node)(condition, body), node)]
        if isinstance(node, (c_ast.Break, c_ast.Continue)):
            if not self.loops:
                self.source.refuse(node, "it stands in no loop")
            return [_at(type(node)(), node)]
        if isinstance(node, c_ast.Return):
            return [self._return(node)]
        if isinstance(node, (c_ast.Switch, c_ast.Goto, c_ast.Label, c_ast.Case, c_ast.Default)):
            self.source.refuse(node, "a kernel has if and loops only")
        return [self._effect(node)]

    def _return(self, node: c_ast.Return) -> Any:
        if self.depth:
            self.fail("nothing leaves a loop that threads share", node)
        if self.result is None:
            if node.expr is not None:
                self.fail("a void function returns nothing", node)
            return _at(c_ast.Return(None), node)
        if node.expr is None:
            self.fail("return needs a value", node)
        return _at(c_ast.Return(self._as(self.value(node.expr), self.result, node)), node)

    def _for(self, node: c_ast.For, team: bool) -> Any:
        if node.cond is None and not self.trust:
            self.fail("the loop has no condition, so that it has no end", node)
        self.scopes.append({})
        # The counter of a shared loop is every thread's own.
        self.depth += team
        init = node.init
        if isinstance(init, c_ast.DeclList):
            made = [item for one in init.decls for item in self._declare(one)]
            init = _at(c_ast.DeclList(made), node.init)
        elif init is not None:
            init = self._effects(init)
        condition = None if node.cond is None else self._condition(node.cond)
        step = None if node.next is None else self._effects(node.next)
        self.loops += 1
        body = self._block(node.stmt)
        self.loops -= 1
        self.depth -= team
        self.scopes.pop()
        return _at(c_ast.For(init, condition, step, body), node)

    def _effects(self, node: Any) -> Any:
        """What begins a loop, or ends its turns: assignments, several with commas between them."""
        if isinstance(node, c_ast.ExprList):
            return _at(c_ast.ExprList([self._effect(item) for item in node.exprs]), node)
        return self._effect(node)

    def _declare(self, node: c_ast.Decl) -> list[Any]:
        self._check_name(node, node.name)
        shared = self.cuda and "register" in node.storage
        for word in (*node.storage, *node.funcspec):
            if not (shared and word == "register"):
                self.fail(f"{word}: local variables are plain", node)
        if node.name in self.scopes[-1]:
            self.fail(f"{node.name} is declared twice", node)
        const = _is_const(node)
        kind: DType | Pointer
        if isinstance(node.type, c_ast.ArrayDecl):
            made, kind = self._array(node, shared)
        elif shared:
            self.fail(f"{node.name}: what a block shares is an array", node)
        else:
            kind = self._kind(node)
            made = self._variable(node, kind)
        self.scopes[-1][node.name] = _Name(kind, self.depth, const)
        return [_at(made, node)]

    def _variable(self, node: c_ast.Decl, kind: DType | Pointer) -> Any:
        if isinstance(node.init, c_ast.InitList):
            self.source.refuse(node.init, "a variable takes one value")
        if isinstance(kind, Pointer):
            if node.init is None:
                self.fail(f"{node.name}: a pointer points somewhere from the beginning", node)
            value, given = self.value(node.init)
            if not isinstance(given, Pointer) or given.dtype is not kind.dtype:
                self.fail(f"{node.name} points to other elements than {_c_name(kind.dtype)}", node)
            if given.const and not kind.const:
                self.fail(f"{node.name} is no const pointer, but points to what is const", node)
            made = ct.declare_pointer(f"lz_{kind.dtype.suffix}", node.name, value, kind.const)
            made.type.quals = []
            return made
        value = ct.integer(0)
        if node.init is not None:
            value = self._as(self.value(node.init), kind, node)
        return ct.declare(_held(kind), node.name, value)

    def _array(self, node: c_ast.Decl, shared: bool) -> tuple[Any, Pointer]:
        extents: list[int] = []
        inner = node.type
        while isinstance(inner, c_ast.ArrayDecl):
            extent = inner.dim
            if extent is None and not extents and isinstance(node.init, c_ast.InitList):
                extents.append(len(node.init.exprs))
            elif not isinstance(extent, c_ast.Constant) or extent.type.endswith(
                ("float", "double")
            ):
                self.fail(f"{node.name}: the size of a local array is a number in the text", node)
            else:
                extents.append(int(self.types.literal(extent)[0]))
            inner = inner.type
        dtype = self.types.scalar(inner, "an element")
        size = dtype.itemsize
        for extent in extents:
            size *= extent
        if min(extents) < 1 or size > (MOST_SHARED if shared else MOST_LOCAL):
            self.fail(f"{node.name}: an array of {size} bytes", node)
        kind = Pointer(dtype, False, tuple(extents))
        if shared:
            return self._shared(node, kind, size), kind
        self.local_bytes += size
        if self.local_bytes > MOST_LOCAL:
            self.fail(f"the local arrays have more than {MOST_LOCAL} bytes together", node)
        made = ct.declare_array(f"lz_{dtype.suffix}", node.name, extents)
        values: list[Any] = []
        if node.init is not None:
            if not isinstance(node.init, c_ast.InitList) or len(extents) > 1:
                self.fail(f"{node.name}: only arrays of one axis have a list of values", node)
            if len(node.init.exprs) > extents[0]:
                self.fail(f"{node.name}: more values than elements", node)
            values = [self._as(self.value(v), dtype, v) for v in node.init.exprs]
        if not self.proof:
            made.init = c_ast.InitList(values or [ct.integer(0)])
        return made, kind

    def _shared(self, node: c_ast.Decl, kind: Pointer, size: int) -> Any:
        if len(kind.extents) > 1 or node.init is not None:
            self.fail(f"{node.name}: what a block shares has one axis, and no values yet", node)
        if len(self.scopes) > 2 or not self.is_entry:
            self.fail(f"{node.name}: what a block shares is declared outside of loops", node)
        offset = -(-self.shared_bytes // 16) * 16
        self.shared_bytes = offset + size
        if self.shared_bytes > MOST_SHARED:
            self.fail(f"what a block shares has more than {MOST_SHARED} bytes", node)
        suffix = kind.dtype.suffix
        if self.proof:
            return ct.declare_array(f"lz_{suffix}", node.name, kind.extents)
        taken = ct.call(
            f"lz_take_shared_{suffix}", (ct.integer(offset), ct.integer(kind.extents[0]))
        )
        return ct.declare(f"lz_shared_{suffix}", node.name, taken)

    def _effect(self, node: Any) -> Any:
        """A statement that changes something."""
        if isinstance(node, c_ast.Assignment):
            return self._assign(node, node.op, node.lvalue, node.rvalue)
        if isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--"):
            one = _at(c_ast.Constant("int", "1"), node)
            return self._assign(node, f"{node.op[-1]}=", node.expr, one)
        if isinstance(node, c_ast.FuncCall):
            name = getattr(node.name, "name", "")
            if self.cuda and name in ("__syncthreads", "__syncwarp"):
                if node.args is not None or not self.is_entry:
                    self.fail(f"{name}() stands in the kernel itself, without arguments", node)
                self.collective = True
                word = "lz_sync_block" if name == "__syncthreads" else "lz_sync_warp"
                return _at(ct.call(word, ()), node)
            own = self.done.get(name)
            if own is not None and own[1] is None:
                return self._own_call(node, name, own)[0]
            if self.cuda and name.startswith("atomic"):
                what = "sum within a block, write an element for each, and sum these"
                self.fail(f"{name}: what comes first would be left to chance; {what}", node)
            if own is None:
                self._call(node)  # which says what is wrong with it
        self.fail("the statement has no effect", node)

    def _assign(self, node: Any, op: str, target: Any, given: Any) -> Any:
        place, kind = self._target(target)
        value = self.value(given)
        if isinstance(kind, Pointer):
            if not self.trust or kind.extents:
                self.fail("a pointer that changes: write its element with an index", node)
            return _at(ct.assign(place, value[0], op), node)
        word = _DERIVED[op]
        shared = self.cuda and isinstance(target, c_ast.ArrayRef)  # the emulator counts accesses
        if word and (shared or kind.kind == "u" or word not in "+-*/"):
            value = self._binary(node, word, self.value(target), value)
            op = "="
        elif word:
            self._binary(node, word, (place, kind), value)  # for its checks
            if kind.kind != "f" and isinstance(value[1], DType) and value[1].kind == "f":
                value = self._binary(node, word, self.value(target), value)
                op = "="
        return _at(ct.assign(place, self._as(value, kind, node), op), node)

    def _target(self, node: Any) -> Typed:
        """What is assigned to."""
        base = node
        while isinstance(base, c_ast.ArrayRef):
            base = base.name
        if self.trust and isinstance(base, c_ast.UnaryOp) and base.op == "*":
            return self.value(node)
        if not isinstance(base, c_ast.ID):
            self.fail("only variables and elements are assigned to", node)
        known = self._find(base)
        if base is node and known.const:
            self.fail(f"{base.name} is const", node)
        if base is not node and isinstance(known.kind, Pointer) and known.kind.const:
            self.fail(f"{base.name} is a const pointer: its elements are read only", node)
        outer = isinstance(known.kind, Pointer) and not known.kind.extents and base is not node
        if known.depth < self.depth and not outer:
            what = "it is declared outside of a loop whose turns run at the same time"
            self.fail(f"{base.name} is shared by threads: {what}", node)
        return self.value(node)

    # --------------------------------------------------------- expressions

    def _find(self, node: c_ast.ID) -> _Name:
        for scope in reversed(self.scopes):
            if node.name in scope:
                return scope[node.name]
        self.fail(f"{node.name} is not declared", node)

    def _condition(self, node: Any) -> Any:
        value, kind = self.value(node)
        if isinstance(kind, Pointer):
            self.fail("a pointer is no condition", node)
        return value

    def value(self, node: Any) -> Typed:
        """An expression, and its type in C."""
        made, kind = self._value(node)
        return _at(made, node), kind

    def _value(self, node: Any) -> Typed:
        if isinstance(node, c_ast.Constant):
            return self._literal(node)
        if isinstance(node, c_ast.ID):
            return self._name(node)
        if isinstance(node, c_ast.BinaryOp):
            return self._binary(node, node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, c_ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, c_ast.TernaryOp):
            condition = self._condition(node.cond)
            yes, no = self.value(node.iftrue), self.value(node.iffalse)
            dtype = common(self._plain(yes, node), self._plain(no, node))
            ways = self._as(yes, dtype, node, False), self._as(no, dtype, node, False)
            return ct.choose(condition, *ways), dtype
        if isinstance(node, c_ast.Cast):
            if isinstance(node.to_type.type, c_ast.PtrDecl):
                self.fail("a pointer keeps its type", node)
            names = getattr(getattr(node.to_type.type, "type", None), "names", None)
            dtype = self.types.scalar(node.to_type.type, "what is cast")
            if names == ["size_t"]:
                dtype = int64
            return self._as(self.value(node.expr), dtype, node), dtype
        if isinstance(node, c_ast.ArrayRef):
            return self._element(node)
        if isinstance(node, c_ast.FuncCall):
            return self._call(node)
        if isinstance(node, c_ast.StructRef):
            return self._axis(node)
        if isinstance(node, c_ast.Assignment):
            self.fail("an assignment is a statement of its own", node)
        self.source.refuse(node, "it has no meaning in a kernel")

    def _plain(self, typed: Typed, node: Any) -> DType:
        if isinstance(typed[1], Pointer):
            self.fail("a pointer where a number is needed", node)
        return typed[1]

    def _literal(self, node: c_ast.Constant) -> Typed:
        value, dtype = self.types.literal(node)
        if dtype.kind == "f":
            return c_ast.Constant("float", node.value), dtype
        if dtype.kind == "u":
            return ct.cast(f"lz_{dtype.suffix}", c_ast.Constant("int", f"{value}ull")), dtype
        # With 64 bits as everything signed: what fits them cannot wrap around.
        return c_ast.Constant("int", f"{value}LL"), dtype

    def _name(self, node: c_ast.ID) -> Typed:
        if not any(node.name in scope for scope in self.scopes) and node.name in types.CONSTANTS:
            value, dtype = types.CONSTANTS[node.name]
            if dtype.kind != "f":
                small = ct.binary("-", ct.integer(int(value) + 1), ct.integer(1))
                return ct.cast("lz_i64", small), dtype
            mark = "F32" if dtype is float32 else "F64"
            if value != value or value in (float("inf"), float("-inf")):
                return ct.name(f"LZ_{'NAN' if value != value else 'INF'}_{mark}"), dtype
            return ct.literal(f"{value!r}{'f' if dtype is float32 else ''}"), dtype
        known = self._find(node)
        return ct.name(node.name), known.kind

    def _axis(self, node: c_ast.StructRef) -> Typed:
        """``threadIdx.x`` and the like."""
        name = getattr(node.name, "name", "")
        if not self.cuda or name not in _AXES or node.type != ".":
            self.source.refuse(node, "it has no meaning in a kernel")
        if node.field.name != "x":
            self.fail(f"{name}.{node.field.name}: grids and blocks have one axis, x", node)
        if not self.is_entry:
            self.fail(f"{name} is known in the kernel itself only", node)
        return ct.name(_AXES[name]), int32

    def _element(self, node: c_ast.ArrayRef) -> Typed:
        indices: list[Any] = []
        base = node
        while isinstance(base, c_ast.ArrayRef):
            index, kind = self.value(base.subscript)
            if isinstance(kind, Pointer) or kind.kind == "f":
                self.fail("an index is a whole number", base.subscript)
            indices.insert(0, index)
            base = base.name
        value, kind = self.value(base)
        if not isinstance(kind, Pointer) or len(indices) != max(1, len(kind.extents)):
            self.fail("an access to something that is no array of this rank", node)
        for index in indices:
            value = c_ast.ArrayRef(value, index)
        return value, kind.dtype

    def _unary(self, node: c_ast.UnaryOp) -> Typed:
        if node.op in ("++", "--", "p++", "p--"):
            self.fail(f"{node.op[-2:]} is a statement of its own", node)
        if node.op in ("*", "&"):
            return self._through(node)
        if node.op not in ("-", "+", "!", "~"):
            self.fail(f"{node.op} has no meaning here", node)
        value, kind = self.value(node.expr)
        dtype = self._plain((value, kind), node)
        if node.op == "!":
            return ct.unary("!", value), int32
        if node.op == "~" and dtype.kind == "f":
            self.fail("~ of a float", node)
        return ct.unary(node.op, self._as((value, dtype), promoted(dtype), node)), promoted(dtype)

    def _through(self, node: c_ast.UnaryOp) -> Typed:
        if not self.trust:
            self.fail(f"{node.op}: nothing is proved about it; write elements with an index", node)
        value, kind = self.value(node.expr)
        if node.op == "*":
            if not isinstance(kind, Pointer):
                self.fail("* of something that is no pointer", node)
            return ct.unary("*", value), kind.dtype
        if isinstance(kind, Pointer) or not isinstance(node.expr, c_ast.ArrayRef):
            self.fail("& of something that is no element", node)
        base = self.value(node.expr.name)[1]
        const = isinstance(base, Pointer) and base.const
        return ct.unary("&", value), Pointer(kind, const)

    def _binary(self, node: Any, op: str, left: Typed, right: Typed) -> Typed:
        if isinstance(left[1], Pointer) or isinstance(right[1], Pointer):
            return self._moved(node, op, left, right)
        if op in ("&&", "||"):
            return ct.binary(op, left[0], right[0]), int32
        if op in ("<<", ">>"):
            dtype = promoted(left[1])
        else:
            dtype = common(left[1], right[1])
        floats = "f" in (left[1].kind, right[1].kind)
        if floats and op in ("%", "&", "|", "^", "<<", ">>"):
            self.fail(f"{op} of a float", node)
        if op in ("<<", ">>"):
            values = self._as(left, dtype, node), self._as(right, int64, node)
        else:
            values = self._as(left, dtype, node, False), self._as(right, dtype, node, False)
        if op in ("/", "%") and dtype.kind != "f" and not self.proof:
            made = self._divided(op, dtype, values)
        elif op in ("<<", ">>"):
            most = ct.integer(31 if dtype is uint32 else 63)
            made = ct.binary(op, values[0], ct.binary("&", values[1], most))
        else:
            made = ct.binary(op, *values)
        made = _at(made, node)
        return made, int32 if op in ("==", "!=", "<", "<=", ">", ">=") else dtype

    def _divided(self, op: str, dtype: DType, values: tuple[Any, Any]) -> Any:
        """A division of whole numbers, which does not end the process where the divisor is 0."""
        divisor = values[1]
        if isinstance(divisor, c_ast.Constant) and int(divisor.value.rstrip("uLl"), 0) > 0:
            return ct.binary(op, *values)
        name = f"{'quotient' if op == '/' else 'rest'}_{'u64' if dtype.kind == 'u' else 'i64'}"
        self.divisions.add(name)
        return ct.call(f"lz_own_{name}", values)

    def _moved(self, node: Any, op: str, left: Typed, right: Typed) -> Typed:
        """A pointer some elements further."""
        pointer, distance = left[1], right[1]
        whole = isinstance(distance, DType) and distance.kind != "f"
        known = op == "+" or (self.trust and op == "-")
        if not isinstance(pointer, Pointer) or not whole or not known or pointer.extents:
            self.fail("of pointers, only `pointer + number` is known", node)
        return _at(ct.binary(op, left[0], right[0]), node), pointer

    def _as(self, typed: Typed, dtype: DType, node: Any, cuts: bool = True) -> Any:
        """A value converted to a type. ``cuts``: a signed one also loses bits beyond the type."""
        value, given = typed
        if isinstance(given, Pointer):
            self.fail("a pointer where a number is needed", node)
        if given is dtype or dtype.kind == "f":
            return value
        if given.kind == "f" and dtype is not bool_:
            name = f"lz_cast_{given.suffix}_{dtype.suffix}"
            self.used.add(name)
            made = ct.call(name, (value,))
            return _at(ct.cast("lz_i64", made) if dtype.kind == "i" else made, node)
        if dtype is bool_:
            return _at(ct.binary("!=", value, ct.integer(0)), node)
        if dtype.kind == "u":
            return _at(ct.cast(f"lz_{dtype.suffix}", value), node)
        if dtype is int32 and isinstance(node, c_ast.Cast) and cuts:
            return _at(ct.cast("lz_i64", ct.cast("int", value)), node)
        if given in (uint32, uint64):
            return _at(ct.cast("lz_i64", value), node)
        return value

    # --------------------------------------------------------------- calls

    def _call(self, node: c_ast.FuncCall) -> Typed:
        if not isinstance(node.name, c_ast.ID):
            self.fail("functions are called by their names", node)
        name = node.name.name
        own = self.done.get(name)
        if own is not None:
            made, kind = self._own_call(node, name, own)
            if kind is None:
                self.fail(f"{name} gives no value", node)
            return made, kind
        if name in self.source.functions:
            self.fail(f"{name} is called before its end: functions call those above them", node)
        given = [self.value(item) for item in (node.args.exprs if node.args else ())]
        if name in types.TESTS:
            self._count(node, name, given, 1)
            dtype = self._plain(given[0], node)
            suffix = "f32" if dtype is float32 else "f64"
            return self._prelude(f"{name}_{suffix}", [given[0][0]]), int32
        if name in ("abs", "labs", "llabs"):
            self._count(node, name, given, 1)
            wide = int32 if name == "abs" else int64
            return self._prelude("abs_i64", [self._as(given[0], wide, node)]), wide
        base, dtype = name, float64
        if base not in types.FUNCTIONS and base.endswith("f"):
            base, dtype = base[:-1], float32
        if base not in types.FUNCTIONS:
            what = f"{name} is no function of the text, and none of math.h that lazyt has"
            self.fail(what, node)
        own_name, arity = types.FUNCTIONS[base]
        self._count(node, name, given, arity)
        values = [self._as(item, dtype, node) for item in given]
        return self._prelude(f"{own_name}_{dtype.suffix}", values), dtype

    def _prelude(self, name: str, values: Sequence[Any]) -> Any:
        self.used.add(f"lz_{name}")
        return ct.call(f"lz_{name}", values)

    def _own_call(self, node: Any, name: str, own: Any) -> tuple[Any, DType | None]:
        kinds, result = own
        given = [self.value(item) for item in (node.args.exprs if node.args else ())]
        self._count(node, name, given, len(kinds))
        values: list[Any] = []
        for item, kind in zip(given, kinds):
            if isinstance(kind, Pointer):
                found = item[1]
                if not isinstance(found, Pointer) or found.dtype is not kind.dtype:
                    self.fail(f"{name} takes a pointer to {_c_name(kind.dtype)}", node)
                if found.const and not kind.const:
                    self.fail(f"{name} writes to what is const", node)
                values.append(item[0])
            else:
                values.append(self._as(item, kind, node))
        return _at(ct.call(f"lz_own_{name}", values), node), result

    def _count(self, node: Any, name: str, given: Sequence[Any], wanted: int) -> None:
        if len(given) != wanted:
            what = "argument" if wanted == 1 else "arguments"
            self.fail(f"{name} takes {wanted} {what}, not {len(given)}", node)


def _held(dtype: DType) -> str:
    """The type that a variable has: signed whole numbers of C's arithmetic have 64 bits."""
    return "lz_i64" if dtype in (int32, int64) else f"lz_{dtype.suffix}"


def _is_const(node: c_ast.Decl) -> bool:
    """Whether a variable may not change; what a pointer points to is another matter."""
    if isinstance(node.type, c_ast.PtrDecl):
        return "const" in (node.type.quals or ())
    return "const" in (node.quals or ())


def _c_name(dtype: DType) -> str:
    return types.NAMES.get(dtype, dtype.name)


def _at(made: Any, node: Any) -> Any:
    """A new node, at the place of an old one."""
    if made is not None and getattr(made, "coord", None) is None and node is not None:
        made.coord = node.coord
    return made


def _leaving(tree: Any) -> list[Any]:
    """What leaves a loop from inside of it: returns, and breaks of its own."""
    found: list[Any] = []
    work = [(tree, False)]
    while work:
        node, inner = work.pop()
        if isinstance(node, c_ast.Return) or (isinstance(node, c_ast.Break) and not inner):
            found.append(node)
        inner = inner or isinstance(node, (c_ast.For, c_ast.While, c_ast.DoWhile))
        work.extend((child, inner) for _, child in node.children())
    return found

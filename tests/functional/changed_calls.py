"""Sample calls with changed arguments: lazyt refuses and takes what PyTorch refuses and takes.

    python -m tests.functional.changed_calls --count 20000          compares
    PYTHON_WITH_TORCH -m tests.functional.changed_calls --record    writes changed_calls.xz anew

A program is a sample call (see ``samples``) with one argument changed: whole numbers become
NumPy's, 0-d tensors or objects with ``__index__``; numbers move out of range or become fractions,
texts or None; tuples grow or shrink; operands become others, of another rank, size or dtype;
arguments are left out or added. Recorded is, for each program, what catches the error that PyTorch
raises, or the dtypes and shapes of what it gives. Programs that PyTorch does not survive are left
out.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import io
import json
import lzma
import os
import random
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.functional.sample_values import DATA, FIXED
from tests.functional.samples import (
    BASES,
    Sample,
    all_samples,
    describe,
    has,
    perform,
    same_outcome,
)

FILE = Path(__file__).with_name("changed_calls.xz")
COUNT = 3000  # programs in the suite
OPERANDS = [*DATA, *FIXED]
GONE = "gone"  # what is noted of programs that PyTorch does not survive


class Index:
    """A whole number in another object."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        """The number."""
        return self._number


def _is_whole(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _named(function: str, node: ast.expr) -> ast.expr:
    return ast.Call(ast.parse(function, mode="eval").body, [node], [])


class _Places(ast.NodeVisitor):
    """Where a call may be changed: whole numbers, tuples and operands, each with its parent."""

    def __init__(self) -> None:
        self.numbers: list[tuple[Any, str, int]] = []
        self.tuples: list[Any] = []
        self.operands: list[Any] = []

    def generic_visit(self, node: ast.AST) -> None:
        """Look at what is below a node."""
        for field, value in ast.iter_fields(node):
            for at, item in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(item, ast.AST):
                    continue
                signed = isinstance(item, ast.UnaryOp) and _is_whole(item.operand)
                if _is_whole(item) or signed:
                    self.numbers.append((node, field, at if isinstance(value, list) else -1))
                    continue
                if isinstance(item, (ast.Tuple, ast.List)):
                    self.tuples.append(item)
                if isinstance(item, ast.Name) and item.id in OPERANDS:
                    self.operands.append(item)
                self.visit(item)


def _replaced(place: tuple[Any, str, int], change: Any) -> None:
    node, field, at = place
    if at < 0:
        setattr(node, field, change(getattr(node, field)))
    else:
        getattr(node, field)[at] = change(getattr(node, field)[at])


def _moved(chance: random.Random) -> Any:
    kind = chance.choice(("far", "near", "half", "float", "none", "text", "bool", "list"))
    if kind in ("far", "near"):
        by = chance.choice((-100, -7, 100, 7)) if kind == "far" else chance.choice((-2, -1, 1, 2))
        return lambda node: ast.BinOp(node, ast.Add(), ast.Constant(by))
    if kind == "half":
        return lambda node: ast.BinOp(node, ast.Add(), ast.Constant(0.5))
    if kind == "float":
        return lambda node: _named("float", node)
    if kind == "list":
        return lambda node: ast.List([node], ast.Load())
    constant = {"none": None, "text": "x", "bool": True}[kind]
    return lambda node: ast.Constant(constant)


_WHOLE = ("np.int64", "np.int32", "torch.tensor", "Index", "np.uint8")


def _change(call: ast.Call, chance: random.Random) -> str:
    """Changes a call; returns how, or nothing where there is nothing of that kind to change."""
    places = _Places()
    places.visit(call)
    kind = chance.choice(
        ("whole",) * 3 + ("number",) * 4 + ("tuple", "operand", "operand", "arguments")
    )
    if kind in ("whole", "number") and places.numbers:
        if kind == "whole":
            made = chance.choice(_WHOLE)
            change = lambda node: _named(made, node)  # noqa: E731
            if chance.random() < 0.4:
                for place in places.numbers:
                    _replaced(place, change)
                return kind
        else:
            change = _moved(chance)
        _replaced(chance.choice(places.numbers), change)
        return kind
    if kind == "tuple" and places.tuples:
        changed = chance.choice(places.tuples)
        if chance.random() < 0.5 and changed.elts:
            changed.elts.pop()
        else:
            changed.elts.append(ast.Constant(chance.choice((0, 1, 2))))
        return kind
    if kind == "operand" and places.operands:
        chance.choice(places.operands).id = chance.choice(OPERANDS)
        return kind
    if kind == "arguments":
        what = chance.choice(("drop", "extra", "keyword", "none"))
        if what == "drop" and call.args:
            call.args.pop(chance.randrange(len(call.args)))
        elif what == "extra":
            call.args.append(ast.Constant(chance.choice((1, 0.5, None))))
        elif what == "keyword":
            call.keywords.append(ast.keyword("nothing", ast.Constant(1)))
        elif call.args:
            call.args[chance.randrange(len(call.args))] = ast.Constant(None)
        return kind
    return ""


_KNOWN = json.loads((Path(__file__).parents[1] / "recorded" / "samples.json").read_bytes())
_RECORDED = set(json.loads(lzma.decompress(FILE.read_bytes()))["samples"])
ALL = [sample for sample in all_samples() if str(sample) in _KNOWN]  # that PyTorch has
#: Those that were there when programs were recorded: with one more all programs would be others.
SAMPLES = [sample for sample in ALL if str(sample) in _RECORDED]


def program(number: int) -> Sample:
    """A changed sample."""
    chance = random.Random(number)
    while True:
        sample = SAMPLES[chance.randrange(len(SAMPLES))]
        made = sample.place == "nn" and sample.made and chance.random() < 0.7
        text = sample.made if made else sample.text
        call: Any = copy.deepcopy(ast.parse(f"f({text})", mode="eval").body)
        if _change(call, chance):
            break
    text = ast.unparse(ast.fix_missing_locations(call))[2:-1]
    changed = (sample.text, text) if made else (text, sample.made)
    return Sample(sample.place, sample.name, *changed)


_OTHERS = re.compile(r"(?:np\.int64|np\.int32|np\.uint8|torch\.tensor|Index)\((-?\d+)\)")


def outcome(module: Any, number: int, plain: bool = False) -> str:
    """What catches the error of a program, after ``!``, or dtypes and shapes of what it gives.

    Args:
        plain: with Python's numbers in place of other whole numbers.
    """
    sample = program(number)
    if plain:
        text, made = (_OTHERS.sub(r"\1", part) for part in (sample.text, sample.made))
        sample = Sample(sample.place, sample.name, text, made)
    module.manual_seed(0)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            result, _ = perform(module, sample, "float32", more={"np": np, "Index": Index})
    except Exception as error:
        names = {base.__name__ for base in type(error).__mro__}
        return "!" + " ".join(base for base in BASES if base in names)
    return describe(module, result, "float32")


def is_same(recorded: str, got: str, plain: str) -> bool:
    """Whether what came of a program is what came of it with PyTorch.

    lazyt takes whole numbers of other types everywhere, PyTorch not in all of its Python code: such
    a program may give what it gives with plain numbers.

    Args:
        plain: what comes of the program with plain numbers where it has others, else the same.
    """
    return (
        recorded == GONE
        or same_outcome(recorded, got)
        or (recorded[0] == "!" and got != "!" and got == plain)
    )


def recorded(count: int) -> Iterator[tuple[int, str]]:
    """The first programs, with what PyTorch does."""
    found = json.loads(lzma.decompress(FILE.read_bytes()))
    for number, place in enumerate(found["programs"][:count]):
        yield number, found["outcomes"][place]


def _in_child(module: Any, numbers: range) -> list[str]:
    """Outcomes, each program in a process that may end."""
    found: list[str] = []
    while len(found) < len(numbers):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            with os.fdopen(writer, "w") as stream:
                for number in numbers[len(found) :]:
                    stream.write(json.dumps(outcome(module, number)) + "\n")
                    stream.flush()
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            found += [json.loads(line) for line in stream]
        os.waitpid(child, 0)
        if len(found) < len(numbers):
            found.append(GONE)
    return found


def record(count: int) -> None:
    """Write down what PyTorch does."""
    import torch

    torch.set_num_threads(1)
    SAMPLES[:] = ALL
    texts: dict[str, int] = {}
    places = [texts.setdefault(o, len(texts)) for o in _in_child(torch, range(count))]
    samples = [str(sample) for sample in SAMPLES]
    content = json.dumps({"samples": samples, "outcomes": [*texts], "programs": places})
    FILE.write_bytes(lzma.compress(content.encode(), preset=9))


#: Differences that stay, by what programs, outcomes in PyTorch and here look like, with the reason.
EXCUSED: list[tuple[str, str, str, str]] = [
    (r"None|, (0\.5|1|\[\])[,)]|=(1|True|0\.5)\)|float\(|True", "!TypeError", "[^!].*",
     "lazyt takes None for what may be left out, and numbers for truth values; so do some of "
     "PyTorch's functions"),
    (r"None", "!AttributeError", "!TypeError.*",
     "None for a tensor: both refuse, PyTorch's Python code by an attribute"),
    (r"repeat_interleave\(x, None|\.repeat\(\w+\)|(huber|multi_margin)_loss", "!.*", "!.*",
     "nothing to repeat by, reductions and norms that there are none of: both refuse"),
    (r"masked\.\w+\(x, Index|to_sparse|to_dense|\.mm\(|index_add_?\(", "!.*", "!.*",
     "both refuse, PyTorch's Python code, or a check in another order, otherwise"),
    (r"sparse_(coo|csr|csc|compressed)_tensor", "[^!].*", "!.*",
     "indices and sizes that PyTorch takes without looking at them"),
    (r"sparse_(csr|csc|compressed)_tensor.*(float\(|\+ 0\.5|\(2,\))|sparse_resize", "!.*", ".*",
     "whole numbers written as fractions, and sizes that may not shrink"),
    (r"nll_loss\(.*columns", "!RuntimeError", "[^!].*", "weights of whole numbers are converted"),
    (r"Transformer(En|De)coder\(|CTCLoss|broadcast_shapes\(\(2, float|batch_norm\(empty0|"
     r"dropout2d\(empty0|huber_loss\(columns|Tensor\.to\('cpu'|Tensor\.to\(torch", ".*", ".*",
     "no layers, heads by truth values, labels and sizes that are fractions, no elements"),
    (r"\(None", "!.*", "!.*",
     "None for a tensor: both refuse, PyTorch's Python code by an attribute"),
    (r"'x'|\[\d\]|\+ 0\.5|True", "!.*", "!.*", "no size at all: both refuse, in other places"),
    (r"\[\d\]", "!.*", "[^!].*", "a list of one number is that number for every dimension"),
    (r"BatchNorm\dd\(\[", "[^!].*", "!TypeError.*", "a list for a number of features"),
    (r"Lazy|instance_norm|rnn_relu_cell|addbmm|interpolate|histogram|Upsample|Tensor\.size|round|split",
     "!.*", "!.*", "too few dimensions and the like: both refuse, in other words"),
    (r"constant_pad_nd|histogramdd", ".*", "!TypeError.*", "numbers inside of what is no size"),
    (r"MaxUnpool\dd\((torch.tensor|np.uint8)", "!TypeError", "[^!].*", "NumPy's numbers as sizes"),
    (r"[pP]ool\dd.*2 \+ -2|Unpool1d\(2 \+ -2", "[^!].*", "!.*", "a kernel of no size"),
    (r"poisson_nll_loss|ctc_loss|affine_grid", "[^!].*", "!.*",
     "reductions that there are none of, labels that are fractions, a grid of no size"),
    (r"fractional_max_pool3d_with_indices.*2 \+ 1", "!.*", "[^!].*", "windows that fit exactly"),
    (r"\bmask\b|\bflags\b", "!RuntimeError", "[^!].*",
     "functions of truth values that PyTorch has no kernel for, as numbers"),
    (r"(index_copy|index_reduce|scatter_reduce|index_put|tensordot|norm|cell|unfold|cumsum|view|reshape|"
     r"permute|broadcast_to|clamp_m|bernoulli|Bilinear|unpool|entropy|upsample|dropout|Nearest|embedding)\w*\(",
     "!.*", "!.*", "two things are wrong: both refuse, one for the one, one for the other"),
    (r"pad\(.*reflect|feature_dropout\(empty|CrossMap|lstm_cell|unravel|with_logits|BatchNorm|Conv|Cell",
     "[^!].*", "!.*", "what PyTorch does not check"),
    (r"grid_sampler_2d|add\(x, s, 0.5\)", ".*", ".*", "numbers that name nothing"),
    (r"(min|max)\(x, torch.tensor\(-?\d\), keepdim", ".*", ".*", "a dimension in a tensor"),
    (r"special.round|index_put|solve\(kernel1", "!.*", "[^!].*",
     "whole numbers are round; a number among indices; a matrix that is singular but for rounding"),
    (r"matrix_rank\(", "!RuntimeError", "[^!].*", "torch.matrix_rank was taken out of PyTorch"),
]  # fmt: skip


def excuse(text: str, recorded: str, got: str) -> str | None:
    """Why a program may differ from PyTorch; None where it may not."""
    for program_like, theirs, ours, reason in EXCUSED:
        is_like = re.fullmatch(theirs, recorded) and re.fullmatch(ours, got)
        if is_like and re.search(program_like, text):
            return reason
    return None


def failures(count: int) -> list[str]:
    """What differs among the first programs."""
    import lazyt

    found = []
    for number, wanted in recorded(count):
        got = outcome(lazyt, number)
        sample = program(number)
        if not has(lazyt, sample):  # documented as missing
            continue
        has_others = _OTHERS.search(sample.text + sample.made) is not None
        plain = outcome(lazyt, number, True) if has_others else ""
        if not (is_same(wanted, got, plain) or excuse(str(sample), wanted, got)):
            found.append(f"{number} {sample}: {got}, PyTorch {wanted}")
    return found


def main() -> None:
    """Compare or record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.record:
        record(options.count)
        return
    wrong = failures(options.count)
    for text in wrong:
        print(text)
    print(f"{options.count} programs, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

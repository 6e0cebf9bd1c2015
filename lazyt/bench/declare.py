"""Workloads of a user's own, declared in a file that ``--load`` names.

The file is run by every process of a benchmark: by lazyt's, in which ``import torch`` gives lazyt,
by PyTorch's, and by those of other peers, in which ``torch`` is there to be imported but has
nothing, so that a file with functions for several frameworks can be read by all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lazyt.bench.problems import (
    DTYPES,
    KINDS,
    LOADED,
    PROBLEMS,
    Array,
    Dims,
    Function,
    Problem,
    described,
    no_function,
)

#: A number, or what computes it from the sizes.
Amount = float | Callable[..., float] | None


def workload(
    name: str,
    inputs: str | Callable[..., Sequence[Array]],
    *,
    torch: Function | None = None,
    jax: Function | None = None,
    numpy: Function | None = None,
    tinygrad: Function | None = None,
    every: Function | None = None,
    reference: Function | None = None,
    sizes: Mapping[str, Dims] | None = None,
    tolerance: float = 2e-5,
    nbytes: Amount = None,
    flops: Amount = None,
) -> None:
    """Declares a workload for ``lazyt bench --load FILE.py``.

    Args:
        name: unique among all workloads.
        inputs: arrays in words, ``"n d, d"`` (``problems`` has all words), or a function of a NumPy
            generator, and the sizes as keywords, that returns arrays.
        torch: computes one tensor or several from them, in PyTorch's style: for lazyt and PyTorch.
        jax, numpy, tinygrad: the same for these. Who has no function is left out.
        every: for all without their own; first comes what has PyTorch's functions by name.
        reference: the right result by NumPy, of float64 (integers: int64) arrays. Else ``every``,
            ``numpy``, or else ``torch`` in lazyt's interpreter of graphs, gives it.
        sizes: by name, what letters of inputs stand for; ``name@size`` is a workload.
        tolerance: the largest error allowed, relative to the largest value of a result.
        nbytes, flops: what is moved and computed, or a function of the sizes; else counted.

    Raises ValueError for a name that is taken, inputs that nothing can be made of and where there
    is no function, TypeError for what is of another kind.

    Example: ``workload("smooth", "n d", torch=lambda x: x.cumsum(-1), sizes={"": dict(n=9, d=8)})``
    """
    _check_name(name)
    given = {"torch": torch, "jax": jax, "numpy": numpy, "tinygrad": tinygrad}
    own = _functions(name, given, every, reference)
    known = _sizes(sizes)
    words = _words(name, inputs, known) if isinstance(inputs, str) else ()
    if not words and not callable(inputs):
        raise TypeError(f"inputs of {name} are words or a function, not {inputs!r}")
    made = Problem(name, LOADED, known, words, every or no_function, tolerance, functions=own)
    frame = sys._getframe(1)
    PROBLEMS[name] = replace(
        made,
        inputs=None if isinstance(inputs, str) else inputs,
        reference=reference,
        nbytes=_amount("nbytes", nbytes),
        flops=_amount("flops", flops),
        where=f"{frame.f_code.co_filename}:{frame.f_lineno}",
    )
    extensions: Any = sys.modules.get("lazyt.extensions")
    if extensions is not None:  # a file that is loaded once more declares it anew
        extensions.Handle(lambda: PROBLEMS.pop(name, None))


def _check_name(name: str) -> None:
    if not name or any(c in name for c in "@,*? "):
        raise ValueError(f"{name!r} is no name: it may not hold any of '@', ',', '*', '?', ' '")
    if name in PROBLEMS:
        where = f", declared at {PROBLEMS[name].where}" if PROBLEMS[name].where else ""
        raise ValueError(f"there is a workload called {name} already{where}")


def _functions(
    name: str,
    given: Mapping[str, Function | None],
    every: Function | None,
    reference: Function | None,
) -> dict[str, Function]:
    """Those of frameworks that there are."""
    for word, function in (*given.items(), ("every", every), ("reference", reference)):
        if function is not None and not callable(function):
            raise TypeError(f"{word}= is a function, not {function!r}")
    if given["torch"] is None and every is None:
        raise ValueError(f"{name} needs torch= or every=, which lazyt runs")
    return {framework: function for framework, function in given.items() if function is not None}


def _sizes(sizes: Mapping[str, Dims] | None) -> dict[str, Dims]:
    known = dict(sizes) if sizes else {"": {}}
    if not all(isinstance(of_letters, Mapping) for of_letters in known.values()):
        raise TypeError(
            f"sizes are numbers of letters by name, as {{'small': {{'n': 64}}}}, not {sizes!r}"
        )
    return known


def _amount(word: str, given: Amount) -> Callable[..., float] | None:
    if given is None or callable(given):
        return given
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given < 0:
        raise TypeError(f"{word}= is a number or a function of the sizes, not {given!r}")
    return lambda **sizes: given


def _words(name: str, inputs: str, sizes: Mapping[str, Dims]) -> tuple[str, ...]:
    """The descriptions of arrays. Raises ValueError for a letter that no size says."""
    found = tuple(text.strip() for text in inputs.split(","))
    for text in found:
        _, _, extents, limit = described(text)
        for word in (*extents, *([limit] if limit else [])):
            for factor in word.split("*"):
                for size, extents_of in sizes.items():
                    if not factor.isdigit() and factor not in extents_of:
                        at = f"@{size}" if size else ""
                        raise ValueError(
                            f"{name}{at}: {factor!r} in {text!r} is no size, and none of the "
                            f"words {', '.join((*KINDS, *DTYPES))}"
                        )
        if text.startswith("labels") and not limit:
            raise ValueError(f"{name}: labels need a limit, as in 'labels:10 n'")
    return found


def interpreted(function: Function, arrays: Sequence[Array]) -> list[Array]:
    """What lazyt's interpreter of graphs makes of a function of tensors: no kernel, no C."""
    import lazyt
    from lazyt.extensions import put_aside
    from lazyt.runtime.interpreter import interpret

    with put_aside(), lazyt.no_grad():
        result = function(*[lazyt.tensor(array) for array in arrays])
        found = list(result) if isinstance(result, (tuple, list)) else [result]
        return interpret([tensor.node for tensor in found])

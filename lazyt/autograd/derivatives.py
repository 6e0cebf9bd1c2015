"""Gradients, and products with Jacobians: ``grad``, ``vjp``, ``jvp``, ``linearize``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lazyt.autograd.forward_ad import Differential
from lazyt.autograd.vectorizing import vmap
from lazyt.errors import GradientError, LazytError
from lazyt.functional.creation.creation import eye, ones_like, zeros_like
from lazyt.functional.shapes.joining import cat
from lazyt.handle.grad_mode import enable_grad
from lazyt.handle.layout import strided
from lazyt.handle.pytree import TreeSpec, flatten, mapped, unflatten
from lazyt.handle.tensor import Tensor

Argnums = int | tuple[int, ...]


def picked(argnums: Any, count: int) -> tuple[int, ...]:
    """Numbers of arguments, none negative. Raises GradientError for those that do not exist."""
    if not isinstance(argnums, (int, tuple)):
        raise GradientError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise GradientError("argnums must be non-empty")
    if len(set(numbers)) != len(numbers):
        raise GradientError(f"argnums elements must be unique, got {argnums}")
    for number in numbers:
        if not isinstance(number, int):
            raise GradientError(f"argnum must be int, got: {type(number)}")
        if not -count <= number < count:
            raise GradientError(f"Got argnum={number}, but only {count} positional inputs")
    return tuple(number % count for number in numbers)


def given(run: Differential, args: Any, forward: bool | None) -> Any:
    """A tree of arguments as the function gets them."""

    def own(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            if leaf.layout is not strided:
                raise LazytError(
                    "transforms of functions do not take sparse tensors: give them their values, "
                    "and let the function make the tensors"
                )
            return run.own(leaf, forward)
        if forward is False:
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        return leaf

    return mapped(own, args)


def results(run: Differential, values: Any) -> Any:
    """A tree of results for those outside."""
    return mapped(lambda leaf: run.result(leaf) if isinstance(leaf, Tensor) else leaf, values)


def output_and_aux(output: Any, has_aux: bool, title: str) -> tuple[Any, Any]:
    """Output and aux. Raises GradientError for anything but a pair."""
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise GradientError(
            f"{title}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return output


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """``func``, which returns one number, as a function of its gradient and its value.

    Args:
        argnums: which arguments to differentiate by: a number, or several for a tuple of gradients.
            Arguments may be trees of tensors; so are the gradients.
        has_aux: whether ``func`` returns a pair, of which the second part is handed through: the
            result is then (gradient, (value, aux)).

    Raises GradientError, in PyTorch's words, for arguments and results that do not fit.
    """

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        run = Differential()
        with enable_grad(), run.running():
            numbers = picked(argnums, len(args))
            own = [given(run, arg, None) if i not in numbers else arg for i, arg in enumerate(args)]
            for number in numbers:
                own[number] = given(run, args[number], False)
            output = func(*own, **given(run, kwargs, None))
            output, aux = output_and_aux(output, has_aux, "grad_and_value(f)(*args)")
            _check_number(output)
            grads = run.pull([output], [output.node], [ones_like(output).detach().node])
        trees = [flatten(args[number])[1] for number in numbers]
        found = iter(run.tensors(grads))
        gradients = tuple(unflatten([next(found) for _ in range(t.num_leaves)], t) for t in trees)
        gradient = gradients[0] if isinstance(argnums, int) else gradients
        value = results(run, output)
        extra = results(run, aux) if has_aux else None
        run.write_back()
        return (gradient, (value, extra)) if has_aux else (gradient, value)

    return inside


def _check_number(output: Any) -> None:
    title = "grad_and_value(f)(*args): Expected f(*args) to return a"
    if not isinstance(output, Tensor):
        raise GradientError(f"{title} Tensor, got {type(output)}")
    if output.ndim:
        raise GradientError(
            f"{title} scalar Tensor, got tensor with {output.ndim} dims. Maybe you wanted to use "
            "the vjp or jacrev APIs instead?"
        )


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """``func``, which returns one number, as a function of its gradient.

    Args as for ``grad_and_value``; with ``has_aux`` the result is (gradient, aux).
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return inside


def value_and_grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """``grad_and_value`` with its two results the other way round, as in JAX."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return value, gradient

    return inside


# ---------------------------------------------------------------------- vjp


def check_outputs(flat: list[Any], title: str) -> None:
    """Raise GradientError for no outputs, or others than tensors."""
    if not flat or (len(flat) == 1 and flat[0] is None):
        raise GradientError(
            f"{title}: Expected f to be a function that has non-empty output (got output = {flat})"
        )
    for item in flat:
        if not isinstance(item, Tensor):
            raise GradientError(
                f"{title}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(item)}"
            )


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``func(*primals)`` and a function from cotangents of its results to those of ``primals``.

    Args:
        primals: trees of floating point tensors.
        has_aux: whether ``func`` returns a pair, of which the second part is handed through.

    Returns: (results, function), or (results, function, aux). The function takes a tree like the
    results' and returns one of ``primals``, in a tuple where there are several.

    Raises GradientError, in PyTorch's words, for results or cotangents that do not fit.
    """
    return vjp_by(func, primals, None, has_aux)


def vjp_by(
    func: Callable[..., Any], primals: tuple[Any, ...], argnums: Argnums | None, has_aux: bool
) -> Any:
    """``vjp`` by some of the arguments only."""
    run = Differential()
    with enable_grad(), run.running():
        own: Any = primals
        if argnums is None:
            own = given(run, primals, False)
            tree = flatten(primals)[1]
        else:
            numbers = picked(argnums, len(primals))
            own = [arg if i in numbers else given(run, arg, None) for i, arg in enumerate(primals)]
            for number in numbers:
                own[number] = given(run, primals[number], False)
            chosen = tuple(primals[number] for number in numbers)
            tree = flatten(chosen[0] if isinstance(argnums, int) else chosen)[1]
        output, aux = output_and_aux(func(*own), has_aux, "vjp(f, *primals)")
        flat, out_tree = flatten(output)
        check_outputs(flat, "vjp(f, *primals)")
        for item in flat:
            if item.dtype.kind not in "fc":
                raise GradientError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                    f"Tensor with dtype torch.{item.dtype.name}"
                )
        nodes = [item.node for item in flat]
    outer, extra = results(run, output), results(run, aux) if has_aux else None
    run.write_back()

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        """What cotangents of the results mean for the arguments."""
        given_flat, given_tree = flatten(cotangents)
        if given_tree != out_tree:
            raise GradientError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {given_tree.pretty()}, primal output: "
                f"{out_tree.pretty()}"
            )
        grads = run.pull(flat, nodes, [_cotangent(c, n, i) for i, (c, n) in enumerate(
            zip(given_flat, flat))])  # fmt: skip
        return unflatten(run.tensors(grads), tree)

    return (outer, pull, extra) if has_aux else (outer, pull)


def _cotangent(cotangent: Any, output: Tensor, index: int) -> Any:
    if cotangent is None:
        return None
    if cotangent.shape != output.shape:
        raise GradientError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {cotangent.shape} and "
            f"output[{index}] has a shape of {output.shape}."
        )
    return cotangent.to(output.dtype).node


# ---------------------------------------------------------------------- jvp

_JVP = "jvp(f, primals, tangents)"


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """``func(*primals)``, and how the results move when ``primals`` move along ``tangents``.

    Args:
        primals: a tuple of trees of floating point tensors.
        tangents: a tree like it.
        strict: raise where a result does not depend on ``primals``, instead of giving zeros.
        has_aux: whether ``func`` returns a pair, of which the second part is handed through.

    Returns: (results, their tangents), or (results, their tangents, aux).

    Raises GradientError, in PyTorch's words, for arguments and results that do not fit.
    """
    _check_primals(primals, tangents)
    outputs, push, aux = linear(func, primals, None, has_aux, strict)
    moved = push(flatten(tangents)[0])
    return (outputs, moved, aux) if has_aux else (outputs, moved)


def _check_primals(primals: Any, tangents: Any) -> None:
    if not isinstance(primals, tuple):
        raise GradientError(
            f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat, tree = flatten(primals)
    moves, moves_tree = flatten(tangents)
    if tree != moves_tree:
        raise GradientError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For "
            "example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {tree} and tangents with structure {moves_tree}"
        )
    for title, items in (("primals", flat), ("tangents", moves)):
        if not items:
            raise GradientError(f"{_JVP}: Expected {title} to contain at least one Tensor.")
        for item in items:
            if not isinstance(item, Tensor):
                raise GradientError(
                    f"{_JVP}: Expected {title} to only contain Tensors, got {type(item)}"
                )


def linear(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    argnums: Argnums | None,
    has_aux: bool = False,
    strict: bool = False,
) -> tuple[Any, Callable[[list[Tensor]], Any], Any]:
    """Results, the function from tangents (flat) to theirs (a tree), and aux."""
    run = Differential()
    with enable_grad(), run.running():
        numbers = range(len(primals)) if argnums is None else picked(argnums, len(primals))
        own = [arg if i in numbers else given(run, arg, None) for i, arg in enumerate(primals)]
        for number in numbers:
            own[number] = given(run, primals[number], True)
        output, aux = output_and_aux(func(*own), has_aux, _JVP)
        flat, out_tree = flatten(output)
        check_outputs(flat, _JVP)
        nodes = [item.node for item in flat]
    outer, extra = results(run, output), results(run, aux) if has_aux else None
    run.write_back()
    chosen = [leaf for number in numbers for leaf in flatten(primals[number])[0]]

    def push(tangents: list[Tensor]) -> Any:
        """How the results move when the arguments do."""
        moves = [_tangent(t, p) for t, p in zip(tangents, chosen)]
        return unflatten(_moved(run, run.push(nodes, moves), flat, strict), out_tree)

    return outer, push, extra


def _moved(run: Differential, moved: list[Any], flat: list[Tensor], strict: bool) -> list[Tensor]:
    if strict and any(node is None for node in moved):
        raise GradientError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the "
            "inputs. This is not allowed with strict=True."
        )
    return [
        zeros_like(item).detach() if node is None else run.tensor(node)
        for node, item in zip(moved, flat)
    ]


def _tangent(tangent: Tensor, primal: Tensor) -> Any:
    if tangent.shape != primal.shape:
        raise GradientError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(primal.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    return tangent.to(primal.dtype).node


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """``func(*primals)`` and the linear function from tangents of ``primals`` to the results'.

    ``func`` runs once, whatever number of tangents the linear function is called with.

    Raises GradientError for tangents that do not fit ``primals``.
    """
    outputs, push, _ = linear(func, primals, None)
    flat, tree = flatten(primals)

    def pushed(*tangents: Any) -> Any:
        """How the results move when the arguments move along ``tangents``."""
        moves, moves_tree = flatten(tangents)
        if moves_tree != tree:
            raise GradientError(
                f"Expected the tangents {moves_tree} to have the same argspec as the primals {tree}"
            )
        for index, (move, primal) in enumerate(zip(moves, flat)):
            _check_like(index, move, primal, tree)
        return push(moves)

    return outputs, pushed


def _check_like(index: int, move: Tensor, primal: Tensor, tree: TreeSpec) -> None:
    for title, own, wanted in (
        ("shape", move.shape, primal.shape), ("dtype", move.dtype, primal.dtype),
    ):  # fmt: skip
        if own != wanted:
            raise GradientError(
                f"tangent:{index} with {title} {own} in flattened pytree doesn't match the "
                f"{title} {wanted} of the corresponding primal."
            )


# Jacobians and Hessians: products with all unit vectors at once, by ``vmap``.


def unit_vectors(tensors: list[Tensor]) -> list[Tensor]:
    """All unit vectors of the space of ``tensors`` together, as one batch for each of them."""
    total = sum(tensor.numel() for tensor in tensors)
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        rows = [
            zeros_like(tensor).detach().reshape(1, count).expand(start, count),
            eye(count, dtype=tensor.dtype),
            zeros_like(tensor).detach().reshape(1, count).expand(total - start - count, count),
        ]
        kept = [row for row in rows if row.shape[0]] or rows[1:2]
        found.append(cat(kept, 0).reshape(total, *tensor.shape))
        start += count
    return found


def _parts(stacked: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """The first axis of ``stacked`` cut into one part for each tensor, of its shape."""
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        part = stacked.narrow(0, start, count)
        found.append(part.reshape(*tensor.shape, *stacked.shape[1:]))
        start += count
    return found


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """``func`` as a function of its Jacobian, by reverse derivatives: good for few results.

    Args:
        argnums: which arguments to differentiate by; several give a tuple of Jacobians.
        has_aux: whether ``func`` returns a pair, of which the second part is handed through.
        chunk_size: how many rows to compute at once, all by default.

    Returns: a function that gives, in place of every result, the tree of Jacobians by the
    arguments, of the result's shape followed by the argument's. Raises as ``vjp``.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def inside(*args: Any) -> Any:
        numbers = picked(argnums, len(args))
        output, pull, *aux = vjp_by(func, args, numbers, has_aux)
        flat, out_tree = flatten(output)
        _, in_tree = flatten(tuple(args[n] for n in numbers))

        def rows(*cotangents: Tensor) -> Any:
            return flatten(pull(unflatten(list(cotangents), out_tree)))[0]

        batches = unit_vectors(flat)
        columns = vmap(rows, chunk_size=chunk_size, randomness="same")(*batches)
        by_input = [_parts(column, flat) for column in columns]
        by_output = []
        for place in range(len(flat)):
            tree = unflatten([parts[place] for parts in by_input], in_tree)
            by_output.append(tree[0] if isinstance(argnums, int) else tree)
        found = unflatten(by_output, out_tree)
        return (found, aux[0]) if has_aux else found

    return inside


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """``func`` as a function of its Jacobian, by forward derivatives: good for few arguments.

    Args as for ``jacrev``. ``func`` runs once, so that random numbers in it are the same for all
    columns whatever ``randomness`` says.
    """
    if randomness not in ("error", "different", "same"):
        raise GradientError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )

    @functools.wraps(func)
    def inside(*args: Any) -> Any:
        numbers = picked(argnums, len(args))
        output, push, aux = linear(func, args, numbers, has_aux)
        flat, out_tree = flatten(output)
        check_outputs(flat, "jvp(f, primals, tangents)")
        chosen, in_tree = flatten(tuple(args[n] for n in numbers))

        def columns(*tangents: Tensor) -> Any:
            return flatten(push(list(tangents)))[0]

        moved = vmap(columns, randomness="same")(*unit_vectors(chosen))
        by_output = []
        for item, stacked in zip(flat, moved):
            last = stacked.movedim(0, -1)
            parts = [
                part.movedim(0, -1).reshape(*item.shape, *tensor.shape)
                for part, tensor in zip(_flat_parts(last, chosen), chosen)
            ]
            tree = unflatten(parts, in_tree)
            by_output.append(tree[0] if isinstance(argnums, int) else tree)
        found = unflatten(by_output, out_tree)
        return (found, aux) if has_aux else found

    return inside


def _flat_parts(last: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    """The last axis of ``last`` cut into one part for each tensor, moved to the front."""
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        found.append(last.narrow(-1, start, count).movedim(-1, 0))
        start += count
    return found


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """``func`` as a function of its second derivatives: forward derivatives of reverse ones."""
    return jacfwd(jacrev(func, argnums), argnums)

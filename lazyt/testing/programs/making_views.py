"""Statements that make views, and indexing that copies."""

from __future__ import annotations

import math

from lazyt.testing.programs.maker import Maker, step


def cut(m: Maker, extent: int) -> str:
    """A slice of a dimension."""
    if m.chance(0.15):
        return ":"
    start = m.one("", "", "1", "0", "-1", "2", "-3")
    stop = m.one("", "", "", str(extent), "-1", "2", "1", "7")
    pace = m.one("", "", "", ":2", ":3", ":1")
    return f"{start}:{stop}{pace}"


def basic_index(m: Maker, shape: tuple[int, ...]) -> str:
    """Numbers, slices, None and ``...``."""
    items = []
    for extent in shape[: m.random.randint(0, len(shape))]:
        if m.chance(0.35):
            wrong = m.chance(0.04 * m.errors)
            low, high = (-extent, extent - 1) if extent and not wrong else (extent, extent)
            items.append(str(m.random.randint(low, high)))
        else:
            items.append(cut(m, extent))
    if m.chance(0.2):
        items.insert(m.random.randint(0, len(items)), "None")
    if m.chance(0.2):
        items.append("...")
        if len(shape) > 1 and len(items) < len(shape) and m.chance(0.5):
            items.append(cut(m, shape[-1]))
    return ", ".join(items) or "..."


def positions(m: Maker, extent: int, distinct: bool = False) -> list[int]:
    """Positions along a dimension."""
    if not extent:
        return []
    count = m.random.randint(1, 3)
    if distinct:
        chosen = m.random.sample(range(extent), min(count, extent))
        return [p - extent if m.chance(0.2) else p for p in chosen]
    return [m.random.randint(-extent, extent - 1) for _ in range(count)]


def fancy_index(m: Maker, name: str, distinct: bool = False) -> str:
    """An index with lists, integer tensors or masks in it."""
    shape = tuple(m[name].shape)
    if m.chance(0.25):
        mask = m.tensor(lambda t: str(t.dtype).endswith("bool") and tuple(t.shape) == shape)
        limit = m.one("0", "1", "0.5", "2")
        if mask is None:
            return f"{name} > {limit}" if m.sharp(name) else "..."
        return str(mask)
    if not shape:
        return m.one("...", "None", "True", "torch.tensor(False)")
    axis = m.random.randrange(len(shape))
    items = [":" if m.chance(0.7) else cut(m, shape[d]) for d in range(axis)]
    chosen = positions(m, shape[axis], distinct)
    if not distinct and m.chance(0.06 * m.errors):
        chosen.append(shape[axis])
    kind = m.one("", "", ", dtype=torch.int32", ", dtype=torch.uint8") if m.chance(0.3) else ""
    kind = "" if "uint8" in kind and min(chosen, default=0) < 0 else kind
    if m.chance(0.15) and shape[axis]:
        flags = [m.chance(0.5) for _ in range(shape[axis])]
        items.append(m.one(f"{flags}", f"torch.tensor({flags})", f"np.array({flags})"))
    elif m.chance(0.5) and chosen:
        items.append(m.one(str(chosen), str(chosen), f"np.array({chosen})"))
    else:
        items.append(f"torch.tensor({chosen}{kind or ', dtype=torch.int64'})")
    if not distinct and len(shape) > axis + 1 and m.chance(0.4):
        more = [m.random.randrange(shape[axis + 1]) for _ in chosen] if shape[axis + 1] else []
        items.append(m.one(cut(m, shape[axis + 1]), str(more) if more else ":"))
    if m.chance(0.15):
        items.append(m.one("...", "None"))
    return ", ".join(items)


@step(4)
def indexed(m: Maker) -> str | None:
    """Basic indexing."""
    x = m.tensor()
    return x and f"{m.new()} = {x}[{basic_index(m, tuple(m[x].shape))}]"


@step(2)
def picked(m: Maker) -> str | None:
    """Indexing with lists, tensors and masks."""
    x = m.tensor()
    return x and f"{m.new()} = {x}[{fancy_index(m, x)}]"


@step(3)
def rearranged(m: Maker) -> str | None:
    """The dimensions in another order."""
    x = m.tensor()
    if x is None:
        return None
    rank = m[x].ndim
    call = m.one(
        f"transpose({m.dim(rank)}, {m.dim(rank)})",
        f"permute({', '.join(map(str, m.permutation(rank)))})" if rank else "permute(())",
        f"movedim({m.dim(rank)}, {m.dim(rank)})",
        f"swapaxes({m.dim(rank)}, {m.dim(rank)})",
        "T" if rank == 2 or m.chance(0.1) else "mT",
        "t()",
        f"permute({m.permutation(rank)})",
    )
    return f"{m.new()} = {x}.{call}"


@step(3)
def resized(m: Maker) -> str | None:
    """The same elements in another shape."""
    x = m.tensor()
    if x is None:
        return None
    shape: list[int] = m.reshaped(math.prod(m[x].shape))
    if m.chance(0.3) and 0 not in shape:
        shape[m.random.randrange(len(shape))] = -1
    if m.chance(0.04 * m.errors):
        shape.append(2)
    rank = m[x].ndim
    first, last = sorted((m.random.randrange(max(rank, 1)), m.random.randrange(max(rank, 1))))
    call = m.one(
        f"view({shape})", f"view({shape})", f"reshape({shape})", f"reshape({shape})",
        "flatten()", f"flatten({first}, {last})", "ravel()",
        f"unflatten({m.dim(rank)}, {m.reshaped(m[x].shape[0] if rank else 1, 2)})",
    )  # fmt: skip
    return f"{m.new()} = {x}.{call}"


@step(3)
def parted(m: Maker) -> str | None:
    """A part along one dimension."""
    x = m.tensor()
    if x is None:
        return None
    rank, dim = m[x].ndim, m.dim(m[x].ndim)
    extent = m[x].shape[dim] if -rank <= dim < rank else 2
    start = m.random.randint(-extent, extent) if extent else 0
    size = m.random.randint(1, max(extent, 1))
    call = m.one(
        f"select({dim}, {start})",
        f"narrow({dim}, {start}, {m.random.randint(0, extent)})",
        f"unfold({dim}, {size}, {m.random.randint(1, 2)})",
        f"diagonal({m.one('', '1', '-1', '0, 0, 1', '0, -1, 0', '1, -2, -1')})",
        f"squeeze({m.one('', dim)})",
        f"unsqueeze({m.dim(rank + 1)})",
    )
    return f"{m.new()} = {x}.{call}"


@step(1.5)
def expanded(m: Maker) -> str | None:
    """Dimensions repeated without copying."""
    x = m.tensor(lambda t: math.prod(t.shape) <= 12)
    if x is None:
        return None
    shape = [n if n != 1 and not m.chance(0.03 * m.errors) else m.one(1, 2, 3, -1)
             for n in m[x].shape]  # fmt: skip
    lead = [m.one(1, 2, 3)] if m.chance(0.4) else []
    other = m.tensor()
    call = m.one(f"expand({lead + shape})", f"expand({lead + shape})", f"expand_as({other})",
                 f"broadcast_to({lead + shape})")  # fmt: skip
    return f"{m.new()} = {x}.{call}"


@step(1)
def strided(m: Maker) -> str | None:
    """A view said in strides."""
    x = m.tensor(lambda t: math.prod(t.shape) > 1)
    if x is None:
        return None
    base = m[x]._base if m[x]._is_view() else m[x]
    if m[x].requires_grad and (m[x]._is_view() or not base.is_contiguous()):
        return None
    count = math.prod(m[x].shape)
    rows, columns = m.random.randint(1, 3), m.random.randint(1, 3)
    strides = m.one((columns, 1), (1, 1), (1, rows), (2, 1), (0, 1), (1, 2))
    offset = m.one("", "", ", 0", ", 1", f", {count // 2}")
    return f"{m.new()} = {x}.as_strided(({rows}, {columns}), {strides}{offset})"


@step(1)
def recast_view(m: Maker) -> str | None:
    """The same bytes read as another type of the same width."""
    same = {"float32": "int32", "int32": "float32", "int64": "float64", "float64": "int64",
            "int16": "float16", "float16": "int16", "uint8": "int8", "int8": "uint8",
            "bfloat16": "int16"}  # fmt: skip
    x = m.tensor(lambda t: not t.requires_grad)
    if x is None:
        return None
    kind = str(m[x].dtype).rpartition(".")[2]
    # Bits read as fractions are mostly not comparable; the other way they are, when exact.
    whole = kind.startswith(("int", "uint")) and kind not in ("uint8", "int8")
    if not m.sharp(x) or whole or kind == "bool":
        return f"{m.new()} = {x}.view(torch.{kind})"
    # A view that stayed would show the last bits of what is rounded later.
    own = ".clone()" if "float" in kind else ""
    return f"{m.new()} = {x}{own}.view(torch.{m.one(same.get(kind, kind), kind, 'uint8')})"


@step(2)
def several(m: Maker) -> str | None:
    """All parts along one dimension."""
    x = m.tensor(lambda t: t.ndim > 0)
    if x is None:
        return None
    rank = m[x].ndim
    dim = m.random.randint(-rank, rank - 1)
    extent = m[x].shape[dim]
    if extent == 0 or extent > 4:
        return None
    way = m.random.randrange(4)
    if way == 0:
        names, call = [m.new() for _ in range(extent)], f"unbind({dim})"
    elif way == 1:
        size = m.random.randint(1, extent)
        names = [m.new() for _ in range(math.ceil(extent / size))]
        call = f"split({size}, {dim})"
    elif way == 2:
        names, first = [m.new(), m.new()], m.random.randint(0, extent)
        call = f"split([{first}, {extent - first}], dim={dim})"
    else:
        count = m.random.randint(1, 2)
        chunks = math.ceil(extent / math.ceil(extent / count))
        names, call = [m.new() for _ in range(chunks)], f"chunk({count}, {dim})"
    end = "," if len(names) == 1 else ""
    return f"{', '.join(names)}{end} = {x}.{call}"


@step(1.5)
def same_memory(m: Maker) -> str | None:
    """The memory again, with or without its history."""
    x = m.tensor()
    return x and f"{m.new()} = {x}.{m.one('detach()', 'data', 'view_as(' + x + ')', 'detach()')}"


@step(1.5)
def copied(m: Maker) -> str | None:
    """The values in memory of their own, or not when that is not needed."""
    x = m.tensor()
    if x is None:
        return None
    return f"{m.new()} = {x}.{m.one('clone()', 'contiguous()', 'clone().detach()')}"

"""The forms of a kernel as a space to search: neighbours, random points, numbers for models.

No form changes a bit of a result, so a search can only be slow, never wrong.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lazyt.codegen.conv.blocks import SlideForm
from lazyt.codegen.conv.lanes import LanesForm
from lazyt.codegen.conv.sums import SumsForm
from lazyt.codegen.loops.forms import LoopForm, point_bytes, suits
from lazyt.codegen.matmul.contraction import DotForm, PackedForm, RowForm
from lazyt.codegen.matmul.forms import form_fits, slide_fits
from lazyt.codegen.matmul.spec import transpose_spec
from lazyt.codegen.plan.candidates import Field
from lazyt.codegen.plan.choices import AnyForm, Tuned
from lazyt.errors import CompileError, LazytError
from lazyt.ir.decisions import Traits
from lazyt.ir.index import Axis
from lazyt.ir.kernel import CallPhase, ContractPhase, Kernel, Phase
from lazyt.runtime import devices

if TYPE_CHECKING:
    from lazyt.tuning.compiled_kernel import CompiledKernel

_KINDS: dict[str, type[AnyForm]] = {
    "packed": PackedForm, "rows": RowForm, "dots": DotForm,
    "slide": SlideForm, "sums": SumsForm, "lanes": LanesForm,
}  # fmt: skip
#: Moves away from the heuristics' form that a random one is at most.
FARTHEST = 8


@dataclass(frozen=True)
class Measurement:
    """What timing a form gave.

    Attributes:
        form: it.
        samples: seconds of a run, each time that it was timed; none where it did not compile.
        compile_seconds: what compiling it took.
        same_bits: whether its results are those of the heuristics' form.
        note: what the printer says about it, or the compiler's message.
    """

    form: Tuned
    samples: tuple[float, ...]
    compile_seconds: float
    same_bits: bool
    note: str = ""

    @property
    def seconds(self) -> float:
        """The median, infinity for what did not compile or gave other bits."""
        return median(self.samples) if self.samples and self.same_bits else math.inf


class Space:
    """The forms that a kernel may have on this machine, or on another one.

    Args:
        kernel: one that is alone: those with segments or bands have no other form.
        vector_bytes, caches, traits, threads: the machine, this one by default.

    Example:
        >>> import lazyt.ops
        >>> from lazyt.ir.parser import parse_kernel
        >>> from lazyt.tuning import Space
        >>> space = Space(parse_kernel('''
        ... kernel sums(in x: float32[64, 4096], out y: float32[4096]) {
        ...   phase (j: 4096) lanes grid work 64.0 {
        ...     for i: 64 { reduce s: float32 = sum x[i, j] }
        ...     once { store y[j] = %s }
        ...   }
        ... }'''))
        >>> start = space.standard()
        >>> len(space.neighbours(start)) > 5
        True
        >>> len(space.encode(start)) == len(space.columns)
        True
    """

    def __init__(
        self,
        kernel: Kernel,
        vector_bytes: int | None = None,
        caches: tuple[int, int, int] | None = None,
        traits: Traits | None = None,
        threads: int | None = None,
    ) -> None:
        device = devices.cpu()
        self.kernel = kernel
        self.vector_bytes = vector_bytes or device.vector_bytes
        self.caches = caches or (device.l1, device.l2, device.l3)
        self.threads = threads or max(device.cores, 2)
        self._field = Field(
            kernel, self.vector_bytes, self.caches,
            devices.traits() if traits is None else traits, self.threads,
        )  # fmt: skip
        self._standard = self._field.standard()
        self._expected: tuple[dict[str, Any], dict[str, Any]] | None = None

    # ------------------------------------------------------------------ points

    def standard(self) -> Tuned | None:
        """The heuristics' form in full; None for a kernel that has no other."""
        return self._standard

    def neighbours(self, form: Tuned) -> list[Tuned]:
        """Forms that differ from one in one thing each; all of them fit."""
        return self._field.neighbours(form)

    def sample(self, rng: random.Random, most: int = FARTHEST) -> Tuned:
        """A random form: some moves away from the heuristics', ``most`` at most.

        Raises LazytError for a kernel that has no forms.
        """
        form = self._standard
        if form is None:
            raise LazytError(f"kernel {self.kernel.name} has one form only")
        for _ in range(rng.randint(1, most)):
            near = self.neighbours(form)
            if not near:
                break
            form = rng.choice(near)
        return form

    def fits(self, form: Tuned) -> bool:
        """Whether the kernel can be written in a form, wherever that comes from."""
        phases = self.kernel.phases
        if form.form is None:
            if self._field.made is not None or len(form.loops) != len(phases):
                return False
            own = self._standard.loops if self._standard is not None else ()
            return all(
                mine == usual or (isinstance(phase, Phase) and suits(phase, mine))
                for phase, mine, usual in zip(phases, form.loops, own, strict=True)
            )
        made = self._field.made
        if made is None:
            return False
        if isinstance(form.form, PackedForm | RowForm | DotForm):
            return form_fits(transpose_spec(made.spec) if form.exchanged else made.spec, form.form)
        if isinstance(form.form, SlideForm):
            return made.slide is not None and slide_fits(made.slide, form.form)
        return form == self._standard

    def mix(self, one: Tuned, other: Tuned, rng: random.Random) -> Tuned:
        """A form that has of each number what one of two forms has; ``one`` where none fits."""
        if one.form is None:
            pairs = zip(one.loops, other.loops, strict=True)
            child = Tuned(loops=tuple(_crossed(a, b, rng) for a, b in pairs))
        elif type(one.form) is type(other.form) and one.exchanged == other.exchanged:
            child = replace(one, form=_crossed(one.form, other.form, rng))
        else:
            return one
        return child if self.fits(child) else one

    # ----------------------------------------------------------------- numbers

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the numbers of ``encode``, in order."""
        return tuple(name for name, _ in self._encoded(None))

    def encode(self, form: Tuned) -> tuple[float, ...]:
        """A form as numbers for models, as many for each form of the kernel: sizes as logarithms
        to base 2, truth values as 0 and 1, kinds by one column each."""
        return tuple(value for _, value in self._encoded(form))

    def _encoded(self, form: Tuned | None) -> Iterator[tuple[str, float]]:
        if self._field.made is None:
            for number, phase in enumerate(self.kernel.phases):
                if isinstance(phase, Phase):
                    loop = form.loops[number] if form is not None else LoopForm()
                    yield from _loop_numbers(f"phase{number}", loop, phase)
            return
        given = form.form if form is not None else None
        for kind, made in _KINDS.items():
            yield kind, float(type(given) is made)
        yield "exchanged", float(form is not None and form.exchanged)
        for kind, made in _KINDS.items():
            for item in fields(made):
                value = getattr(given, item.name) if type(given) is made else 0
                yield f"{kind}.{item.name}", _number(value)

    def features(self, form: Tuned) -> dict[str, float]:
        """What is known about the kernel and a form without running it, by name: sizes, bytes,
        operations, the machine, what tiles hold, and the numbers of ``encode``."""
        found = dict(_kernel_features(self.kernel))
        found |= {
            "machine.vector_bytes": float(self.vector_bytes),
            "machine.threads": float(self.threads),
            **{f"machine.l{n + 1}": float(size) for n, size in enumerate(self.caches)},
        }
        found |= _form_features(self.kernel, form, self.vector_bytes)
        return found | {f"form.{name}": value for name, value in self._encoded(form)}

    # ------------------------------------------------------------------ timing

    def measure(
        self,
        form: Tuned,
        samples: int = 9,
        arrays: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> Measurement:
        """Compiles the kernel in a form, compares its results with those of the heuristics' form,
        and times it.

        Args:
            form: it has to fit.
            samples: how often it is timed; each time is the mean of some runs.
            arrays: what it runs on, as of ``run_kernel``; random numbers by default, the same ones
                for each ``seed``.
            seed: of these.
        """
        import numpy as np

        from lazyt.tuning.compiled_kernel import CompiledKernel, random_arrays

        if self._expected is None or arrays is not None:
            given = arrays or random_arrays(self.kernel, np.random.default_rng(seed))
            before = {name: given[name].copy() for name in given}
            after = {name: given[name].copy() for name in given}
            CompiledKernel(self.kernel, self._standard).run(after)
            self._expected = before, after
        before, after = self._expected
        begin = perf_counter()
        try:
            compiled: CompiledKernel = CompiledKernel(self.kernel, form)
        except CompileError as error:
            return Measurement(form, (), perf_counter() - begin, False, str(error))
        took = perf_counter() - begin
        mine = {name: array.copy() for name, array in before.items()}
        compiled.run(mine)
        results = [b.name for b in self.kernel.buffers if b.role in ("out", "inout")]
        same = all(mine[name].tobytes() == after[name].tobytes() for name in results)
        return Measurement(form, tuple(compiled.samples(samples)), took, same, compiled.note)


def features(kernel: Kernel, form: Tuned) -> dict[str, float]:
    """``Space(kernel).features(form)``: what is known without running it."""
    return Space(kernel).features(form)


def measure(kernel: Kernel, form: Tuned, samples: int = 9) -> Measurement:
    """``Space(kernel).measure(form)``: all samples of a form, on random numbers."""
    return Space(kernel).measure(form, samples)


# ------------------------------------------------------------------------- numbers


def _crossed(one: Any, other: Any, rng: random.Random) -> Any:
    """A form with each number from one of two of its kind."""
    names = [item.name for item in fields(one)]
    return replace(one, **{name: getattr(rng.choice((one, other)), name) for name in names})


def _number(value: Any) -> float:
    if isinstance(value, bool):
        return float(value)
    return math.log2(1 + value) if value >= 0 else -1.0


def _loop_numbers(name: str, form: LoopForm, phase: Phase) -> Iterator[tuple[str, float]]:
    yield f"{name}.tile", _number(form.tile)
    yield f"{name}.steps", _number(form.steps)
    yield f"{name}.lanes_on_grid", float((form.lanes or phase.lanes) == "grid")
    yield f"{name}.one_thread", float(form.share < 0)
    yield f"{name}.share", _number(max(form.share, 0))


def _extent(axes: Sequence[Axis]) -> int:
    return math.prod(a.extent for a in axes)


def _kernel_features(kernel: Kernel) -> Iterator[tuple[str, float]]:
    """Sizes of a kernel, whatever its form."""
    sizes = {"in": 0, "out": 0, "work": 0}
    for buffer in kernel.buffers:
        nbytes = buffer.dtype.itemsize * math.prod(buffer.shape)
        for name in ("in", "out") if buffer.role == "inout" else (buffer.role,):
            sizes["work" if name == "band" else name] += nbytes
    operations = 0.0
    for number, phase in enumerate(kernel.phases):
        if isinstance(phase, ContractPhase):
            groups = (phase.batch, phase.rows, phase.columns, phase.inner)
            extents = [_extent(axes) for axes in groups]
            operations += 2.0 * math.prod(extents)
            for name, extent in zip(("batch", "m", "n", "k"), extents, strict=True):
                yield f"phase{number}.{name}", float(extent)
        elif isinstance(phase, CallPhase):
            yield f"phase{number}.routine", 1.0
        else:
            points = _extent(phase.grid)
            steps = max((s.axis.extent for s in phase.stages if s.axis is not None), default=1)
            operations += phase.work * points
            yield f"phase{number}.points", float(points)
            yield f"phase{number}.last_axis", float(phase.grid[-1].extent if phase.grid else 1)
            yield f"phase{number}.steps", float(steps)
            yield f"phase{number}.stages", float(len(phase.stages))
            yield f"phase{number}.point_bytes", float(point_bytes(phase))
    total = sizes["in"] + sizes["out"]
    yield from ((f"bytes_{name}", float(size)) for name, size in sizes.items())
    yield "operations", operations
    yield "intensity", operations / max(total, 1)


def _form_features(kernel: Kernel, form: Tuned, vector_bytes: int) -> dict[str, float]:
    """What a form makes of the kernel: bytes of tiles and panels, tasks for threads."""
    found: dict[str, float] = {}
    for number, (phase, loop) in enumerate(zip(kernel.phases, form.loops)):
        if isinstance(phase, Phase):
            last = phase.grid[-1].extent if phase.grid else 1
            on_grid = (loop.lanes or phase.lanes) == "grid"
            tile = (loop.tile or last) if on_grid else 1
            points = max(_extent(phase.grid), 1)
            found[f"phase{number}.tile_bytes"] = float(tile * point_bytes(phase))
            found[f"phase{number}.tiles"] = float(points // max(last, 1) * -(-last // max(tile, 1)))
    first = kernel.phases[0]
    if isinstance(form.form, PackedForm) and isinstance(first, ContractPhase):
        item, packed = first.accumulator.compute.itemsize, form.form
        lanes = max(vector_bytes // item, 1)
        found["tile_elements"] = float(packed.rows * packed.vectors * lanes)
        found["panel_bytes"] = float(packed.k_block * packed.col_block * item)
        found["rows_bytes"] = float(packed.k_block * packed.row_block * item)
    return found

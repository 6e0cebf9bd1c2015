"""Choices that were made by the clock rather than by heuristics: a value that printers are given.

A kernel is known by its signature, which is made of all that it computes: its IR as text, with
types, shapes and layouts. Whatever the choice, the bits of the results are the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from lazyt.codegen.conv.blocks import SlideForm
from lazyt.codegen.conv.lanes import LanesForm
from lazyt.codegen.conv.sums import SumsForm
from lazyt.codegen.loops.forms import LoopForm
from lazyt.codegen.matmul.contraction import DotForm, Form, PackedForm, RowForm
from lazyt.errors import LazytError
from lazyt.ir.kernel import FORM, CallPhase, ContractPhase, CustomPhase, Kernel
from lazyt.ir.printer import print_kernel

AnyForm = Form | SlideForm | SumsForm | LanesForm

_FORMS: dict[str, type[AnyForm]] = {
    "packed": PackedForm,
    "rows": RowForm,
    "dots": DotForm,
    "slide": SlideForm,
    "sums": SumsForm,
    "lanes": LanesForm,
}
_TYPES = re.compile(r"^( *(?:let|keep) \w+): \w+ =", re.MULTILINE)
#: No number of a form is larger.
_MOST = 1 << 31


class ChoiceError(LazytError):
    """Text that does not describe a choice."""


@dataclass(frozen=True)
class Tuned:
    """How a kernel is to be written.

    Attributes:
        form: of a contraction.
        exchanged: A and B change places in it.
        loops: of other kernels, for each phase.
    """

    form: AnyForm | None = None
    exchanged: bool = False
    loops: tuple[LoopForm, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        if self.form is None:
            return {"kind": "loops", "phases": [asdict(form) for form in self.loops]}
        kind = next(name for name, made in _FORMS.items() if type(self.form) is made)
        return {"kind": kind, "exchanged": self.exchanged, **asdict(self.form)}

    @staticmethod
    def from_dict(raw: object) -> Tuned:
        """What ``to_dict`` wrote. Raises ChoiceError for anything else."""
        if not isinstance(raw, dict):
            raise ChoiceError(f"a form has to be an object, not {raw!r}")
        rest = dict(raw)
        kind = rest.pop("kind", None)
        if kind == "loops":
            phases = rest.pop("phases", None)
            if rest or not isinstance(phases, list):
                raise ChoiceError(f"a form of kind 'loops' has 'phases', a list, alone: {raw!r}")
            return Tuned(loops=tuple(LoopForm(**_checked(LoopForm, p)) for p in phases))
        if not isinstance(kind, str) or kind not in _FORMS:
            known = ", ".join(("loops", *_FORMS))
            raise ChoiceError(f"no kind of form {kind!r}; there are {known}")
        exchanged = rest.pop("exchanged", None)
        if not isinstance(exchanged, bool):
            raise ChoiceError(f"'exchanged' has to be true or false, not {exchanged!r}")
        made = _FORMS[kind]
        return Tuned(made(**_checked(made, rest)), exchanged)

    def __str__(self) -> str:
        if self.form is not None:
            return f"{self.form}{' with A and B exchanged' if self.exchanged else ''}"
        return ", ".join(map(str, self.loops))


def _checked(made: type, raw: object) -> dict[str, Any]:
    """The fields of a form, of the right types."""
    if not isinstance(raw, dict):
        raise ChoiceError(f"a {made.__name__} has to be an object, not {raw!r}")
    wanted = {f.name: str(f.type) for f in fields(made)}
    if raw.keys() != wanted.keys():
        listed = ", ".join(wanted)
        raise ChoiceError(f"a {made.__name__} has the fields {listed}, not {', '.join(raw)}")
    for name, value in raw.items():
        kind = {"int": int, "bool": bool, "str": str}[wanted[name]]
        if type(value) is not kind or (isinstance(value, int) and not -1 <= value < _MOST):
            raise ChoiceError(f"{name!r} of a {made.__name__} cannot be {value!r}")
    return raw


@dataclass(frozen=True)
class Fusing:
    """How much becomes one kernel; 0 leaves it to the heuristics.

    Attributes:
        members: most values that a kernel computes.
        inline: largest reduction that is unrolled into its consumer, -1 for the setting.
    """

    members: int = 0
    inline: int = -1

    @staticmethod
    def from_dict(raw: object) -> Fusing:
        """What ``asdict`` made. Raises ChoiceError for anything else."""
        return Fusing(**_checked(Fusing, raw))


@dataclass(frozen=True)
class Choices:
    """What is chosen for kernels, by signature, and for graphs, by name."""

    kernels: Mapping[str, Tuned] = field(default_factory=dict)
    graphs: Mapping[str, Fusing] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.kernels or self.graphs)

    def of(self, kernel: Kernel) -> Tuned | None:
        """What is chosen for a kernel, None for nothing."""
        return self.kernels.get(signature(kernel)) if self.kernels else None


def with_form(kernel: Kernel, form: Tuned | None) -> Kernel:
    """A kernel with a note of the form that it is to have: ``print_kernel(kernel, forms=True)``
    prints it. None stands for what the heuristics choose."""
    noted = {"kind": "standard"} if form is None else form.to_dict()
    return replace(kernel, notes={**kernel.notes, FORM: noted})


def noted_form(kernel: Kernel) -> Tuned | None:
    """The form that a kernel's text asks for; None where it leaves that to the heuristics.

    Raises ChoiceError for what is no form, or one of another sort of kernel.
    """
    raw = kernel.notes.get(FORM)
    if raw is None or raw == {"kind": "standard"}:
        return None
    found = Tuned.from_dict(raw)
    loops = not isinstance(kernel.phases[0], ContractPhase)
    if loops != (found.form is None):
        raise ChoiceError(f"kernel {kernel.name} is no kernel for a form of this kind: {found}")
    if loops and len(found.loops) != len(kernel.phases):
        count = len(kernel.phases)
        raise ChoiceError(f"kernel {kernel.name} has {count} phases, its form {len(found.loops)}")
    return found


#: Nothing is chosen: heuristics decide.
NONE = Choices()


def signature(kernel: Kernel) -> str:
    """What the kernel computes, in short, and a hash of all of it."""
    # Types of names follow from their values: without them, winners of earlier versions stay known.
    text = _TYPES.sub(r"\1 =", print_kernel(kernel))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{outline(kernel)} #{digest}"


def outline(kernel: Kernel) -> str:
    """A kernel in a few words, for people."""
    first = kernel.phases[0]
    if isinstance(first, ContractPhase) and not kernel.bands:
        groups = (first.batch, first.rows, first.columns, first.inner)
        extents = [1, 1, 1, 1]
        for place, axes in enumerate(groups):
            for axis in axes:
                extents[place] *= axis.extent
        batch, m, n, k = extents
        return f"contract {first.accumulator.name} {batch}x{m}x{n}x{k}"
    if isinstance(first, CustomPhase):
        return f"custom {first.label}"
    kind = "routine" if isinstance(first, CallPhase) else "bands" if kernel.bands else "loops"
    outs = [b for b in kernel.buffers if b.role in ("out", "inout")]
    ins = [b for b in kernel.buffers if b.role == "in"]
    listed = [f"{b.dtype.name}{list(b.shape)}" for b in (*ins[:2], *outs[:1])]
    return f"{kind} {' '.join(listed)}".replace(", ", ",")

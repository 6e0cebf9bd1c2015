"""What programs add to the recipe from outside of the package: passes, policies, targets, and files
that register them.

``compiler`` has the functions that users call; this module remembers what is in force, and what
plans that are made by it are told apart by. In memory that is a number, one for each set of things
in force, which is part of ``config.of_plans``; on disk it is a digest of the code that they consist
of (``runtime/definitions.py``). Without any of them the number is 0 and the digest is empty, so
that the recipe's own plans are found again.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from lazyt.config import config
from lazyt.errors import LazytError, warn
from lazyt.ir.scalar import on_redefinition
from lazyt.runtime.definitions import NOTHING, Definition, definition_of

if TYPE_CHECKING:
    from lazyt.codegen.plan.policies import FusionPolicy, Tuner
    from lazyt.codegen.plan.target import Target
    from lazyt.compiler import KernelPass, Pass


class LoadError(LazytError):
    """A file with passes, ops or targets that cannot be loaded; the message has the place."""


class NotCachedWarning(UserWarning):
    """Plans are made anew by every process: there is no telling what they were made by."""


#: A registered pass, and the name of the one that it stands behind, or before.
Placed = tuple["Pass", str | None, str | None]


class Force(NamedTuple):
    """What is in force.

    Attributes:
        placed: passes that were registered.
        passes: the whole list in their place; None for the recipe's own with these.
        kernel_passes: steps from kernel to kernel.
        fuse, tuner: policies; None for the package's own.
        target: the name of what kernels for the CPU are printed for.
    """

    placed: tuple[Placed, ...] = ()
    passes: tuple[Pass, ...] | None = None
    kernel_passes: tuple[KernelPass, ...] = ()
    fuse: FusionPolicy | None = None
    tuner: Tuner | None = None
    target: str = "c"


#: The recipe as it is in the package.
RECIPE = Force()
#: What is in force now, in all threads.
force = RECIPE
#: Targets by name; ``extensions/targets.py`` adds those of the package.
registered: dict[str, Target] = {}
#: Functions that forget what was compiled: whoever keeps plans registers one.
on_change: list[Callable[[], None]] = []

#: Numbers of what was in force, by the identity of its parts, which are kept so that no others
#: have them; and how many are remembered.
_numbers: OrderedDict[tuple[Any, ...], tuple[int, Force]] = OrderedDict()
_MOST = 256
_last_number = 0
#: Digests by the same numbers.
_digests: dict[int, Definition] = {}
#: How often an op or a scalar function was defined anew.
_redefined = 0
_warned: set[str] = set()


# ------------------------------------------------------------- what is in force


def put_in_force(new: Force) -> None:
    """From now on programs are compiled by these."""
    global force
    force = new
    config.note_extensions((_number_of(new), _redefined))


def is_active() -> bool:
    """Whether anything but the recipe decides how a graph is compiled."""
    return not _is_recipe(force)


def needs_constants() -> bool:
    """Whether a pass has to see the numbers of programs."""
    steps = [step for step, _, _ in force.placed] if force.passes is None else force.passes
    return any(step.needs_constants for step in steps)


def arranged(recipe: Sequence[Pass]) -> tuple[Pass, ...]:
    """The passes in force: the whole list that a program gave, or the recipe's with those that are
    registered, each behind (or before) the pass that it names; at one place in the order in which
    they were registered."""
    if force.passes is not None:
        return force.passes
    steps = list(recipe)
    behind: dict[str | None, int] = {}
    for step, after, before in force.placed:
        if before is not None:
            steps.insert(_index(steps, before), step)
            continue
        place = len(steps) if after is None else _index(steps, after) + 1 + behind.get(after, 0)
        behind[after] = behind.get(after, 0) + 1
        steps.insert(place, step)
    return tuple(steps)


def _index(steps: Sequence[Pass], name: str) -> int:
    """The place of a pass; the end for one that was removed meanwhile."""
    names = [step.name for step in steps]
    return names.index(name) if name in names else len(names)


def _number_of(new: Force) -> int:
    global _last_number
    if _is_recipe(new):
        return 0
    parts: list[Any] = [part for placed in new.placed for part in placed]
    parts += ["recipe"] if new.passes is None else new.passes
    parts += [None, *new.kernel_passes, None, new.fuse, new.tuner, registered.get(new.target)]
    key = tuple([_identity(part) for part in parts])
    found = _numbers.get(key)
    if found is None:
        _last_number += 1
        found = _numbers[key] = _last_number, new
        if len(_numbers) > _MOST:
            _, (number, _) = _numbers.popitem(last=False)
            _digests.pop(number, None)
    _numbers.move_to_end(key)
    return found[0]


def _identity(part: Any) -> Any:
    """What tells a part from others: passes are equal where they run the same function on the same
    graphs, everything else where it is one object, which ``_numbers`` keeps."""
    if part is None or isinstance(part, str):
        return part
    run = getattr(part, "run", None)
    if run is None or not isinstance(run, Hashable):
        return id(part)
    return part.name, run, getattr(part, "needs_constants", False)


def _is_recipe(one: Force) -> bool:
    """Without comparing parts, which may have an equality of their own."""
    added = one.placed or one.kernel_passes or one.passes is not None
    return not added and one.fuse is None and one.tuner is None and one.target == "c"


def digest() -> Definition:
    """What is in force, by what it is defined as: equal in every process that has the same."""
    if _is_recipe(force):
        return NOTHING
    number = _number_of(force)
    found = _digests.get(number)
    if found is None:
        target = None if force.target == "c" else registered.get(force.target)
        parts = (*force[:-1], force.target, target)
        found = _digests[number] = definition_of(parts)
    return found


def warn_not_cached(hidden: Sequence[str]) -> None:
    """Says once of each object why plans are not kept on disk."""
    new = [name for name in hidden if name not in _warned]
    if new:
        _warned.update(new)
        warn(
            f"plans are not kept on disk: code from outside of lazyt names {', '.join(new)}, and "
            "what such an object holds cannot be told from its source. Make it inside of the "
            "function that uses it, or of numbers, texts, tuples and NumPy arrays.",
            NotCachedWarning,
        )


def _note_redefinition() -> None:
    """An op or scalar function has another meaning now: plans and captures of the old one go."""
    global _redefined
    _redefined += 1
    put_in_force(force)
    for function in on_change:
        function()


on_redefinition.append(_note_redefinition)


class Handle:
    """Something that was registered, until ``remove()``; as a context, until it ends."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo: Callable[[], None] | None = undo
        if _loading:
            _loading[-1].handles.append(self)

    def remove(self) -> None:
        """Takes it away: programs are compiled without it from now on. A second time does
        nothing."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


# -------------------------------------------------------------------- registering


def place_pass(step: Pass, after: str | None, before: str | None) -> Handle:
    """Puts a pass in force, among the recipe's."""
    placed = step, after, before

    def undo() -> None:
        put_in_force(force._replace(placed=tuple([p for p in force.placed if p is not placed])))

    put_in_force(force._replace(placed=(*force.placed, placed)))
    return Handle(undo)


def add_kernel_pass(step: KernelPass) -> Handle:
    """Puts a step from kernel to kernel in force, behind those that there are."""

    def undo() -> None:
        left = tuple([other for other in force.kernel_passes if other is not step])
        put_in_force(force._replace(kernel_passes=left))

    put_in_force(force._replace(kernel_passes=(*force.kernel_passes, step)))
    return Handle(undo)


def add_target(name: str, target: Target) -> Handle:
    """Gives a target a name."""
    registered[name] = target

    def undo() -> None:
        if registered.get(name) is target:
            del registered[name]

    return Handle(undo)


# ------------------------------------------------------------------------ files


class _Loaded:
    """A file that was loaded: its module, its text, and what it registered."""

    def __init__(self, module: ModuleType, text: bytes) -> None:
        self.module, self.text = module, text
        self.handles: list[Handle] = []


#: By full path, in the order of loading.
_files: dict[str, _Loaded] = {}
#: Those that are being loaded, inner ones last.
_loading: list[_Loaded] = []


def files() -> list[str]:
    """The full paths of the files that were loaded, for processes that are to load them, too."""
    return list(_files)


def are_loaded(modules: Sequence[str] | frozenset[str]) -> bool:
    """Whether these modules are files that were loaded, so that another process can have them."""
    return {item.module.__name__ for item in _files.values()} >= set(modules)


def load(path: str) -> ModuleType:
    """Runs a file that registers passes, ops, scalar functions, policies or targets.

    It becomes a module of the file's name, and modules in its folder can be imported by it. A file
    that is loaded already is not run again, unless its text has changed: then what it registered
    before is removed first.

    Args:
        path: a Python file.

    Returns the module.

    Raises LoadError, with file and line, for a file that cannot be read, is no Python, or raises.
    """
    full = os.path.realpath(path)
    try:
        with open(full, "rb") as file:
            text = file.read()
    except OSError as error:
        raise LoadError(f"cannot load {path}: {os.strerror(error.errno or 0)}") from None
    known = _files.get(full)
    if known is not None and known.text == text:
        return known.module
    if known is not None:
        _take_back(full)
    from importlib import util

    name = _name_of(full)
    folder = os.path.dirname(full)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = util.spec_from_file_location(name, full, loader=_Source(name, full))
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    made = _Loaded(module, text)
    sys.modules[name] = module
    _files[full] = made
    _loading.append(made)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        _take_back(full)
        raise LoadError(f"cannot load {path}: {_place_of(error, full)}") from error
    finally:
        _loading.pop()
    return module


class _Source(SourceFileLoader):
    """Compiles a file from its text every time: what bytecode on disk belongs to is told by a time
    in whole seconds, in which a file may be edited twice."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _take_back(full: str) -> None:
    """Forgets a file, and removes what it registered."""
    made = _files.pop(full)
    sys.modules.pop(made.module.__name__, None)
    for handle in reversed(made.handles):
        handle.remove()


def _name_of(full: str) -> str:
    """The name of a file's module: that of the file, unless another module has it."""
    stem = os.path.splitext(os.path.basename(full))[0]
    taken = stem in sys.stdlib_module_names or stem in ("lazyt", "numpy", "torch")
    if not stem.isidentifier() or taken or stem in sys.modules:
        stem = "loaded_" + "".join(c if c.isalnum() else "_" for c in stem)
    name, number = stem, 1
    while name in sys.modules:
        number += 1
        name = f"{stem}_{number}"
    return name


def _place_of(error: BaseException, full: str) -> str:
    """``file:line: error`` of what went wrong in a file."""
    import traceback

    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == full]
    frame = (own or frames)[-1] if frames else None
    if isinstance(error, SystemExit):
        text = f"it ended itself with exit code {error.code}"
    return f"{full}: {text}" if frame is None else f"{frame.filename}:{frame.lineno}: {text}"


def load_all(paths: Sequence[str]) -> None:
    """Loads files, and has processes that this one starts load them as well.

    Raises LoadError.
    """
    for path in paths:
        load(path)
    if paths:
        full = [os.path.realpath(path) for path in paths]
        known = [os.path.realpath(path) for path in config.load.split(os.pathsep) if path]
        config.load = os.pathsep.join(dict.fromkeys([*known, *full]))
        os.environ["LAZYT_LOAD"] = config.load


@contextlib.contextmanager
def put_aside() -> Iterator[None]:
    """A block in which the recipe alone is in force."""
    before = force
    put_in_force(RECIPE)
    try:
        yield
    finally:
        put_in_force(before)

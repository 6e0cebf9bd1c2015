"""The reference: a page for each subject, with every public function and class.

Docstrings say what a function does and which errors it raises. Dtypes, gradients and examples come
from the sample calls of tests/functional, which are made while the site is built, so an example
shows what lazyt gives. Sphinx has the pages written into docs/reference/api before it reads pages.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import coverage_page  # noqa: E402
import reference_examples  # noqa: E402
import torch_groups  # noqa: E402
from generate import ops_section, signature  # noqa: E402
from page_examples import Program  # noqa: E402
from reference_subjects import BELOW, MODULES, SUBJECTS, subject_of  # noqa: E402

import lazyt  # noqa: E402
from lazyt import __main__ as command_line  # noqa: E402
from lazyt import errors  # noqa: E402
from tests.functional.sample_values import DATA, FIXED  # noqa: E402
from tests.functional.samples import Sample, perform, tensors_in  # noqa: E402

FOLDER = ROOT / "docs" / "reference" / "api"
#: Operands and results of so many elements are written out.
SHOWN = 12


def _plain(text: str) -> str:
    """Text between pieces of code, with what Markdown would read as markup escaped."""
    return re.sub(r"([*_<>|\[\]#])", r"\\\1", text)


def _line(text: str) -> str:
    """A line of a docstring as Markdown."""
    parts = re.split(r"(``.*?``|`[^`]+`)", text)
    return "".join(
        f"`{part.strip('`')}`" if at % 2 else _plain(part) for at, part in enumerate(parts)
    )


def first_sentence(value: object) -> str:
    """The first sentence of a docstring as Markdown, on one line."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    found = re.match(r"(.*?[.:])(\s|$)", text)
    return _line((found.group(1) if found else text).rstrip(":")).replace("\\|", "|")


def _entries(lines: list[str]) -> Iterator[str]:
    """The entries of a section such as ``Args:`` as a list."""
    for line in lines:
        named = re.match(r"    (\*{0,2}\w[\w, *.]*?)( \([^)]*\))?: (.*)", line)
        if named:
            yield f"- `{named[1]}`{_line(named[2] or '')}: {_line(named[3])}"
        elif line.startswith("    ") and not line.startswith("     "):
            yield f"- {_line(line.strip())}"
        else:
            yield f"  {_line(line.strip())}"


def markdown_of(docstring: str) -> str:
    """A docstring as Markdown: paragraphs, examples, and its sections as lists."""
    found: list[str] = []
    lines = inspect.cleandoc(docstring).splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        section = re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes|Example|Examples):", line)
        indented = line.startswith("    ") or line.lstrip().startswith(">>>")
        if section or indented:
            end = at + 1
            while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
                end += 1
            body = lines[at + 1 : end] if section else lines[at:end]
            if section:
                found += ["", f"**{section[1]}**", ""]
            code = indented or (section is not None and section[1].startswith("Example"))
            text = inspect.cleandoc("\n".join(["", *body])) if code else ""
            found += ["```pycon", text, "```", ""] if code else [*_entries(body), ""]
            at = end
        else:
            found.append(_line(line))
            at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(found)).strip()


def _leaf(name: str, kind: str) -> str:
    """The line that makes an operand of a sample call, or says what it is."""
    tensor = coverage_page.Operands(lazyt, kind)[name]
    text = f"{str(tensor.dtype).split('.')[-1]}{list(tensor.shape)}"
    if tensor.numel() <= SHOWN and name not in ("empty0",):
        values = f"{tensor.tolist()}"
        dtype = "" if text.startswith(("float32", "int64", "bool")) else f", dtype=torch.{text}"
        return f"{name} = torch.tensor({values}{dtype})"
    return f"# {name} is a tensor {text}"


def _shown(result: Any) -> str | None:
    """A result for an example: values where they are few, else shapes and dtypes."""
    tensors = tensors_in(lazyt, result)
    if not tensors:
        return repr(result) if isinstance(result, (bool, int, float)) else None
    if sum(tensor.numel() for tensor in tensors) <= SHOWN and len(tensors) <= 3:
        return repr(result if len(tensors) > 1 else tensors[0])
    kinds = [f"{str(t.dtype).split('.')[-1]}{list(t.shape)}" for t in tensors[:4]]
    return "a tensor " + ", ".join(kinds) if len(tensors) == 1 else ", ".join(kinds)


def _call_text(sample: Sample, names: set[str]) -> str:
    """The call as one would write it."""
    if sample.place == "Tensor":
        first, _, rest = sample.text.partition(",")
        return f"{first.strip()}.{sample.name}({rest.strip()})" if first.strip() in names else ""
    if sample.place == "nn":
        return f"torch.nn.{sample.name}({sample.made})({sample.text})"
    place = "torch" if sample.place == "torch" else f"torch.{sample.place}"
    return f"{place}.{sample.name}({sample.text})"


def written_example(place: str, name: str) -> list[str]:
    """The example of ``reference_examples`` with what it prints and gives."""
    code = reference_examples.code_of(place, name)
    if not code:
        return []
    program = Program(f"{name}.py")
    program.names["torch"] = lazyt
    with lazyt.config.override(interpret=False, tier="auto"):
        printed, value = program.run(code, cell=True)
        shown = printed + ("" if value is None else f"{value!r}\n")
    return ["```python", code, "```", "", "```output", shown.rstrip("\n"), "```", ""]


def example(samples: list[Sample]) -> list[str]:
    """A call that succeeds with what it gives."""
    for sample in samples:
        for kind in ("float32", "int64", "bool"):
            try:
                result, operands = perform(lazyt, sample, kind)
                shown = _shown(result)
            except Exception:  # this dtype is refused
                continue
            names = [n for n in operands if n in DATA or n in FIXED]
            text = _call_text(sample, set(names))
            if shown is None or not text:
                continue
            text = re.sub(r"\bt\b", f"torch.{kind}", text)
            lines = [_leaf(name, kind) for name in names]
            if sample.random:
                shown = f"{shown}\n(another one with every seed)"
            return ["```python", *lines, text, "```", "", "```output", shown, "```", ""]
    return []


def peer_name(place: str, name: str) -> str:
    """The page of PyTorch's documentation on the same name, in words."""
    if name not in torch_groups.API.get(place, {}):
        return ""
    return f"torch.{name}" if place == "torch" else f"torch.{place}.{name}"


@functools.cache
def samples(place: str) -> dict[str, list[Sample]]:
    """The sample calls of a place, by name."""
    return coverage_page.by_name(place) if place in coverage_page.CALLED else {}


def facts(place: str, name: str) -> Iterator[str]:
    """What is known of a function beside its docstring: dtypes, gradient, other forms."""
    called = samples(place).get(name, [])
    if called:
        yield f"dtypes: {coverage_page.dtypes_text(coverage_page.accepted(called))}"
        yield f"gradient: {coverage_page.gradient_text(called)}"
    if place == "torch":
        forms = [f for f in (name, f"{name}_") if f in dir(lazyt.Tensor)]
        if forms:
            yield "methods: " + ", ".join(f"`Tensor.{form}`" for form in forms)
    if place in (below for below, *_ in BELOW):
        return
    peer = peer_name(place, name)
    yield f"PyTorch: `{peer}`" if peer else "not in PyTorch"


def _methods(value: type) -> Iterator[str]:
    """The public methods that a class has of its own."""
    for name, member in sorted(vars(value).items()):
        if name[0] != "_" and callable(member) and inspect.getdoc(member):
            yield f"- `{signature(name, member)}`: {first_sentence(member)}"


def entry(place: str, name: str, value: Any, prefix: str) -> Iterator[str]:
    """The section of a function or class."""
    yield f"## `{name}`\n"
    yield f"```python\n{prefix}{signature(name, value)}\n```\n"
    yield markdown_of(inspect.getdoc(value) or "") + "\n"
    if value is lazyt.Tensor:
        yield "[Tensor](tensor.md) lists its methods.\n"
    elif isinstance(value, type) and not issubclass(value, Exception):
        methods = list(_methods(value))
        if methods:
            yield "**Methods**\n\n" + "\n".join(methods) + "\n"
    yield " · ".join(_line(fact) for fact in facts(place, name)) + "\n"
    yield "\n".join(written_example(place, name) or example(samples(place).get(name, [])))


def page(title: str, about: str, place: str, names: list[str], owner: Any, prefix: str) -> str:
    """A page: what it is about, a table of its names, and an entry for each."""
    public = sorted(names, key=str.lower)
    rows, anchors = [], list[str]()
    for name in public:
        again = anchors.count(name.lower())
        anchors.append(name.lower())
        anchor = f"{name.lower()}-{again}" if again else name.lower()
        cell = first_sentence(getattr(owner, name)).replace("|", "\\|")
        rows.append(f"| [`{name}`](#{anchor}) | {cell} |")
    parts = [f"# {title}\n", about + "\n", "| name | what it does |\n|---|---|", *rows, ""]
    for name in public:
        parts += entry(place, name, getattr(owner, name), prefix)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _callables(owner: Any, names: Iterator[str] | list[str]) -> list[str]:
    """Names of functions and classes that lazyt defines."""
    found = []
    for name in names:
        value = getattr(owner, name, None)
        if callable(value) and str(getattr(value, "__module__", "")).startswith("lazyt"):
            found.append(name)
    return found


def public_names(place: str, module: Any) -> list[str]:
    """The public names of a module: those that it lists, else those that PyTorch has there."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        known = torch_groups.API.get(place, {})
        own = module.__name__
        listed = [
            n for n in dir(module)
            if n[0] != "_"
            and (n in known or (not known and getattr(module, n).__class__.__name__ != "module"
                                and str(getattr(getattr(module, n), "__module__", "")) == own))
        ]  # fmt: skip
    return _callables(module, list(listed))


def top_names() -> list[str]:
    """The functions and classes of ``lazyt`` itself that have an entry."""
    listed = [n for n in dir(lazyt) if n[0] != "_"]
    # In-place forms are told of as methods of the function without the underscore.
    return [n for n in _callables(lazyt, listed) if not (n[-1] == "_" and n[:-1] in listed)]


def top_pages() -> Iterator[tuple[str, str]]:
    """The functions of ``lazyt`` itself, by subject."""
    names: dict[str, list[str]] = {}
    for name in top_names():
        names.setdefault(subject_of(name).file, []).append(name)
    for subject in SUBJECTS:
        if subject.file in names:
            about = subject.about
            found = names[subject.file]
            yield subject.file, page(subject.title, about, "torch", found, lazyt, "lazyt.")


def module_pages() -> Iterator[tuple[str, str]]:
    """Modules of the API."""
    for place, file, title in (*MODULES, *BELOW):
        module = importlib.import_module(f"lazyt.{place}")
        about = markdown_of(inspect.getdoc(module) or "")
        names = public_names(place, module)
        yield file, page(f"`{title}`", about, place, names, module, f"{title}.")


def tensor_page() -> str:
    """Methods and attributes of tensors."""
    names = [n for n in dir(lazyt.Tensor) if n[0] != "_"]
    methods = [n for n in names if callable(getattr(lazyt.Tensor, n))]
    attributes = [n for n in names if n not in methods]
    lines = [
        "# Tensor\n", markdown_of(inspect.getdoc(lazyt.Tensor) or "") + "\n",
        "A method with the name of a function of `lazyt` does what the function does, with the",
        "tensor as its first argument; the function's page has the details. A name that ends with",
        "an underscore writes the result into the tensor.\n",
        "## Attributes\n",
    ]  # fmt: skip
    for name in attributes:
        value = inspect.getattr_static(lazyt.Tensor, name)
        text = first_sentence(value) if not isinstance(value, (int, bool)) else ""
        lines.append(f"- `{name}`" + (f": {text}" if text else ""))
    lines.append("\n## Methods\n")
    for name in methods:
        value = getattr(lazyt.Tensor, name)
        lines.append(f"- `{signature(name, value)}`: {first_sentence(value)}")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """Exceptions and warnings."""
    lines = ["# Errors and warnings\n", markdown_of(inspect.getdoc(errors) or "") + "\n"]
    for name, value in vars(errors).items():
        if isinstance(value, type) and value.__module__ == errors.__name__:
            bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
            lines += [f"## `{name}`\n", f"Is a {bases}.\n", markdown_of(value.__doc__ or "") + "\n"]
    return "\n".join(lines)


def ops_page() -> str:
    """The vocabulary of graphs."""
    head = "# Ops of the graph\n\nWhat a graph is made of, with the parameters of each op.\n\n"
    return head + "\n".join(ops_section()) + "\n"


def commands_page() -> str:
    """The help of every command."""
    lines = ["# Commands\n", "`lazyt COMMAND` is short for `python -m lazyt COMMAND`.\n"]
    for name, about in command_line.COMMANDS.items():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            command_line.main([name, "--help"])
        lines += [f"## `{name}`\n", _plain(about) + ".\n", f"```text\n{printed.getvalue()}```\n"]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    for name in ("nn", "optim", "utils.data"):
        importlib.import_module(f"lazyt.{name}")
    found: dict[str, str] = {}
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        lazyt.manual_seed(0)
        found.update(top_pages())
        found.update(module_pages())
    makers: dict[str, Callable[[], str]] = {
        "tensor": tensor_page, "errors": errors_page, "ops": ops_page, "commands": commands_page,
    }  # fmt: skip
    return {**found, **{name: make() for name, make in makers.items()}}


def write() -> None:
    """Writes the pages that changed, and removes those that are no more."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = pages()
    for path in FOLDER.glob("*.md"):
        if path.stem not in found:
            path.unlink()
    for name, text in found.items():
        path = FOLDER / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

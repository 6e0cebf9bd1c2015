"""CUDA C as a C++ compiler takes it: what has no meaning there is replaced, each line at its place.

Host code that launches kernels, and CUDA's headers, go. Shared arrays become references to memory
of the checker's, and variables of the device get a section of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from lazyt.errors import SourceError

#: What compilers call the user's text.
FILE = "kernel.cu"
#: What is refused, and what to do instead.
_REFUSED = (
    (r"\bthis_(?:multi_)?grid\b|\bgrid_group\b|\bthis_cluster\b|\bmemcpy_async\b",
     "groups beyond a block, and asynchronous copies, are not checked"),
    (r"\basm\b|\b__asm__\b", "inline PTX is not checked"),
    (r"\bwmma\b|\bnvcuda\b", "tensor cores (wmma) are not checked"),
    (r"\bcuda::|\bcub::|\bthrust::", "classes of CUDA's C++ libraries are not checked"),
    (r"\bcudaTextureObject_t\b|\btex[123]D\w*\s*\(", "textures are not checked"),
)  # fmt: skip
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_HEADER = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:cuda|cublas|cufft|curand|cusparse|nccl|device_|"
    r"helper_|math_constants|vector_|cooperative_groups|mma\.|sm_|nvrtc|nvToolsExt|crt/)[^>\"\n]*[>\"][^\n]*",
    re.MULTILINE,
)
_LINE = re.compile(r'^#line (\d+) "([^"\n]*)"\n', re.MULTILINE)
_QUOTED = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"')
_ALLOCATES = re.compile(r"\bnew\b|(?<![\w.])malloc\s*\(")
_KERNEL = re.compile(r"\b__global__\b")
_NAMED = re.compile(r"(\w+)\s*\(")
_FUNCTION = re.compile(r"\)\s*(?:const|noexcept|->[\w:<>*& ]+|\s)*$")
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
_LONGEST_HEAD = 1000


@dataclass(frozen=True)
class KernelText:
    """A ``__global__`` function of a text: its name, its first and last line, the names of its
    parameters, and whether it is a template."""

    name: str
    line: int
    last: int
    parameters: tuple[str, ...]
    is_template: bool


def blanked(text: str) -> str:
    """The text with comments and what stands in quotes as blanks, and every letter at its place."""
    return _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def located(text: str, what: str, line: int, column: int) -> str:
    """A message with its place, and the line of the text below it."""
    lines = text.split("\n")
    if not 0 < line <= len(lines):
        return what
    shown = lines[line - 1].replace("\t", " ").rstrip()[:200]
    place = f"line {line}, column {column}" if column else f"line {line}"
    mark = f"\n    {' ' * (min(column, 200) - 1)}^" if column else ""
    return f"{place}: {what}\n    {shown}{mark}"


def _fail(text: str, what: str, offset: int) -> NoReturn:
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    file = FILE
    for found in _LINE.finditer(text, 0, offset):
        since = text.count("\n", found.end(), offset)
        line, file = int(found[1]) + since - 1, found[2]
    if file != FILE:
        raise SourceError(f"{file}, line {line}, column {column}: {what}")
    shown = text[offset - column + 1 :].split("\n", 1)[0]
    text = "\n" * (line - 1) + shown
    raise SourceError(located(text, what, line, column), line, column)


def _with_headers(text: str, folders: Sequence[str], known: set[str], file: str) -> str:
    """The text with the headers in quotes that are in some folders, each once."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        found = _QUOTED.match(line)
        paths = [os.path.join(folder, found[1]) for folder in folders] if found else []
        path = next((path for path in paths if os.path.isfile(path)), None)
        if found is None or path is None:
            continue
        lines[number - 1] = ""
        if path not in known:
            known.add(path)
            with open(path, encoding="utf-8", errors="replace") as header:
                inner = _with_headers(header.read(), folders, known, found[1])
            lines[number - 1] = f'#line 1 "{found[1]}"\n{inner}\n#line {number} "{file}"\n'
    return "\n".join(lines)


def _close(plain: str, start: int, pair: str = "{}") -> int:
    """Where the bracket that opens at ``start`` is closed; the end if nowhere."""
    depth = 0
    for found in re.compile(f"[{re.escape(pair)}]").finditer(plain, start):
        depth += 1 if found[0] == pair[0] else -1
        if depth == 0:
            return found.start()
    return len(plain) - 1


def split(plain: str, at: str = ",") -> list[str]:
    """The parts of a list, whose commas in brackets do not count."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(plain):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == at and depth == 0:
            parts.append(plain[start:place])
            start = place + 1
    return [*parts, plain[start:]]


def find_kernels(text: str) -> list[KernelText]:
    """The ``__global__`` functions that a text defines."""
    plain, found = blanked(text), []
    for word in _KERNEL.finditer(plain):
        head = plain[word.end() : word.end() + _LONGEST_HEAD]
        named = _NAMED.search(_BOUNDS.sub(lambda found: " " * len(found[0]), head))
        if named is None:
            continue
        opening = word.end() + named.end() - 1
        closing = _close(plain, opening, "()")
        body = plain.find("{", closing)
        if body < 0 or plain[closing + 1 : body].strip():
            continue
        names = []
        for part in split(plain[opening + 1 : closing]):
            words = re.findall(r"\w+", re.sub(r"=.*|\[[^\]]*\]", "", part, flags=re.DOTALL))
            if words and words != ["void"]:
                names.append(words[-1])
        line = plain.count("\n", 0, word.end() + named.start()) + 1
        before = re.split(r"[;}]", plain[max(word.start() - _LONGEST_HEAD, 0) : word.start()])[-1]
        last = line + plain.count("\n", word.end() + named.start(), _close(plain, body))
        found.append(KernelText(named[1], line, last, tuple(names), "template" in before))
    return found


def for_compiler(text: str, folders: Sequence[str] = ()) -> str:
    """The text as C++ that stands behind ``device.h``, with headers from some folders. Raises
    SourceError for what is not checked, with line and column."""
    text = _with_headers(text.replace("\r\n", "\n"), folders, set(), FILE)
    plain = blanked(text)
    for pattern, why in _REFUSED:
        if found := re.search(pattern, plain):
            _fail(text, why, found.start())
    text = _HEADER.sub(lambda found: " " * len(found[0]), text)
    text = _without_host_code(text)
    if found := _ALLOCATES.search(blanked(text)):
        _fail(text, "memory that kernels allocate is not checked", found.start())
    text = _with_device_variables(text)
    text = _with_shared_arrays(text)
    for name in ("memcpy", "memset"):
        text = re.sub(rf"(?<![\w.]){name}(?=\s*\()", f"lz_{name}", text)
    return text


def _without_host_code(text: str) -> str:
    """Functions of the host become blanks: those without ``__device__`` and the like, also by the
    text's macros."""
    plain, place, out = blanked(text), 0, text
    macros = re.findall(
        r"^[ \t]*#[ \t]*define[ \t]+(\w+)[^\n]*__(?:global|device)__", plain, re.MULTILINE
    )
    ours = re.compile(rf"\b(?:{'|'.join(['__global__', '__device__', 'constexpr', *macros])})\b")
    while (opening := plain.find("{", place)) >= 0:
        start = max(place, *(plain.rfind(mark, place, opening) + 1 for mark in ";}"))
        head = re.sub(r"^[ \t]*#[^\n]*", "", plain[start:opening], flags=re.MULTILINE)
        if re.search(r"\b(namespace|extern)\b[^()]*$", head):
            place = opening + 1
            continue
        closing = _close(plain, opening)
        if _FUNCTION.search(head) and not ours.search(head):
            blank = re.sub(r"[^\n]", " ", text[start : closing + 1])
            blank = _keep_directives(text[start : closing + 1], blank)
            out = out[:start] + blank + out[closing + 1 :]
        elif "<<<" in plain[opening:closing]:
            what = "kernels that launch kernels are not checked"
            _fail(text, what, plain.index("<<<", opening))
        place = closing + 1
    return out


def _keep_directives(old: str, blank: str) -> str:
    lines = zip(old.split("\n"), blank.split("\n"), strict=True)
    return "\n".join(a if a.lstrip().startswith("#") else b for a, b in lines)


def _with_device_variables(text: str) -> str:
    """Variables with ``__device__`` or ``__constant__`` get the section that the checker knows."""
    plain = blanked(text)
    spans: list[tuple[int, int, str]] = []
    for word in re.finditer(r"\b__(device|constant|managed)__\b", plain):
        after = plain[word.end() :]
        mark = re.search(r"[;=({\[]", re.sub(r"__align__\s*\(\s*\w+\s*\)", " " * 8, after))
        if word[1] != "device" or (mark and mark[0] in ";=[") or (mark and mark[0] == "{"):
            spans.append((word.start(), word.end(), "LZ_DEVICE_VARIABLE"))
    for start, end, new in reversed(spans):
        text = text[:start] + new + text[end:]
    return text


_ARRAY = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)$")


def _with_shared_arrays(text: str) -> str:
    """Declarations with ``__shared__`` become references to the checker's memory."""
    place = 0
    while found := re.search(r"\b__shared__\b", blanked(text)[place:]):
        plain = blanked(text)
        word = place + found.start()
        end = plain.find(";", word)
        if end < 0:
            _fail(text, "a __shared__ declaration without an end", word)
        before = max(plain.rfind(mark, 0, word) for mark in ";{}\n")
        prefix = plain[before + 1 : word]
        body = plain[word + len("__shared__") : end]
        if "=" in body or "{" in body:
            _fail(text, "shared memory has no values at first; write them, then a barrier", word)
        made = _references(text, prefix, body, word)
        lines = "\n" * plain[before + 1 : end].count("\n")
        text = f"{text[: before + 1]}{made}{lines}{text[end + 1 :]}"
        place = before + 1 + len(made)
    return text


def _references(text: str, prefix: str, body: str, word: int) -> str:
    is_dynamic = bool(re.search(r"\bextern\b", prefix))
    volatile = "volatile " if re.search(r"\bvolatile\b", prefix + body) else ""
    strip = r"(?:__align__|alignas)\s*\([^)]*\)|\b(?:volatile|static|extern|__device__)\b"
    body = re.sub(strip, " ", body)
    own = re.sub(strip, " ", prefix).strip()
    first, *others = split(body)
    named = _ARRAY.search(first.rstrip())
    if named is None:
        _fail(text, "a __shared__ declaration that cannot be read", word)
    kind = f"{own} {first[: named.start()]}".strip()
    made = []
    for item in [named[0], *others]:
        one = _ARRAY.search(item.strip())
        if one is None:
            _fail(text, "a __shared__ declaration that cannot be read", word)
        name, extents = one[1], one[2]
        of = f"lz_type_{name}"
        declared = f"typedef {volatile}{kind} {of}{extents}; "
        if is_dynamic:
            value = f'lz::dynamic_array<{of}>("{name}")'
        else:
            declared += f"struct lz_id_{name}; "
            value = f'lz::shared_array<{of}, lz_id_{name}>("{name}")'
        made.append(f"{declared}{of} &{name} = {value};")
    return " ".join(made)

"""``python -m lazyt cache``: take compiled kernels along to another machine, and say what is there.

`export` writes the programs that were compiled for this machine by its compiler, the plans that
lead to them, and what tuning found. `import` takes over what the machine that it runs on would
find again: programs for the same CPU features by the same compiler with the same flags, plans of
the same code of lazyt. What these programs do is up to whoever wrote the file, as with any program:
a file that others may write to is not taken, and all contents are checked against their checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import sys
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

from lazyt.errors import CompileError, LazytError, NoCompilerError
from lazyt.tools.arguments import Parser, UsageError

FORMAT = 1
_MANIFEST = "manifest.json"
_MOST_MANIFEST = 1 << 28


class CacheFileError(LazytError):
    """A file that is no export of the cache, is damaged, or cannot be of use here."""


def _parser() -> Parser:
    parser = Parser(prog="lazyt cache", description=__doc__)
    parts = parser.add_subparsers(dest="action", required=True, parser_class=Parser)
    for name, text in (
        ("export", "write what was compiled for this machine"),
        ("import", "take over what `export` wrote on a machine like this one"),
    ):
        parts.add_parser(name, help=text).add_argument("file", help="the file")
    parts.add_parser("info", help="say where the cache is and how much is in it")
    return parser


def run(argv: Sequence[str]) -> int:
    """The command. Raises UsageError for files that cannot be opened, and CacheFileError."""
    from lazyt.runtime import cache

    wanted = _parser().parse_args(argv)
    if wanted.action == "info":
        size, count = cache.usage()
        print(f"{cache.folder()}: {count} programs, {size / 2**20:.1f} MiB")
        return 0
    try:
        lines = (export if wanted.action == "export" else import_)(wanted.file)
    except OSError as error:
        raise UsageError(f"{wanted.file}: {error.strerror or error}") from None
    print("\n".join(lines))
    return 0


# ---------------------------------------------------------------------- the machine


def machine() -> dict[str, Any]:
    """What decides which entries of a cache are found. Raises NoCompilerError, CompileError."""
    from lazyt.plan import build
    from lazyt.runtime import cache, devices
    from lazyt.runtime.cpu import compile, execute
    from lazyt.version import __version__

    cpu = devices.cpu()
    return {
        "platform": f"{sys.platform} {platform.machine()}",
        "cache": cache.FORMAT,
        "features": [*cpu.features],
        "compiler": compile.find().identity().split("\n"),
        "made_for": execute.made_for(),
        "cpu": f"{cpu.cores} cores, caches of {cpu.l1}, {cpu.l2} and {cpu.l3} bytes",
        "lazyt": __version__,
        "code": build.code_stamp(),
    }


def _why_no_programs(theirs: dict[str, Any], mine: dict[str, Any]) -> str:
    """Why programs of another machine would not be found here; empty where they are."""
    if theirs["made_for"] == mine["made_for"]:
        return ""
    lacks = sorted({*theirs["features"]} - {*mine["features"]})
    more = sorted({*mine["features"]} - {*theirs["features"]})
    if lacks:
        return f"they are for a CPU with {_few(lacks)}, which this one has not"
    if more:
        return f"they are for a CPU without {_few(more)}; this one has it, and uses other kernels"
    pairs = [*zip(theirs["compiler"], mine["compiler"]), (theirs["compiler"], mine["compiler"])]
    other, own = next(pair for pair in pairs if pair[0] != pair[1])
    return f"they were compiled by another compiler, or with other flags: {other}, here {own}"


def _why_no_plans(theirs: dict[str, Any], mine: dict[str, Any]) -> str:
    """Why plans would not be found here; empty where they are."""
    if theirs["code"] != mine["code"]:
        own, other = mine["lazyt"], theirs["lazyt"]
        versions = f"{other}, here {own}" if own != other else f"{own}, but with other files"
        return f"they were made by another version of lazyt: {versions}"
    if theirs["cpu"] != mine["cpu"]:
        return f"they were made for another CPU: {theirs['cpu']}, here {mine['cpu']}"
    return ""


def _few(names: list[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


# ---------------------------------------------------------------------- writing


def export(path: str) -> list[str]:
    """Writes the cache to a file; lines that say what is in it, and what is not.

    Raises OSError where the file cannot be written, NoCompilerError and CompileError where it is
    not known what this machine's programs are.
    """
    from lazyt.runtime import cache, winners

    own = machine()
    manifest: dict[str, Any] = {"format": FORMAT, "machine": own, "programs": {}, "files": {}}
    left = 0
    temporary = f"{path}.{os.getpid()}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
            for key, facts in cache.binaries():
                binary = cache.get_binary(key) if facts.get("made_for") == own["made_for"] else None
                if binary is None:
                    left += 1
                    continue
                with binary:
                    _add(archive, manifest, f"{key}.so", binary.data)
                _add(archive, manifest, f"{key}.c", cache.get_source(key).encode())
                manifest["programs"][key] = facts
            for name, data in cache.texts("plan"):
                _add(archive, manifest, name, data)
            tuned = winners.to_text()
            manifest["tuned"] = sum(map(len, winners.tables().values()))
            _add(archive, manifest, "tuned.json", tuned.encode())
            archive.writestr(_MANIFEST, json.dumps(manifest))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    plans = sum(name.startswith("plan-") for name in manifest["files"])
    counts = f"{len(manifest['programs'])} programs, {plans} plans, {manifest['tuned']} tuned forms"
    lines = [f"{path}: {counts}"]
    if left:
        lines.append(f"left out: {left} programs of other compilers, CPUs, GPUs or older versions")
    return lines


def _add(archive: zipfile.ZipFile, manifest: dict[str, Any], name: str, data: bytes) -> None:
    manifest["files"][name] = {"bytes": len(data), "checksum": _checksum(data)}
    archive.writestr(name, data)


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


# ---------------------------------------------------------------------- reading


def import_(path: str) -> list[str]:
    """Takes over what a file holds for this machine; lines that say what was taken, and what was
    not and why.

    Raises OSError where the file cannot be read, CacheFileError where it is not to be trusted, is
    damaged or of another kind of machine; nothing is taken then.
    """
    with open(path, "rb") as raw:
        return _import_from(raw, path)


def _import_from(raw: IO[bytes], path: str) -> list[str]:
    from lazyt.runtime import cache

    status = os.fstat(raw.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise CacheFileError(f"{path} is no file")
    try:
        cache.require_own_file(raw.fileno(), path)
    except OSError as error:
        raise CacheFileError(
            f"{error}. What it holds would run as you: where you know that it comes from you, "
            f"`chmod go-w {path}`, or copy it"
        ) from None
    try:
        with zipfile.ZipFile(raw) as archive:
            manifest = _manifest_of(archive, path)
            contents = dict(_checked(archive, manifest, path))
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, LazytError):
            raise
        raise CacheFileError(f"{path} is damaged, or no export of a cache: {error}") from None
    return _take(manifest, contents, path)


def _manifest_of(archive: zipfile.ZipFile, path: str) -> dict[str, Any]:
    """What a file says of itself. Raises CacheFileError."""
    try:
        if archive.getinfo(_MANIFEST).file_size > _MOST_MANIFEST:
            raise CacheFileError(f"{path}: its manifest is too long")
        found = json.loads(archive.read(_MANIFEST))
        version, theirs = found["format"], found["machine"]
        if version != FORMAT:
            raise CacheFileError(f"{path} has format {version!r}; this version reads {FORMAT}")
        names = ("platform", "cache", "features", "compiler", "made_for", "cpu", "lazyt", "code")
        if any(name not in theirs for name in names):
            raise CacheFileError(f"{path} does not say which machine it is of")
        if not isinstance(found["programs"], dict) or not isinstance(found["files"], dict):
            raise CacheFileError(f"{path} has no list of what it holds")
    except (KeyError, ValueError, TypeError):
        raise CacheFileError(f"{path} is no export of a cache") from None
    manifest: dict[str, Any] = found
    return manifest


def _checked(
    archive: zipfile.ZipFile, manifest: dict[str, Any], path: str
) -> Iterator[tuple[str, bytes]]:
    """The contents that the manifest names. Raises CacheFileError where one is another."""
    from lazyt.config import config

    total = 0
    for name, facts in manifest["files"].items():
        try:
            size, checksum = int(facts["bytes"]), facts["checksum"]
            total += size
            if total > config.cache_bytes:
                raise CacheFileError(
                    f"{path} holds more than the cache may, {config.cache_bytes >> 20} MiB "
                    "(LAZYT_CACHE_BYTES)"
                )
            with archive.open(name) as member:
                data = member.read(size + 1)  # and not what a forged archive grows to
        except (KeyError, ValueError, TypeError):
            raise CacheFileError(f"{path} is damaged: {name} is missing") from None
        if len(data) != size or _checksum(data) != checksum:
            raise CacheFileError(f"{path} is damaged: {name} does not match its checksum")
        yield name, data


def _take(manifest: dict[str, Any], contents: dict[str, bytes], path: str) -> list[str]:
    theirs = manifest["machine"]
    here = f"{sys.platform} {platform.machine()}"
    if theirs["platform"] != here:
        raise CacheFileError(f"{path} is of {theirs['platform']}; this is {here}")
    try:
        mine = machine()
    except (NoCompilerError, CompileError) as error:
        raise CacheFileError(
            "nothing is taken: programs are found by the compiler that made them, and here is "
            f"none that works ({str(error).splitlines()[0]})"
        ) from None
    if theirs["cache"] != mine["cache"]:
        raise CacheFileError(f"{path} is of a version of lazyt that keeps its cache otherwise")
    lines = [
        _take_programs(manifest["programs"], contents, _why_no_programs(theirs, mine)),
        _take_plans(contents, _why_no_plans(theirs, mine)),
    ]
    if manifest.get("tuned"):
        lines.append(_take_tuned(contents.get("tuned.json", b""), path))
    return lines


def _take_programs(programs: dict[str, Any], contents: dict[str, bytes], fault: str) -> str:
    from lazyt.runtime import cache

    if fault:
        return f"programs: none of {len(programs)} taken: {fault}"
    taken = refused = known = 0
    for key, facts in programs.items():
        binary = contents.get(f"{key}.so")
        if not key.isalnum() or not isinstance(facts, dict) or binary is None:
            refused += 1
            continue
        there = cache.get_binary(key)
        if there is not None:
            with there:
                known += 1
            continue
        source = contents.get(f"{key}.c", b"").decode(errors="replace")
        own = {k: v for k, v in facts.items() if k not in ("key", "binary", "check", "bytes")}
        if cache.put_binary(key, binary, source, own):
            taken += 1
        else:
            refused += 1
    return f"programs: {taken} taken" + _counted(known, refused)


def _take_plans(contents: dict[str, bytes], fault: str) -> str:
    from lazyt.runtime import cache

    plans = {name: data for name, data in contents.items() if name.startswith("plan-")}
    if fault:
        return f"plans: none of {len(plans)} taken: {fault}"
    taken = sum(cache.adopt_text(name, data) for name, data in plans.items())
    return f"plans: {taken} taken" + _counted(0, len(plans) - taken)


def _take_tuned(data: bytes, path: str) -> str:
    from lazyt.runtime import winners
    from lazyt.tuning.found import check

    try:
        tables = winners.from_text(data.decode(errors="replace"), path)
        check(tables, path)
    except LazytError as error:
        return f"tuned forms: none taken: {str(error).partition('; any_machine')[0]}"
    winners.add(tables)
    return f"tuned forms: {sum(map(len, tables.values()))} taken"


def _counted(known: int, refused: int) -> str:
    said = f", {known} were there" if known else ""
    return said + (f", {refused} refused (damaged, or the cache cannot be written)" * bool(refused))

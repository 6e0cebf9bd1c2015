"""``python -m lazyt tune``: run a program with tuning on, and look after what was found."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

from lazyt.tools.arguments import Parser, UsageError, write_output


def _parser() -> Parser:
    parser = Parser(prog="lazyt tune", description=__doc__)
    parts = parser.add_subparsers(dest="action", required=True, parser_class=Parser)
    run_ = parts.add_parser("run", help="run a Python program; every plan is tuned once")
    run_.add_argument("--seconds", type=int, default=20, help="budget of each plan (20)")
    run_.add_argument("script", help="the program")
    run_.add_argument("arguments", nargs="...", help="what it is given")
    parts.add_parser("list", help="what was found on this machine")
    export = parts.add_parser("export", help="write it as JSON")
    export.add_argument("file", help="the file, - for standard output")
    load = parts.add_parser("import", help="take over what `export` wrote")
    load.add_argument("file", help="the file")
    load.add_argument("--any-machine", action="store_true", help="also that of another machine")
    parts.add_parser("clear", help="forget what was found on this machine")
    return parser


def run(argv: Sequence[str]) -> int:
    """The command. Raises UsageError for a command line that cannot be carried out."""
    from lazyt.runtime import winners
    from lazyt.tuner import tune

    wanted = _parser().parse_args(argv)
    if wanted.action == "run":
        return _run_script(wanted.script, wanted.arguments, wanted.seconds)
    if wanted.action == "list":
        sys.stdout.write(_listed(tune.winners()))
    elif wanted.action == "export":
        write_output(wanted.file, winners.to_text())
    elif wanted.action == "import":
        try:
            count = tune.load(wanted.file, wanted.any_machine)
        except OSError as error:
            raise UsageError(f"cannot read {wanted.file}: {error.strerror}") from None
        print(f"{count} entries")
    else:
        tune.clear()
    return 0


def _run_script(script: str, arguments: list[str], seconds: int) -> int:
    from lazyt.config import config

    before = sys.argv
    sys.argv = [script, *arguments]
    try:
        with config.override(tune=True, tune_seconds=seconds):
            runpy.run_path(script, run_name="__main__")
    except FileNotFoundError as error:
        if error.filename == script:
            raise UsageError(f"no such file: {script}") from None
        raise
    finally:
        sys.argv = before
    return 0


def _listed(found: dict[str, dict[str, object]]) -> str:
    if not found:
        return "nothing was tuned on this machine\n"
    lines = []
    for name, entry in sorted(found.items()):
        times = f"{entry.get('standard_us')} us -> {entry.get('tuned_us')} us"
        lines.append(f"{name}: {times}")
        if entry["form"] is not None:
            lines.append(f"    {entry['form']}")
    return "\n".join(lines) + "\n"

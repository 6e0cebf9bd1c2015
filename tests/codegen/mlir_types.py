"""Whether texts of MLIR define what they read, each value once, with the type it is read as.

For operations whose last words are their types, as StableHLO's and func's are.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"%(?:arg)?\d+(?:#\d+)?")
_TYPE = re.compile(r"tensor<[^>]*>")


class Malformed(Exception):
    """A line that reads what is not defined, or with another type."""


class _Checker:
    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        #: Lines that began an operation with a region.
        self.open: list[str] = []

    def define(self, name: str, kind: str) -> None:
        if name in self.types:
            raise Malformed(f"{name} is defined twice")
        self.types[name] = kind

    def read(self, names: list[str], kinds: list[str], line: str) -> None:
        if [self.types.get(name) for name in names] != kinds:
            known = [f"{name}: {self.types.get(name)}" for name in names]
            raise Malformed(f"{line}\nreads {', '.join(known)}, not {', '.join(kinds)}")

    def line(self, line: str) -> None:
        """A line that defines or reads values."""
        if line.startswith(("func.func", "^bb0(")):
            arguments = line.partition(" -> ")[0]
            for name, kind in re.findall(rf"({_NAME.pattern}): ({_TYPE.pattern})", arguments):
                self.define(name, kind)
        elif line.endswith("({"):
            self.open.append(line)
        elif line.startswith("})"):
            self.operation(self.open.pop().removesuffix("({") + line.removeprefix("})"))
        elif line not in ("module {", "}"):
            self.operation(line)

    def operation(self, line: str) -> None:
        """An operation with its types, after its regions."""
        head, _, types = line.rpartition(" : ")
        target, equals, rest = head.partition(" = ")
        if not equals:  # a return
            self.read(_NAME.findall(line), _TYPE.findall(types), line)
            return
        names = _NAME.findall(rest)
        before, arrow, after = types.rpartition("->")
        if arrow:
            taken, given = _TYPE.findall(before), _TYPE.findall(after)
        elif rest.startswith("stablehlo.select"):
            test, value = _TYPE.findall(types)
            taken, given = [test, value, value], [value]
        else:
            given = _TYPE.findall(types)
            taken = given * len(names)
        self.read(names, taken, line)
        name, _, count = target.partition(":")
        if len(given) != int(count or 1):
            raise Malformed(f"{line}\ndefines {target}, of {len(given)} types")
        for number, kind in enumerate(given):
            self.define(f"{name}#{number}" if count else name, kind)


def check_types(text: str) -> None:
    """Raises Malformed."""
    checker = _Checker()
    for line in text.splitlines():
        checker.line(line.strip())
    if checker.open:
        raise Malformed(f"{checker.open[-1]}\nhas no end")

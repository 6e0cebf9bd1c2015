"""``--machine``: whose kernels are printed. This machine's, a typical one's, or a file's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

from lazyt.ir.decisions import PLAIN, Traits
from lazyt.runtime import devices
from lazyt.runtime.devices import Device
from lazyt.tools.arguments import UsageError, read_input

#: Typical machines by name: bytes of a vector and of the caches.
KNOWN = {
    "avx2": (32, 32 << 10, 1 << 20, 32 << 20),
    "avx512": (64, 48 << 10, 2 << 20, 32 << 20),
    "neon": (16, 64 << 10, 1 << 20, 32 << 20),
}
#: Cores of these.
CORES = 8
HELP = "native, avx2, avx512, neon or FILE: a capture's manifest.json, or JSON of its 'machine'"
#: The numbers of a file, with the largest that makes sense.
_NUMBERS = {"vector_bytes": 64, "l1": 1 << 30, "l2": 1 << 34, "l3": 1 << 40, "cores": 1 << 16}
_KINDS = {
    "alone": {"bf16x2", "i8x4"},
    "tiled": {"bf16x2", "i8x4"},
    "fetches": {"streams"},
    "registers": {"32"},
}


def machine(name: str) -> Device:
    """The machine of this name, or that a file describes. Raises UsageError."""
    if name == "native":
        return devices.cpu()
    if name in KNOWN:
        vector, l1, l2, l3 = KNOWN[name]
        arm = name == "neon"
        traits = Traits(registers=frozenset({"32"})) if arm else PLAIN
        arch = "aarch64" if arm else "x86_64"
        return Device(name, arch, (), CORES, l1, l2, l3, vector, devices.cpu().memory, traits)
    text = read_input(name)
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from None
    if isinstance(raw, dict) and "machine" in raw:
        raw = raw["machine"]
    return _described(raw, name)


def _described(raw: Any, name: str) -> Device:
    if not isinstance(raw, dict):
        raise UsageError(f"{name} describes no machine: an object should stand there")
    numbers = {}
    for word, most in _NUMBERS.items():
        found = raw.get(word)
        if type(found) is not int or not 0 < found <= most:
            raise UsageError(f"{name}: {word!r} has to be a number up to {most}, not {found!r}")
        numbers[word] = found
    if numbers["vector_bytes"] not in (16, 32, 64):
        raise UsageError(f"{name}: 'vector_bytes' has to be 16, 32 or 64")
    traits = raw.get("traits", {})
    kinds: dict[str, frozenset[str]] = {}
    for word, known in _KINDS.items():
        listed = traits.get(word, []) if isinstance(traits, dict) else None
        if not isinstance(listed, list) or not all(isinstance(kind, str) for kind in listed):
            raise UsageError(f"{name}: 'traits' has lists of text, by name")
        if strange := set(listed) - known:
            raise UsageError(f"{name}: no {word} trait is called {sorted(strange)[0]!r}")
        kinds[word] = frozenset(listed)
    own = replace(devices.cpu(), name=name, traits=Traits(**kinds))
    return replace(own, **cast("dict[str, Any]", numbers))

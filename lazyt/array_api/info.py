"""What the namespace can do: ``__array_namespace_info__``."""

from __future__ import annotations

from typing import Any

from lazyt.array_api.creation import KINDS
from lazyt.functional import namespace as lazyt
from lazyt.handle.device import check_device, device

_ALL = (*KINDS["bool"], *KINDS["numeric"])


class Info:
    """Answers of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on values work; arrays have 64 dimensions."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> device:
        """Where new arrays are."""
        return device("cpu")

    def devices(self) -> list[device]:
        """Where arrays can be."""
        return [device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types of new arrays by what they are made of."""
        check_device(device)
        floating = lazyt.get_default_dtype()
        return {"real floating": floating, "integral": lazyt.int64, "indexing": lazyt.int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The types there are, all or those of a kind or several."""
        check_device(device)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = _ALL if kind is None else [n for k in kinds for n in KINDS[k]]
        return {name: getattr(lazyt, name) for name in names}

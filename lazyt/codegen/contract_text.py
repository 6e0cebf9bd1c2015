"""Text of contraction kernels, and the statements that all their forms share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from lazyt.codegen.contract_spec import ContractSpec


class CText:
    """Lines of C under construction, indented by their depth."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, *lines: str) -> None:
        """Append statements."""
        self._lines += ["    " * self._depth + line for line in lines]

    def pragma(self, text: str) -> None:
        """Append ``#pragma text``."""
        self._lines.append("#pragma " + text)

    @contextmanager
    def block(self, header: str = "") -> Iterator[None]:
        """What is added inside stands in braces after ``header``."""
        self.add(f"{header} {{".lstrip())
        self._depth += 1
        yield
        self._depth -= 1
        self.add("}")

    def loop(
        self, var: str, start: int | str, stop: int | str, step: int | None = None
    ) -> AbstractContextManager[None]:
        """A counting loop over ``var``, by ``step``: a number of the text even where it is 1."""
        advance = f"{var}++" if step is None else f"{var} += {step}"
        return self.block(f"for (lz_i64 {var} = {start}; {var} < {stop}; {advance})")

    @contextmanager
    def turns(self, var: str, stop: int, step: int = 1, always: bool = False) -> Iterator[None]:
        """A loop from 0 that no pragma needs; unless ``always``, a plain block where it turns
        once."""
        if stop > step or always:
            with self.loop(var, 0, stop, step):
                yield
            return
        with self.block():
            self.add(f"const lz_i64 {var} = 0;")
            yield

    def clip(self, name: str, start: str, width: int, stop: int | str) -> None:
        """Declare ``name``, the end of the block of ``width`` at ``start``, ``stop`` at most."""
        end = f"{start} + {width}"
        self.add(f"const lz_i64 {name} = {end} < {stop} ? {end} : {stop};")

    def assign(self, target: str, loaded: tuple[Sequence[str], str]) -> None:
        """Run an element's statements and keep its value in ``target``."""
        statements, value = loaded
        if not statements:
            self.add(f"{target} = {value};")
            return
        with self.block():
            self.add(*statements, f"{target} = {value};")

    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines) + "\n"


@contextmanager
def open_kernel(out: CText, spec: ContractSpec) -> Iterator[None]:
    """The function around what is added inside, with its buffers cast to their types."""
    buffers = "".join(f"char *b{i}_, " for i in range(len(spec.arguments)))
    with out.block(f"void {spec.name}({buffers}char *ws, int threads)"):
        for i, (kind, name) in enumerate(spec.arguments):
            plain = kind.replace("restrict", "").strip()
            out.add(f"{kind} {name} = ({plain})b{i}_;")
        yield


def clamp_threads(out: CText, most: int) -> None:
    """Declare ``g_threads``: as many as asked for, at least one, at most ``most``."""
    out.add(f"const int g_threads = threads < 1 ? 1 : threads < {most} ? threads : {most};")


def store_tile(
    out: CText,
    spec: ContractSpec,
    rows: tuple[str, str],
    cols: tuple[str, str],
    place: str,
    most_rows: int,
) -> None:
    """Run the epilogue over a tile of finished sums, the adjacent axis of the outputs innermost.

    ``place`` is where the sum of (``g_row``, ``g_col``) lies; there are up to ``most_rows`` rows.
    """
    if spec.c_unit == "n":
        with out.loop("g_row", *rows):
            out.pragma("omp simd")
            with out.loop("g_col", *cols):
                out.add(f"const {spec.ctype} g_value = {place};")
                out.add(*spec.epilogue("g_b", "g_row", "g_col", "g_value"))
        return
    with out.loop("g_col", *cols):
        # One below another in the tile: gcc would leave the whole epilogue without vectors.
        out.add(f"_Alignas(64) {spec.ctype} g_line[{most_rows}];")
        with out.loop("g_row", *rows):
            out.add(f"g_line[g_row - {rows[0]}] = {place};")
        out.pragma("omp simd")
        with out.loop("g_row", *rows):
            out.add(f"const {spec.ctype} g_value = g_line[g_row - {rows[0]}];")
            out.add(*spec.epilogue("g_b", "g_row", "g_col", "g_value"))

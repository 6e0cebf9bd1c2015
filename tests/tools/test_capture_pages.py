"""Pages and pictures: a capture's report, and kernels drawn by ``lazyt show``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import lazyt
from lazyt.__main__ import main
from lazyt.config import config
from lazyt.ir.parser import parse_kernels
from lazyt.tools.captures import capture, figures, report
from lazyt.tools.captures.files import Captured, CaptureError, GraphText
from lazyt.tools.kernel_picture import draw_kernels

pytestmark = pytest.mark.fused
Capture = pytest.CaptureFixture[str]

PROGRAM = """import torch

x = torch.arange(60.0).reshape(5, 12).sin()
rows = (x @ x.T).softmax(-1) @ x  # <b>bold</b> & "quoted"
print(float((rows * 2).sum(0).exp().max()))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture of a program."""
    folder = tmp_path_factory.mktemp("pages")
    path = folder / "rows.py"
    path.write_text(PROGRAM)
    text = PROGRAM.replace("import torch", "import lazyt as torch")
    with config.override(tier=1), capture(folder / "out") as written:
        exec(compile(text, str(path), "exec"), {})
    assert not written.errors and written.count
    return folder / "out"


class Elements(HTMLParser):
    """What is in a page: keys of elements by what they are, tags that are open, sources."""

    EMPTY = frozenset({"meta", "rect", "line", "polyline", "circle", "path", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, set[str]] = {}
        self.open: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        found = dict(attrs)
        self.links += [str(found[name]) for name in ("src", "href") if name in found]
        kind = str(found.get("class", tag)).split()[0]
        if found.get("data-k"):
            self.keys.setdefault(kind, set()).update(str(found["data-k"]).split())
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.text.append(data)


def elements(text: str) -> Elements:
    """What is in a page, whose elements are all closed."""
    found = Elements()
    found.feed(text)
    found.close()
    assert not found.open
    return found


def test_a_report_connects_lines_nodes_groups_and_launches(made: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(made), "-o", str(page)]) == 0
    found = elements(page.read_text())
    assert not found.links and "http://" not in page.read_text().replace(
        "http://www.w3.org/2000/svg", ""
    )
    plan = Captured(str(made)).plans[0]
    groups = {f"g{n}" for n in range(len(plan.groups))}
    lines = {key for key in found.keys["row"] if key[0] == "s"}
    assert len(lines) >= 3
    for kind in ("row", "card", "kernel", "rect", "node"):
        assert groups <= found.keys[kind], kind
    assert lines <= found.keys["card"] | found.keys["node"]
    text = "".join(found.text)
    assert '# <b>bold</b> & "quoted"' in text and "<b>bold</b>" not in page.read_text()
    for title in ("Roofline", "The arena over launches", "Seconds of each launch", "C compiler"):
        assert title in text
    for kernel in plan.program.kernels:
        assert kernel.text.strip() in text
    assert all(reason.split(" (")[0] in text for reason in plan.groups[0]["reasons"])
    assert all(f">after {name}" in page.read_text() for name, _ in plan.passes)
    for picture in re.findall(r"<svg.*?</svg>", page.read_text(), re.S):
        ElementTree.fromstring(picture)


def test_nodes_are_found_again_after_passes_that_number_them_anew() -> None:
    before = GraphText.of(
        "graph(%0: float32[4]) -> (%3)\n%1 = const() {1.0:float32} : float32[]\n"
        "%2 = map(%0) {exp($0)} : float32[4]\n%3 = map(%2) {neg($0)} : float32[4]\n"
    )
    after = GraphText.of(
        "graph(%0: float32[4]) -> (%2)\n%1 = map(%0) {exp($0)} : float32[4]\n"
        "%2 = map(%1) {neg($0)} : float32[4]\n"
    )
    old, new = report.value_keys(before), report.value_keys(after)
    assert old[2] == new[1] and old[3] == new[2] and len({*old.values()}) == 3


def test_a_capture_without_times_or_plans_has_a_report(tmp_path: Path) -> None:
    with capture(tmp_path / "none"):
        pass
    assert "No plan ran" in report.page(Captured(str(tmp_path / "none")))
    with capture(tmp_path / "out", times=False):
        (lazyt.ones(3, 5) * 2).sum(0).exp().realize()
    page = report.page(Captured(str(tmp_path / "out")))
    elements(page)
    assert "<h3>Roofline</h3>" not in page and "<h3>The arena over launches</h3>" not in page


def rewrite(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """Changes a file."""

    def damage(folder: Path) -> None:
        path = folder / name
        path.write_text(change(path.read_text()))

    return damage


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "half the groups": (rewrite("groups.json", lambda t: t[: len(t) // 2]), "groups.json"),
    "groups of text": (rewrite("groups.json", lambda t: '["a"]'), "groups.json, group 0"),
    "no launches": (rewrite("launches.json", lambda t: "{}"), "'arena_bytes' is missing"),
    "launches of numbers": (
        rewrite("launches.json", lambda t: '{"arena_bytes": 3, "launches": [4]}'),
        "launches.json, launch 0",
    ),
    "times": (rewrite("times.json", lambda t: "[]"), "times.json has to hold an object"),
    "no passes": (lambda folder: shutil.rmtree(folder / "passes"), "passes"),
    "kernels": (rewrite("kernels.ir", lambda t: "kernel"), "kernels.ir"),
    "notes": (
        rewrite("program.json", lambda t: t.replace('["notes",[{', '["notes",[3,{')),
        "program.json",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_captures_have_no_report(
    kind: str, made: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(made, tmp_path / "own")
    damage, said = DAMAGE[kind]
    folder = Path(Captured(str(tmp_path / "own")).plans[0].path)
    damage(folder)
    assert main(["report", str(tmp_path / "own"), "-o", str(tmp_path / "page.html")]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_bounds_of_a_machine_that_make_no_sense(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "own")
    for text in ('{"bandwidth": 0, "peak": 1}', '{"peak": 1}', '{"bandwidth": "a", "peak": 1}'):
        (tmp_path / "own" / "times.json").write_text(text)
        with pytest.raises(CaptureError, match=r"times\.json"):
            report.page(Captured(str(tmp_path / "own")))


def test_points_of_a_roofline_lie_below_and_above_the_bounds() -> None:
    points = [figures.Point("a", 1e6, 1e6, 1e-3, "g0"), figures.Point("b", 1e3, 1e6, 1e-5, "g1")]
    text = figures.roofline(points, 1e10, 1e11)
    found = ElementTree.fromstring(text)
    circles = [e for e in found.iter() if e.tag.endswith("circle")]
    assert [e.get("data-k") for e in circles] == ["g0", "g1"]
    assert "100% of the bound" in text and "10% of the bound" in text
    assert figures.roofline([], 1e10, 1e11) == ""
    assert figures.duration(2.5e-6) == "2.5 us" and figures.size(3 << 20) == "3 MiB"


KERNEL = """kernel rows(in a: float32[4, 5], out b: float32[4], out c: float32[4, 5]) {
  phase (i: 4) lanes inner work 5.0 {
    for k: 5 {
      reduce s: float32 = sum exp(a[i, k])
    }
    once {
      store b[i] = %s
    }
  }
  phase (i: 4, k: 5) lanes grid work 1.0 {
    once {
      store c[i, k] = mul(a[i, k], b[i])
    }
  }
}
"""


def test_kernels_are_drawn(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "rows.ir"
    path.write_text(KERNEL)
    assert main(["show", str(path), "-o", str(tmp_path / "rows.svg")]) == 0
    root = ElementTree.fromstring((tmp_path / "rows.svg").read_text())
    kinds = [str(e.get("class")) for e in root.iter() if e.get("class")]
    assert kinds.count("buffer") == 3 and kinds.count("phase") == 2 and kinds.count("stage") == 3
    titles = [str(e[0].text) for e in root.iter() if str(e.get("class")).startswith("edge")]
    assert titles == ["read a", "write b", "read a", "read b", "write c"]
    shown = "".join(root.itertext())
    assert "0: phase (i: 4) lanes inner work 5.0" in shown and "for k: 5" in shown
    capsys.readouterr()
    assert main(["show", str(path)]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>") and "kernel rows" in page
    path.write_text(KERNEL.replace("store b", "stare b"))
    assert main(["show", str(path)]) == 1
    assert "line 7" in capsys.readouterr().err


def test_all_kernels_of_golden_plans_are_drawn() -> None:
    folder = Path(__file__).parents[1] / "golden" / "plans"
    paths = sorted(folder.glob("*.kernels"))
    assert len(paths) > 5
    for path in paths:
        kernels = parse_kernels(path.read_text(encoding="utf-8"))
        root = ElementTree.fromstring(draw_kernels(kernels))
        phases = [e for e in root.iter() if e.get("class") == "phase"]
        assert len(phases) == sum(len(kernel.phases) for kernel in kernels)
        buffers = [e for e in root.iter() if e.get("class") == "buffer"]
        assert len(buffers) == sum(len(kernel.buffers) for kernel in kernels)

"""``show broadcast`` and its page: driven in a headless browser, compared with Python's answers."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lazyt.__main__ import main
from lazyt.tools.arguments import UsageError
from lazyt.tools.show_broadcast import Broadcast, broadcast_page, explain_broadcast, parse_shape
from tests.functional.test_broadcasting import Shape, random_shapes

Capture = pytest.CaptureFixture[str]
CASES: list[tuple[Shape, ...]] = [((), ()), ((2, 3, 4), (2, 3)), *random_shapes(2, 400)]

#: What the browser does to the page, and what it finds afterwards.
DRIVER = """
const found = {};
const text = (id) => byId(id).textContent;
const press = (key, target = document.body) =>
  target.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const type = (at, value) => {
  inputs[at].value = value;
  inputs[at].dispatchEvent(new Event("input", {bubbles: true}));
};
const see = (name) => { found[name] = {
  step: state.step, says: text("says"), summary: text("summary"), stale: text("stale"),
  slider: byId("slider").value, valuetext: byId("slider").getAttribute("aria-valuetext"),
  typed: inputs.map((input) => input.value), wrong: inputs.map((_, at) => text(`wrong-${at}`)),
  invalid: inputs.map((input) => input.getAttribute("aria-invalid")),
  back: byId("back").getAttribute("aria-disabled"),
  next: byId("next").getAttribute("aria-disabled"),
  figures: [...document.querySelectorAll("#pictures figure")].map((figure) =>
    ["source", "copy", "ghost", "gap"].map((kind) => figure.querySelectorAll("." + kind).length)),
  labels: [...document.querySelectorAll("#pictures figure")].map((figure) =>
    [...figure.querySelectorAll("text")].map((label) => label.textContent).join(" ")),
  pictures: text("pictures"),
}; };
see("start");
byId("next").click(); see("next");
press("ArrowRight"); press("ArrowRight"); press("ArrowLeft"); see("arrows");
press("ArrowRight", inputs[0]); see("arrow in a field");
press("End"); see("end"); press("ArrowRight"); see("past the end");
press("Home"); see("home");
byId("slider").value = 1; byId("slider").dispatchEvent(new Event("input")); see("slider");
type(0, "8, x1"); see("bad");
type(0, "8, -1"); see("negative");
type(0, "2,3,4"); type(1, "(2 x 3)"); press("End"); see("conflict");
type(0, "4096, 1"); type(1, "1000"); press("End"); see("large");
type(0, "0, 1"); type(1, "5"); press("End"); see("empty");
type(0, ""); type(1, ""); press("End"); see("numbers");
document.querySelector("#examples button").click(); see("example");
found.unlabelled = [...document.querySelectorAll("input")].filter((input) =>
  !input.labels.length && !input.getAttribute("aria-label")).length;
found.focusable = [...document.querySelectorAll("input, button")].map((control) => control.id);
found.answers = CASES.map((shapes) => explainBroadcast(shapes));
const asNumber = (_, value) => typeof value === "bigint" ? Number(value) : value;
const plain = JSON.stringify(found, asNumber);
document.body.replaceChildren(element("pre", {id: "found"}, plain));
"""


def browse(page: str, folder: Path) -> str:
    """The document that a headless browser makes of a page; skips without a browser."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(names)} is installed")
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the driver saw, in one load of the page."""
    page = broadcast_page([(4, 1), (1, 3)])
    driver = DRIVER.replace("CASES", json.dumps(CASES), 1)
    page = page.replace("</body>", f"<script>{driver}</script></body>")
    document = browse(page, tmp_path_factory.mktemp("browser"))
    match = re.search(r'<pre id="found">(.*?)</pre>', document, re.S)
    assert match, document[-2000:]
    seen: dict[str, Any] = json.loads(html.unescape(match.group(1)))
    return seen


def plain(said: Broadcast) -> dict[str, Any]:
    """Python's answer as the script gives it."""
    steps = [
        {"dim": s.dim, "sizes": s.sizes, "rules": s.rules, "result": s.result, "text": s.text}
        for s in said.steps
    ]
    facts = {"shapes": said.shapes, "steps": steps, "result": said.result, "strides": said.strides}
    copied: dict[str, Any] = json.loads(
        json.dumps({**facts, "error": said.error, "advice": said.advice})
    )
    return copied


def test_script_agrees_with_python(found: dict[str, Any]) -> None:
    assert len(found["answers"]) == len(CASES) > 400
    for shapes, answer in zip(CASES, found["answers"]):
        assert answer == plain(explain_broadcast(*shapes)), shapes


def test_steps_by_button_keys_and_slider(found: dict[str, Any]) -> None:
    names = ["start", "next", "arrows", "arrow in a field", "end", "past the end", "home", "slider"]
    assert [found[name]["step"] for name in names] == [0, 1, 2, 2, 3, 3, 0, 1]
    for name in names:
        seen = found[name]
        assert seen["slider"] == str(seen["step"])
        assert seen["valuetext"] == seen["says"]
        assert (seen["back"], seen["next"]) == (
            "true" if seen["step"] == 0 else "false",
            "true" if seen["step"] == 3 else "false",
        )
    assert found["next"]["says"] == ("Step 1 of 3: dimension -1: a has 1, stretched to 3; b has 3.")
    assert "a keeps its 4 in memory and is read with strides (1, 0)" in found["end"]["summary"]


def test_pictures_show_copies_as_they_appear(found: dict[str, Any]) -> None:
    # Cells in memory, copies, cells not reached, cells that a conflict leaves open.
    assert found["start"]["figures"] == [[4, 0, 8, 0], [3, 0, 9, 0]]
    assert found["next"]["figures"] == [[4, 8, 0, 0], [3, 0, 9, 0]]
    assert found["arrows"]["figures"] == [[4, 8, 0, 0], [3, 9, 0, 0]]
    assert found["next"]["labels"] == ["0 0 0 1 1 1 2 2 2 3 3 3", "0 1 2"]
    assert len(found["end"]["figures"]) == 3
    assert found["end"]["labels"][2] == "0 0 0 1 0 2 1 0 1 1 1 2 2 0 2 1 2 2 3 0 3 1 3 2"
    # b has two rows in the first block, and no fourth column for them.
    assert found["conflict"]["figures"] == [[24, 0, 0, 0], [6, 0, 16, 2]]
    large = found["large"]["figures"]
    assert sum(large[0]) == sum(large[1]) <= 300
    assert "…" in found["large"]["labels"][0] and "1000" not in found["large"]["labels"][0]
    assert found["numbers"]["figures"][:2] == [[1, 0, 0, 0], [1, 0, 0, 0]]


def test_bad_input_is_explained_and_kept(found: dict[str, Any]) -> None:
    bad = found["bad"]
    assert bad["typed"] == ["8, x1", "1, 3"]
    assert bad["invalid"] == ["true", "false"]
    assert bad["wrong"][0].startswith("A size is missing between two separators")
    assert bad["wrong"][1] == ""
    assert bad["stale"] == "Still showing (4, 1) and (1, 3)."
    assert bad["step"] == 1 and bad["figures"] == found["slider"]["figures"]
    assert found["negative"]["wrong"][0] == "A size cannot be negative: -1."


def test_conflicts_and_extremes(found: dict[str, Any]) -> None:
    assert found["conflict"]["invalid"] == ["false", "false"]
    error = explain_broadcast((2, 3, 4), (2, 3)).error
    assert f"PyTorch raises RuntimeError: {error}" in found["conflict"]["summary"]
    assert "b.reshape(2, 3, 1)" in found["conflict"]["summary"]
    assert "4,096,000 elements" in found["large"]["summary"]
    assert "no elements to draw" in found["empty"]["pictures"]
    assert "Result (), 1 element." in found["numbers"]["summary"]
    assert found["example"]["typed"] == ["4, 1", "1, 3"]


def test_controls_have_labels_and_a_sensible_order(found: dict[str, Any]) -> None:
    assert found["unlabelled"] == 0
    order = [name for name in found["focusable"] if name]
    assert order == ["shape-0", "shape-1", "first", "back", "slider", "next", "last"]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Contrast ratio as WCAG 2 defines it: 4.5 is asked of text."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_has_contrast_in_both_schemes() -> None:
    style = broadcast_page([]).split("</style>")[0]
    schemes = [
        dict(re.findall(r"--([\w-]+): (#\w{6});", part)) for part in style.split("@media")[:2]
    ]
    assert all(len(colours) >= 16 for colours in schemes)
    for colours in schemes:
        for text, behind in [
            *itertools.product(("ink", "soft", "bad"), ("page", "card")),
            ("ink", "now"), ("soft", "now"), ("bad", "bad-card"), ("on-accent", "accent"),
            *(("on-cell", operand) for operand in "abcd"),
        ]:  # fmt: skip
            assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)


def test_page_is_one_file() -> None:
    page = broadcast_page([(1, 2), (2, 1), (2, 2)])
    rest = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|src=|@import|url\(|<link", rest)
    assert '["1, 2", "2, 1", "2, 2"]' in page
    assert "__" not in page


def test_command_prints_and_writes(tmp_path: Path, capsys: Capture) -> None:
    assert main(["show", "broadcast", "8,1,6,1", "(7, 1, 5)"]) == 0
    assert capsys.readouterr().out == f"{explain_broadcast((8, 1, 6, 1), (7, 1, 5))}\n"
    assert main(["show", "broadcast", "3x4", "2x4", ""]) == 0
    assert "error: The size of tensor a (3)" in capsys.readouterr().out
    path = tmp_path / "page.html"
    assert main(["show", "broadcast", "4", "--html", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == broadcast_page([(4,)])
    assert main(["show", "broadcast", "4,a"]) == 2
    assert "'4,a' is no shape: 'a' is no size" in capsys.readouterr().err
    assert main(["show", "broadcast", "1", "1", "1", "1", "1", "--html", "-"]) == 2
    assert "at most 4 shapes, not 5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shape"),
    [("8,1,6", (8, 1, 6)), ("(3,)", (3,)), ("[2, 4]", (2, 4)), ("2x3", (2, 3)), ("5 6", (5, 6)),
     ("", ()), ("()", ())],
)  # fmt: skip
def test_parse_shape(text: str, shape: Shape) -> None:
    assert parse_shape(text) == shape


@pytest.mark.parametrize("text", ["3,,4", "-1", "1.5", "x", "٣"])
def test_parse_shape_refuses(text: str) -> None:
    with pytest.raises(UsageError, match="is no shape"):
        parse_shape(text)

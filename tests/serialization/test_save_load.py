"""Saved files: exchanged with PyTorch, read without running them, never half written."""

from __future__ import annotations

import base64
import io
import os
import pickle
import pickletools
import random
import zipfile
import zlib
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
from lazyt import serialization
from lazyt.errors import CheckpointError, LazytError

# What PyTorch 2.13 saved of the objects that test_a_file_of_pytorch names.
OF_PYTORCH = (
    r"c-o~_+i%-c7(a>ABpB#rT-p`Zjq5V#(%4CJ+1e#D!vj3F)MHXqX|i1Bw6SoLe9lRy4Ix#U61KPT4<H`+A9!REf5D"
    r"KLc;Iahh$mk6R?az2Q`=P<SdZdc&iP&Zo$vdSswTt`N+!{vF^x_j)3qA*4qmF8#7wupc2s2&tp~<#^jkowT7&{jh"
    r"*+dW5ox1KY^Ng{F5c+cPTe55*=f1Pjx0hnm8vD^;tpMDZeb8Sh^RU(lic*a6d}e5GcZvT=+$a>A+E&<B-S*fMKz%"
    r"hNlnlqeR%1iWwjg!Tf}ZPJK_zuj$K^8Vp~K6@th7X6L>|3S2-Jj$p%$#2#r`{qQUv57@wd;`!KCV812l%27{d-@R"
    r"|;<b8)wI2i^z+-&~_Gp$D^Cqz7{z=p=!89p2(vZFqY`DB7lLZexO75l-#1a)<;Alsih`G=Iq+oMGJWc--$2cu$A-"
    r"AMl3{zJm{SI9r=wG2b%nCZrl?Yf<{Nu?goq(m_-e9#$zo4D3f-ONNg<t;K=Xd8U>2w3Y~DbddPMF34lHG%G^(Krl"
    r"VnR`FJo+->9fP&dcvvasyw=9w;)EU;72(=81=ckL#1EW!l>7j;;v#aOo3_b{vu7Tlx{B3z<7MmMh9gNhE9c`)is6"
    r"O_TSP4Cr3_=Hck9Tur8x8c*27P(r9c}af#fn`{&I<`6@Zn7H@R36G-e}SvDIK6R9VmBrDtPh{-@P#+`6KH+7W*G*"
    r"H1)Vkwv4d&KeR&(MYl7K>8#+{RH(k{d$!n?8&ri`rVn=mkvCX1|VX>t*Tkf_=j2-NDXj-eve5mI9Lt+{~|MTa47G"
    r"HLZ)|f|y1C7B(8Kz@zHMen-s7m$-nUN!(V+P81;BOY0=#d6yP<d!z<1WE1R<5dY@kMm^hhr1sVCJE>`s^gzu=tT4"
    r"CefupS6j-c%7tSX@K|@t^i-iAdhF8U#|m>a`{=Ll=jg=T7)OgiN0O?f(0|uw+Ph_@_h>EtI}=Eb(OU`X$*NL(;Rr"
    r"k~qsL4;v9|t<)l_VZb|t8tRh5<FZ2$V+9#cnXZ*P45O`*#}^<i<X9!q{bD>D5jKWyC^ufKrgg97BQ-@&d;EAXDle"
    r"!mR6t}5yOX-CQw3dOu!kV}P9skoez^767INx4i;mb0Z|DJN%&#oRKl(!{i}ouWQc++~EB9s2aQsp&(`!~X-qXnzB"
    r"m4IsA#G^(+MN&HP@K0xxsPjaYpg?apqU?#w$$I#&h6o&h&b}|5e8bhJp5ytu}Fo<nTgs@T=>#v|7_Kz@D4rBfKAH"
    r";qY4`H)mtUq_B0@&Yt*b#f?PpO4qtP^NVvRAcud~v@tg!4nB7`on%de`R(?@Dp}?wi2^?^kak?qNi}-dp=GfJ=aa"
)


def saved(obj: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    lt.save(obj, file, **options)
    return file.getvalue()


def loaded(data: bytes, **options: Any) -> Any:
    return lt.load(io.BytesIO(data), **options)


def archive_of(text: bytes) -> bytes:
    """An archive with this pickle, and checksums that are right."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", text)
        archive.writestr("archive/data/0", bytes(16))
    return made.getvalue()


def check_sample(found: dict[str, Any]) -> None:
    assert found["p"] is found["again"]
    assert type(found["p"]) is lt.nn.Parameter
    assert found["p"].requires_grad and found["p"].is_leaf
    assert found["t"].stride() == (1, 3)
    found["a"][1, 0] = 9  # the three were views of each other
    assert found["row"].tolist() == [9, 4, 5]
    assert found["t"].tolist() == [[0, 9], [1, 4], [2, 5]]
    assert found["bf"].dtype is lt.bfloat16
    assert (found["bf"].tolist(), found["u"].tolist()) == ([1.5, -2], [65535])
    assert (found["size"], found["dtype"]) == (lt.Size([1, 2]), lt.float16)
    assert type(found["size"]) is lt.Size
    assert found["plain"] == [1, 2.5, None, True, (b"\xff", "ä"), {3}]


def test_a_file_of_pytorch() -> None:
    check_sample(loaded(zlib.decompress(base64.b85decode(OF_PYTORCH))))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_there_and_back(protocol: int) -> None:
    a, p = lt.arange(6.0).reshape(2, 3), lt.nn.Parameter(lt.ones(2))
    objects = {
        "a": a, "t": a.t(), "row": a[1], "p": p, "again": p,
        "bf": lt.tensor([1.5, -2]).bfloat16(), "u": lt.tensor([65535], dtype=lt.uint16),
        "size": lt.Size([1, 2]), "dtype": lt.float16,
        "plain": [1, 2.5, None, True, (b"\xff", "ä"), {3}],
    }  # fmt: skip
    check_sample(loaded(saved(objects, pickle_protocol=protocol)))
    more = [2**100, -5, 1j, frozenset([1]), bytearray(b"x"), Counter("aab"), lt.device("cpu"), ()]
    assert loaded(saved(more, pickle_protocol=protocol)) == more


def test_names_in_the_file_are_those_that_pytorch_allows() -> None:
    objects = [lt.ones(2), lt.nn.Parameter(lt.ones(2)), lt.ones(1, dtype=lt.uint32), lt.int8]
    with zipfile.ZipFile(io.BytesIO(saved(objects))) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        text = archive.read("archive/data.pkl")
        for entry in archive.infolist():
            begin = entry.header_offset + 30 + len(entry.filename) + len(entry.extra)
            assert begin % 64 == 0
    assert {"archive/data/0", "archive/version", "archive/byteorder"} <= names
    found = {arg for op, arg, _ in pickletools.genops(text) if op.name == "GLOBAL"}
    assert found == {
        "torch._utils _rebuild_tensor_v2", "torch FloatStorage", "collections OrderedDict",
        "torch._utils _rebuild_parameter", "torch._utils _rebuild_tensor_v3",
        "torch.storage UntypedStorage", "torch uint32", "torch int8",
    }  # fmt: skip


def test_models_and_optimizers(tmp_path: Path) -> None:
    def make() -> tuple[lt.nn.Module, Any]:
        model = lt.nn.Sequential(lt.nn.Linear(3, 4), lt.nn.BatchNorm1d(4))
        return model, lt.optim.Adam(model.parameters())

    model, optimizer = make()
    model(lt.ones(5, 3)).sum().backward()
    optimizer.step()
    path = tmp_path / "state.pt"
    lt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    other, again = make()
    state = lt.load(path, weights_only=True, map_location="cpu")
    other.load_state_dict(state["model"])
    again.load_state_dict(state["optimizer"])
    for key, value in model.state_dict().items():
        assert other.state_dict()[key].tolist() == value.tolist()
    assert type(state["model"]) is OrderedDict


def test_mapped_values_are_private(tmp_path: Path) -> None:
    path = str(tmp_path / "x.pt")
    lt.save({"x": lt.arange(4.0), "y": lt.arange(3)}, path)
    found = lt.load(path, mmap=True)
    found["x"].add_(1)
    assert (found["x"].tolist(), found["y"].tolist()) == ([1, 2, 3, 4], [0, 1, 2])
    assert lt.load(path)["x"].tolist() == [0, 1, 2, 3]
    with pytest.raises(LazytError, match="takes a path"):
        loaded(saved(1), mmap=True)


def test_map_location() -> None:
    data = saved(lt.ones(2))
    seen: list[Any] = []

    def place(storage: Any, location: str) -> None:
        seen.append((storage.nbytes(), location))

    for given in ("cpu", lt.device("cpu"), {"cpu": "cpu"}, place):
        assert loaded(data, map_location=given).tolist() == [1, 1]
    assert seen == [(8, "cpu")]
    elsewhere = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x04\x00\x00\x00meta")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = archive.read("archive/data.pkl").replace(b"\x03\0\0\0cpu", b"\x04\0\0\0meta")
    assert elsewhere != data
    with pytest.raises(LazytError, match="meta"):
        loaded(archive_of(text))
    assert loaded(archive_of(text), map_location="cpu").tolist() == [0, 0]


class Record:
    """A class of the user's."""

    def __init__(self, x: Any) -> None:
        self.x = x


class Harm:
    """Runs a command where a pickle is loaded as Python does."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("harm",)


def test_objects_of_other_classes_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError, match=r"mkdir, which load\(\) does not make"):
        loaded(saved(Harm()))
    assert not os.listdir(tmp_path)
    data = saved([Record(lt.ones(2))])
    with pytest.raises(CheckpointError, match=r"Record, which .*add_safe_globals\(\[Record\]\)"):
        loaded(data)
    with serialization.safe_globals([Record]):
        assert serialization.get_safe_globals() == [Record]
        assert loaded(data)[0].x.tolist() == [1, 1]
    assert not serialization.get_safe_globals()
    with pytest.raises(CheckpointError, match=r"weights_only=False.*save model.state_dict\(\)"):
        loaded(saved(lt.nn.Linear(1, 1)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"cos\nsystem\n(S'x'\ntR.", "os.system"),
        (b"cbuiltins\neval\n(S'1'\ntR.", "builtins.eval"),
        (b"\x80\x02ctorch\nfloat32\n}X\x01\x00\x00\x00nK\x01sb.", "attributes of a dtype"),
        (b"\x80\x02ctorch\nSize\n}X\x01\x00\x00\x00nK\x01sb.", "attributes of a Called"),
        (b"\x80\x02ccollections\nOrderedDict\n.", "no single value"),
        (b"\x80\x02]ccollections\nOrderedDict\na.", "function or class as a value"),
        (b"(S'os'\nS'x'\nios\nsystem\n.", "uses INST"),
        (b"\x80\x02X\x01\x00\x00\x00aQ.", "which is no storage"),
        (b"\x80\x02}K\x01.", "no single value"),
        (b"\x80\x02", "ends too early|exhausted"),
        (b"\x80\x02}K\x01a.", "appended to a dict"),
        (b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "made of bytes"),
    ],
)
def test_pickles_that_do_more_than_build_values(text: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        loaded(archive_of(text))


def test_tensors_must_lie_inside_their_memory() -> None:
    with zipfile.ZipFile(io.BytesIO(saved(lt.ones(4)))) as archive:
        text = archive.read("archive/data.pkl")
    assert loaded(archive_of(text)).tolist() == [0] * 4
    for wrong in (text.replace(b"K\x04\x85", b"K\x05\x85"), text.replace(b"K\x04tq", b"K\x05tq")):
        assert wrong != text
        with pytest.raises(CheckpointError, match=r"out of bounds|20 are needed"):
            loaded(archive_of(wrong))


def test_damaged_files() -> None:
    data = saved({"a": lt.arange(20.0), "l": [lt.ones(3), "x" * 50]})
    for end in range(0, len(data), 37):
        with pytest.raises(CheckpointError):
            loaded(data[:end])
    chance = random.Random(0)
    where = data.index(lt.arange(20.0).numpy().tobytes())
    for _ in range(40):
        wrong = bytearray(data)
        wrong[where + chance.randrange(80)] ^= 1 << chance.randrange(8)
        with pytest.raises(CheckpointError, match="is damaged: Bad CRC-32"):
            loaded(bytes(wrong))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"text", "no archive that save"),
        (pickle.dumps([1]), "plain pickle and not an archive"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + bytes(9), r"before 1\.6"),
        (bytes(257) + b"ustar" + bytes(99), "tar format"),
        (b"PK\x03\x04" + bytes(40), "not written to its end"),
    ],
)
def test_other_formats_are_named(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        loaded(data)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    lt.save(lt.ones(2), path)
    for bad in (lambda: 0, [a := lt.ones(2), a.view(lt.int32)]):
        with pytest.raises(Exception, match=r"pickle|different types"):
            lt.save(bad, path)
    assert lt.load(path).tolist() == [1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    lt.save(lt.zeros(1), link)
    assert link.is_symlink() and lt.load(path).tolist() == [0]
    with pytest.raises(LazytError, match=r"Parent directory .*missing does not exist\."):
        lt.save(1, tmp_path / "missing" / "x.pt")
    with pytest.raises(FileNotFoundError):
        lt.load(tmp_path / "none.pt")
    with pytest.raises(AttributeError, match="seekable"):
        lt.load(3)

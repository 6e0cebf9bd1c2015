"""Files that hold more than weights: whole models, loaded by who trusts them."""

from __future__ import annotations

import base64
import io
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.errors import CheckpointError, LazytError

# What PyTorch 2.13 saved of nn.Sequential(nn.Linear(2, 1), nn.ReLU()).
OF_PYTORCH = (
    r"c-nPUTXWk)6!s-fgW4udnzr;pq2=ZPb>fsel!Q{sMZt9y0?Q>VYiaEjQ6wK}Wz%6i6NYh{{sP{3<B?~62k(7h`U9BZof*z"
    r"*m60tcnpw*_`+aBio%8LgX_luJ3+h^`^tKy6HU3+y6bfpb!Wau};r95l!z8P9cf7rlEdz|ze809EII+j0njQF(xjqk#O%5"
    r"^lrOP}63QIpjaR8+%nZZ0VM1<>ipuA6x<1_8DknM8G!w9AZP)R_v6}Q_eGChD}<f4lBfls>_awCa}4*)dc5@u|Q&#ot3pH"
    r"c%O20XD1#t@EMaDtpp@-cg-&q9ZGLrz5y>_l+Vwgb=OwsZqOGVX*954m&8wUIr$WWgMn8zXAcDWT@($yqh$MzkG!-Z%yp8"
    r"e~?@wu5klcse02k_!`4wC_qmRf0|gXA;<1a%mFAygs`ZQJdjQJ8&)mK1mivftk4T$@B$s`OxXHB`+q>OJrU_BgrJE4pt#e"
    r"^i(o?nViYZW=lPtAfD06yns1}!>%N-tGbyJupl~E@Yw|SoVGz~EO>qZFH}hpLo4v&r0+cR91D#NeS<0*ZfO87RYiGUpr>B"
    r"0l4+#&x!VyEUP<{hmaZ2WG~~)VPUb@ct{nkE=S4wCd#eW2s#S6flSYVS9S+NyV%$b)a#IHlSV`ZxPRe+<yD_YqB?;H>ngz"
    r"3HmhQu=X2~qxhu0n^s$ZAzh6Qi#Cl7BufVVAphfE=}<+2Fg71snVE0%>$TZbEB)htSQFG)9qHTAQuQ@t<YrUf79RJR_$hZ"
    r"fw91#YL0#Eih*@$nEovEWm2G69%E8+$`6G=#S5XF_|iA+*)*2<@q+(1y7yv^6ZD4X`P6hd&p(gIfZd_C>PAaa*=IlW~Zh{"
    r"L(Cu6Br9(nFWbij9aOuuO{2eaF6zw+NXxaH?|D;8XNr00KPqF@U{~6ofbxi@Vx~r71m0H*_kjW6~<Fx?NnGN6(&+)ZYu1D"
    r"RM<``%u~X4ljggA*JCyZ|6$yU<5sOXc7p!-&!b<ICN<8DoS-$_kGo9Lo;u9}zdp_y-gtaoxmAt%5mxJ-<bgV*JXcDOkCS@"
    r"8uhrCsQDZiDSTC;>3VUl9Tp#CL`S<Ft%3D*1aq1XY8^{0kTW70;|J9fq!KX5=8%?uVS}Y&^1v$9(R6!=bCwX?hdKvp><;Y"
    r"s*ljMt;CHb*(NNMx*d|5O4AC-KO^W1!SGw$DcZavS<mpbFlPfrxSX;zdx)Hq$}W3|?kr~d($p(Y*"
)


class Net(nn.Module):
    """A model of a user's, with a layer and a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("scale", lt.tensor(2.0))
        self.words = ["a", "b"]

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        scaled: lt.Tensor = self.layer(x) * self.scale
        return scaled


class Note:
    """Makes a folder where a pickle is loaded as Python does."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("made",)


def saved(obj: Any) -> io.BytesIO:
    file = io.BytesIO()
    lt.save(obj, file)
    file.seek(0)
    return file


def test_whole_models_come_back_where_the_file_is_trusted() -> None:
    model = Net().eval()
    again = lt.load(saved({"model": model}), weights_only=False)["model"]
    x = lt.ones(1, 3)
    assert again(x).tolist() == model(x).tolist()
    assert (type(again), again.training, again.words) == (Net, False, ["a", "b"])
    assert [*again.state_dict()] == [*model.state_dict()]
    again(x).sum().backward()
    assert again.layer.weight.grad.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert model.layer.weight.grad is None


def test_models_that_pytorch_saved_come_back_as_ours() -> None:
    data = zlib.decompress(base64.b85decode(OF_PYTORCH))
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
        lt.load(io.BytesIO(data))
    model = lt.load(io.BytesIO(data), weights_only=False)
    assert isinstance(model, nn.Sequential)
    assert model(lt.tensor([[3.0, 4.0], [-3.0, 0.0]])).tolist() == [[11.5], [0.0]]
    model(lt.ones(1, 2)).sum().backward()
    assert model[0].weight.grad.tolist() == [[1, 1]]


def test_code_runs_only_where_the_file_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError, match="weights_only=True, its default"):
        lt.load(saved(Note()))
    assert not (tmp_path / "made").exists()
    lt.load(saved(Note()), weights_only=False)
    assert (tmp_path / "made").exists()


def test_what_cannot_be_read_is_said() -> None:
    file = saved(lt.ones(2))
    with pytest.raises(LazytError, match="own pickle module"):
        lt.load(file, pickle_module=zlib)
    with pytest.raises(RuntimeError, match="safely load weights"):
        lt.load(file, pickle_module=pickle, weights_only=True)
    assert lt.load(file, pickle_module=pickle, weights_only=False).tolist() == [1, 1]
    text = file.getvalue()
    wrong = io.BytesIO(
        text.replace(b"ctorch._utils\n_rebuild_tensor_v2", b"ctorch._utils\n_rebuild_nothing_2")
    )
    with pytest.raises(CheckpointError):
        lt.load(wrong, weights_only=False)


def test_functions_that_the_user_allows() -> None:
    class_and_functions = [Net, nn.Linear, F.relu, F.gelu]
    net = Net()
    net.activation = F.relu
    net.words = [F.gelu, (F.relu, "b")]  # type: ignore[list-item]
    with pytest.raises(CheckpointError):
        lt.load(saved(net))
    with lt.serialization.safe_globals(class_and_functions):
        found = lt.load(saved(net))
        assert found.activation is F.relu and found.words == [F.gelu, (F.relu, "b")]
        assert lt.load(saved({"f": F.gelu})) == {"f": F.gelu} and lt.load(saved(F.relu)) is F.relu
    with lt.serialization.safe_globals([Net, nn.Linear]), pytest.raises(CheckpointError):
        lt.load(saved(net))


def test_a_transformer_encoder_holds_its_activation() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0)
    kinds = [
        nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention, nn.ModuleList,
        nn.Linear, nn.Dropout, nn.LayerNorm, F.relu,
        type(nn.MultiheadAttention(2, 1).out_proj),
    ]  # fmt: skip
    encoder = nn.TransformerEncoder(layer, 2)
    with lt.serialization.safe_globals(kinds):
        found = lt.load(saved(encoder))
    x = lt.randn(3, 2, 8)
    assert lt.equal(found(x), encoder(x))

"""Kernels of groups that are the same but for values are made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.codegen.lower.groups import Lowered, lower_group
from lazyt.codegen.plan import duplicates
from lazyt.ir.group import Group


def test_layers_have_one_kernel_and_their_own_values(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(group: Group, unroll: int, *how: Any) -> Lowered:
        made.append(group.kind)
        return lower_group(group, unroll, *how)

    monkeypatch.setattr(duplicates, "lower_group", counted)
    weights = [lazyt.tensor(np.eye(24, k=k, dtype=np.float32)) for k in range(1, 6)]
    x = y = lazyt.tensor(np.arange(72, dtype=np.float32).reshape(3, 24))
    for weight in weights:
        y = (y @ weight).relu() * 0.5
    last = (y @ weights[0]).relu() * 0.25  # another number: another kernel
    sums = [(last + k).sum(-1) for k in (1, 2)]
    with lazyt.config.override(disk_cache=False):  # a plan of an earlier run is not made
        got = [t.numpy() for t in (last, *sums)]
    assert made.count("contract") == 2
    want = np.zeros((3, 24), np.float32)
    want[:, 16:] = x.numpy()[:, :8] / 128
    assert (got[0] == want).all()
    assert all((g == (want + k).sum(-1)).all() for g, k in zip(got[1:], (1, 2), strict=True))
    launches = lazyt.explain(((x @ weights[1]).relu() * 0.5 @ weights[2]).relu() * 0.5).kernels
    assert [k.computes for k in launches] == [("map float32[3, 24]",)] * 2

"""Samples of ``collective``, ``distribute`` and ``localize``, in a group of one rank: several
are in ``tests/distributed``."""

from __future__ import annotations

from lazyt.ops.parallel import collectives
from lazyt.ops.parallel.collectives import Ranks
from lazyt.ops.parallel.distribution import distribute, localize
from lazyt.ops.parallel.layouts import REPLICATE, Layout, partial, shard
from lazyt.plan.control import collectives as running
from lazyt.runtime.ranks import groups
from lazyt.runtime.ranks.engine import Alone
from tests.ops_contract.op_samples import blank, refuse, sample

if "samples" not in groups.groups:
    groups.add(groups.Group("samples", [0], Alone(), None))
_ONE, _TWO = Ranks("samples", 0, 1), Ranks("samples", 0, 2)


def of_ranks() -> None:
    """Registers the samples."""
    assert running._alone in collectives.runners
    sample("collective", "all_gather", lambda x: collectives.all_gather(x, _ONE), (2, 3))
    sample("collective", "all_to_all", lambda x: collectives.all_to_all(x, _ONE, [2], [2]), (2, 3))
    sample("collective", "broadcast", lambda x: collectives.broadcast(x, _ONE, 0), (2,))
    sample("collective", "permute", lambda x: collectives.permute(x, _ONE, [(0, 0)]), (2, 2))
    refuse("collective", "rows", lambda: collectives.all_to_all(blank((3,)), _TWO, [1, 1], [1, 1]))
    refuse("collective", "counts", lambda: collectives.all_to_all(blank((2,)), _TWO, [2], [2]))
    refuse("collective", "scalar", lambda: collectives.all_gather(blank(()), _TWO))
    rows = Layout((_ONE, _ONE), (shard(0), REPLICATE))
    sums = Layout((_ONE,), (partial("sum"),))
    sample("distribute", "rows", lambda x: distribute(x, rows, (2, 3)), (2, 3))
    sample("distribute", "sums", lambda x: distribute(x, sums, (2,)), (2,))
    sample("localize", "rows", lambda x: localize(x, rows), (4, 2))
    one = Layout((_ONE,), (shard(0),))
    sample("localize", "again", lambda x: localize(distribute(x, sums, (2,)), one), (2,))
    half = Layout((_TWO,), (shard(0),))
    refuse("distribute", "part", lambda: distribute(blank((2,)), half, (2,)))
    refuse("localize", "axis", lambda: localize(blank(()), half))

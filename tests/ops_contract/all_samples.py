"""The samples of all ops, registered once, whoever imports them."""

from __future__ import annotations

from tests.ops_contract import control_samples as control_samples  # registers its samples
from tests.ops_contract import custom_samples as custom_samples  # and these theirs
from tests.ops_contract import library_samples as library_samples  # and these theirs
from tests.ops_contract.op_samples import REFUSALS, SAMPLES
from tests.ops_contract.rank_samples import of_ranks
from tests.ops_contract.transform_samples import transforms

__all__ = ["REFUSALS", "SAMPLES"]

transforms()  # behind the others, as seeds follow the order
of_ranks()

"""``FullyShardedDataParallel`` and what programs pass to it, over what ``fully_shard`` does."""

from __future__ import annotations

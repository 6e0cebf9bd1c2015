"""StableHLO, the dialect that XLA and IREE take."""

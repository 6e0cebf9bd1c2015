"""Training whose state is divided among ranks: optimizer state (ZeRO-1), gradients (ZeRO-2) and
parameters (ZeRO-3), and checkpoints of such training."""

"""What stands behind PyTorch's names that lazyt itself has no use for: functions that do what
theirs do, and some that change nothing."""

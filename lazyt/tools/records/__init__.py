"""``record``: what a program looked at, to compare with another machine, version or framework."""

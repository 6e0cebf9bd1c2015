"""Control flow that is compiled once: loops over slices, loops with a condition, branches."""

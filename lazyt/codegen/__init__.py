"""From fused groups to kernel IR to C trees to text. Nothing here compiles or runs anything."""

"""The vocabulary: scalar functions and structural operations, one block each."""

"""What factorizations of batches of small matrices mean: their results, memory, and every step."""

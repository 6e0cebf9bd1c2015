"""From a graph over whole values to one over the parts that ranks have, with collectives."""

"""Graph to graph, one file a pass; and fusion, which cuts the graph into groups."""

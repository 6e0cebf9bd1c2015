"""The languages: types, scalar expressions, graph nodes, kernel IR and their text."""

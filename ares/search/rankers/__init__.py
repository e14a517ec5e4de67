"""Ways to compare a query with episodes, one module per kind of evidence."""

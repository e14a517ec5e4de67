"""Annotators: one file per annotator; each is a set of functions that a run calls in batches."""

"""Export: a set as a training dataset that other libraries open."""

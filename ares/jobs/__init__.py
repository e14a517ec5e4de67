"""Jobs: one way to run bulk work, count every item once, survive being killed and say what happened."""
